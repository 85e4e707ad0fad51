"""The branches of drivers, and the layout of nvidia-smi's table since each of them.

Taken from the output of nvidia-smi under 535, 545, 550 to 580, 590, 595 and 610, with MIG instances
under all of them but 545, 565, 575 and 595. Any other branch uses the layout of the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gpudash.model.snapshot import Snapshot

_BRANCH = 535
"""The driver branch whose nvidia-smi the tables of this package follow."""
NEW_BRANCH = 580
"""The oldest driver branch whose nvidia-smi was seen to write like the newest."""


def branch(snapshot: Snapshot) -> int:
    """Return the driver's branch, 535 for `535.261.03`; that of the tables if unknown."""
    number = (snapshot.host.driver_version or "").partition(".")[0]
    return int(number) if number.isdecimal() else _BRANCH


class SmiLayout(Struct, frozen=True):
    """The differences between branches as fields, and the lines that follow from them."""

    banner: str = "Driver Version: {driver}   CUDA Version: {cuda}"
    """The text after nvidia-smi's own version."""
    top_edge: str = "|"
    """The beginning of the rule below that."""
    size_cells: int = 5
    """Width of a size in MiB."""
    power_cells: int = 4
    absent_usage: str = ">"
    """Alignment of an absent power draw."""
    pid_cells: int = 8
    instance_engines: tuple[str, str] = ("     Shared           ", "CE ENC DEC OFA JPG    ")
    repeats_memory: bool = False
    """Whether each compute instance shows the memory that it shares, not only the first one."""
    bar1_indent: int = 10
    gap: str = " " * 89
    """The line before the processes."""

    @property
    def memory_cells(self) -> int:
        """Return the width of the used and the total memory."""
        return 2 * self.size_cells + 10

    @property
    def gain(self) -> int:
        """Return how much wider the lines and the memory column are than in 535."""
        return self.memory_cells - 20

    @property
    def width(self) -> int:
        """Return the width of a line between its edges."""
        return self.memory_cells + 67

    @property
    def rule(self) -> str:
        """Return the line around parts."""
        return f"+{'-' * self.width}+"

    @property
    def below_gpu(self) -> str:
        """Return the line below each GPU."""
        return f"+{self._columns('-')}+"

    def below_instance(self, is_open: bool = False) -> str:
        """Return the line below a MIG instance; it is open between those that share memory."""
        fill = " " if is_open else "-"
        return f"+{'-' * 18}+{fill * (32 + self.gain)}+{'-' * 11}+{'-' * 23}+"

    def gpu_headings(self, driver: str, cuda: str) -> Iterator[str]:
        """Yield the lines above the GPUs, from the versions on."""
        yield self.rule
        versions = self.banner.format(driver=driver, cuda=cuda)
        yield f"| NVIDIA-SMI {driver}             {versions} |"
        yield f"{self.top_edge}{self._columns('-')}+"
        cells = self.memory_cells
        bus, memory = f"{'Bus-Id':<{cells - 6}}Disp.A", f"{'Memory-Usage':>{cells}}"
        yield f"| GPU  Name                 Persistence-M | {bus} | Volatile Uncorr. ECC |"
        yield f"| Fan  Temp   Perf          Pwr:Usage/Cap | {memory} | GPU-Util  Compute M. |"
        yield f"|{'':41}| {'':{cells}} |               MIG M. |"
        yield f"|{self._columns('=')}|"

    def instance_headings(self) -> Iterator[str]:
        """Yield the lines above the MIG instances."""
        yield self.rule
        yield f"| {'MIG devices:':<{self.width - 1}}|"
        yield self.below_instance()
        cells, shared = 30 + self.gain, "Shared " * self.repeats_memory
        memory, bar1 = (f"{shared}{name}-Usage".rjust(cells) for name in ("Memory", "BAR1"))
        heading, engines = self.instance_engines
        yield f"| GPU  GI  CI  MIG | {memory} |        Vol| {heading}|"
        yield f"|      ID  ID  Dev | {bar1} | SM     Unc| {engines}|"
        yield f"|{'':18}| {'':{cells}} |        ECC|{'':23}|"
        yield f"|{'=' * 18}+{'=' * (cells + 2)}+{'=' * 11}+{'=' * 23}|"

    def process_headings(self) -> Iterator[str]:
        """Yield the lines above the processes."""
        yield self.rule
        yield f"| {'Processes:':<{self.width - 1}}|"
        name = f"{'Process name':<{self.width - self.pid_cells - 39}}"
        yield f"|  GPU   GI   CI   {'PID':>{self.pid_cells}}   Type   {name}GPU Memory |"
        yield f"|{'        ID   ID':<{self.width - 11}}Usage      |"
        yield f"|{'=' * self.width}|"

    def _columns(self, fill: str) -> str:
        return "+".join(fill * cells for cells in (41, self.memory_cells + 2, 22))


_OLD = SmiLayout()
_550 = replace(
    _OLD,
    banner="Driver Version: {driver}     CUDA Version: {cuda}",
    size_cells=6,
    power_cells=5,
    bar1_indent=12,
)
_560 = replace(_550, instance_engines=("       Shared         ", "CE ENC  DEC  OFA  JPG "))
_570 = replace(_560, pid_cells=14, absent_usage="<")
_580 = replace(_570, top_edge="+", repeats_memory=True, bar1_indent=10, gap="")
_610 = replace(_580, banner="KMD Version: {driver}    CUDA UMD Version: {cuda}")
_LAYOUTS: Mapping[int, SmiLayout] = {610: _610, 580: _580, 570: _570, 560: _560, 550: _550, 0: _OLD}
"""By the branch since which they apply, the newest first."""


def layout_of(snapshot: Snapshot) -> SmiLayout:
    """Return the layout of the host's driver."""
    release = branch(snapshot)
    return next(layout for since, layout in _LAYOUTS.items() if release >= since)
