"""How often each kind of NVML call is made, by what it costs the driver and how fast it changes.

| pace     | seconds    | what                                                  | cost a GPU   |
|----------|------------|-------------------------------------------------------|--------------|
| static   | once       | identity, limits, highest clocks, T-limits            | 0.1 to 5 ms  |
| fast     | every tick | utilization, memory, temperature, power, clocks,      | microseconds |
|          |            | event reasons, byte counters, GPM samples, XID events | to 0.3 ms    |
| steady   | 2          | codecs, fans, margin, time throttled*, process lists, | 5 to 10 ms   |
|          |            | which take the locks of all GPUs                      |              |
| instance | 5          | which MIG instances there are                         | 0.1 ms       |
| slow     | 10         | limits, PCIe link, ECC, retired pages, remapped rows, | 1 to 5 ms    |
|          |            | NVLink states and errors*, fabric, recovery action    |              |
| asked    | 5          | PCIe throughput by call: where a person asks for it   | 40 ms, all   |
|          |            | and neither counters nor GPM tell it                  | of it waited |

What starts slowly (*, and the registration for XIDs) is left out of a first tick, since it tells
nothing before its second reading. A one-shot does not ask for GPM and counters either.
"""

from __future__ import annotations

STATIC_SECONDS = float("inf")
FAST_SECONDS = 0.0
STEADY_SECONDS = 1.9
INSTANCE_SECONDS = 4.9
ASKED_SECONDS = 4.9
SLOW_SECONDS = 9.9
"""Just under a whole number of one-second ticks, so that one that comes early still meets it."""

RETRY_SECONDS = 10.0
"""How long what failed is left alone before it is asked again: a fact, or a whole GPU."""

LOOK_AGAIN_MAX_SECONDS = 600.0
"""How long at most until NVML is opened anew for a GPU that is gone, where no bus can be seen."""

LONG_SECONDS = 0.25
"""A call that takes longer is a slow one; most take microseconds."""
LONG_SHARE = 3
"""A slow one is left alone for so many times as long as it took."""


class Pace:
    """When something is due: at once, and then every so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = 0.0

    def is_due(self, now: float) -> bool:
        """Whether it is time, and if so, count from now to the next one."""
        if now < self._due:
            return False
        self._due = now + self._seconds
        return True
