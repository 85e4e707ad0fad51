"""Hosts as known to a Prometheus or a server with its API: Thanos, Mimir, VictoriaMetrics."""

import warnings

# Such as of a clock that is far off: they would be written over the screen.
warnings.filterwarnings("ignore", module="urllib3")
