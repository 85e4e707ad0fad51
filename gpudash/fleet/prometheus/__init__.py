"""Hosts as a Prometheus knows them, or what speaks its API: Thanos, Mimir, VictoriaMetrics."""

import warnings

# Such as of a clock that is far off: they would be written over the screen.
warnings.filterwarnings("ignore", module="urllib3")
