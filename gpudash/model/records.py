"""What the driver keeps about a GPU: errors, retired pages, ended processes, clocks, links."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from msgspec import Struct

from gpudash.model.fields import Amount, Group, Index, Natural, Seconds, metric
from gpudash.model.text import SafeText
from gpudash.model.units import Unit, duration, readable, size

_reliability = partial(metric, Group.RELIABILITY)
_process = partial(metric, Group.PROCESS)
_clocks = partial(metric, Group.CLOCKS)
_nvlink = partial(metric, Group.NVLINK)
_utilization = partial(metric, Group.UTILIZATION)


class EccLocation(Struct, frozen=True, kw_only=True):
    """Memory errors in one kind of memory of a GPU."""

    # fmt: off
    name: Annotated[str, _reliability(Unit.NONE,
        "device-memory (DRAM), sram, register-file, l1-cache, l2-cache, texture-memory, "
        "texture-shared or cbu.")]
    corrected_volatile_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Corrected since the driver was loaded.")] = None
    uncorrected_volatile_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Uncorrected since the driver was loaded.")] = None
    corrected_aggregate_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Corrected over the lifetime of the board.")] = None
    uncorrected_aggregate_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Uncorrected over the lifetime of the board.")] = None
    # fmt: on

    def __str__(self) -> str:
        """Return `sram 7 corrected, 0 uncorrected (17, 0 in its lifetime)`."""
        volatile = self.corrected_volatile_count, self.uncorrected_volatile_count
        aggregate = self.corrected_aggregate_count, self.uncorrected_aggregate_count
        now = " corrected, ".join(map(readable, volatile))
        ever = ", ".join(map(readable, aggregate))
        return f"{self.name} {now} uncorrected ({ever} in its lifetime)"


Banks = tuple[Natural, Natural, Natural, Natural, Natural]
"""Number of memory banks by remaining spare rows: from all to none."""


class SramErrors(Struct, frozen=True, kw_only=True):
    """Errors in the SRAM of a GPU, the uncorrected ones in detail (Ampere and newer)."""

    # fmt: off
    corrected_volatile_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Corrected since the driver was loaded.")] = None
    corrected_aggregate_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Corrected over the lifetime of the board.")] = None
    parity_volatile_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Found by parity since the driver was loaded.")] = None
    secded_volatile_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Found by SEC-DED since the driver was loaded.")] = None
    parity_aggregate_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Found by parity over the lifetime of the board.")] = None
    secded_aggregate_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Found by SEC-DED over the lifetime of the board.")] = None
    l2_aggregate_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "In the L2 cache.")] = None
    sm_aggregate_count: Annotated[Natural | None, _reliability(Unit.COUNT, "In the SMs.")] = None
    microcontroller_aggregate_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "In the microcontrollers.")] = None
    pcie_aggregate_count: Annotated[Natural | None, _reliability(Unit.COUNT, "In PCIe.")] = None
    other_aggregate_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Elsewhere.")] = None
    threshold_exceeded: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether there were so many that the board is to be replaced.")] = None
    # fmt: on

    def __str__(self) -> str:
        """Return `0 by parity, 3 by SEC-DED (0, 7 in its lifetime)`."""
        now = readable(self.parity_volatile_count), readable(self.secded_volatile_count)
        ever = readable(self.parity_aggregate_count), readable(self.secded_aggregate_count)
        worn = ", too many" if self.threshold_exceeded else ""
        return f"{now[0]} by parity, {now[1]} by SEC-DED ({', '.join(ever)} in its lifetime{worn})"


class RetiredPage(Struct, frozen=True, kw_only=True):
    """A page of device memory that is no longer used."""

    # fmt: off
    address: Annotated[Natural, _reliability(Unit.NONE, "Where it is in device memory.")]
    cause: Annotated[Literal["single-bit", "double-bit"], _reliability(Unit.NONE,
        "single-bit (several corrected errors) or double-bit (an uncorrected one).")]
    retired_at: Annotated[Seconds | None, _reliability(Unit.SECOND,
        "Unix time of its retirement, null if the driver does not tell.")] = None
    # fmt: on

    def __str__(self) -> str:
        """Return `0x1000 (double-bit)`."""
        return f"{self.address:#x} ({self.cause})"


class AccountedProcess(Struct, frozen=True, kw_only=True):
    """What the driver kept of a process, which may have ended; its PID may be another's by now."""

    # fmt: off
    pid: Annotated[Index, _process(Unit.NONE, "PID on the host.")]
    is_running: Annotated[bool, _process(Unit.NONE, "Whether it still runs.")] = False
    gpu_utilization_percent: Annotated[Natural | None, _process(Unit.PERCENT,
        "Share of its lifetime in which it computed.")] = None
    memory_utilization_percent: Annotated[Natural | None, _process(Unit.PERCENT,
        "Share of its lifetime in which it read or wrote device memory.")] = None
    max_gpu_memory_bytes: Annotated[Natural | None, _process(Unit.BYTE,
        "The most device memory that it held at once.")] = None
    active_seconds: Annotated[Seconds | None, _process(Unit.SECOND,
        "How long its context existed; null while it runs.")] = None
    started_at: Annotated[Seconds | None, _process(Unit.SECOND,
        "Unix time at which its context was created.")] = None
    # fmt: on

    def __str__(self) -> str:
        """Return `PID 4242 5.0 GiB at most, 71% busy, for 1m01s`."""
        most = size(self.max_gpu_memory_bytes)
        busy = readable(self.gpu_utilization_percent, Unit.PERCENT)
        lasted = "still running" if self.is_running else f"for {duration(self.active_seconds)}"
        return f"PID {self.pid} {most} at most, {busy} busy, {lasted}"


class SupportedClocks(Struct, frozen=True, kw_only=True):
    """The graphics clocks that can be set at one memory clock."""

    # fmt: off
    memory_clock_mhz: Annotated[Natural, _clocks(Unit.MEGAHERTZ, "Memory clock.")]
    graphics_clocks_mhz: Annotated[tuple[Natural, ...], _clocks(Unit.MEGAHERTZ,
        "Graphics clocks, the highest first.")]
    # fmt: on


class SampleBuffer(Struct, frozen=True, kw_only=True):
    """The driver's own samples of one measure over the last seconds."""

    # fmt: off
    name: Annotated[str, _utilization(Unit.NONE,
        "power or module-power (mW), gpu, memory, encoder, decoder, jpeg or ofa (percent), "
        "sm-clock or memory-clock (MHz).")]
    seconds: Annotated[Seconds, _utilization(Unit.SECOND, "From the first sample to the last.")]
    count: Annotated[Natural, _utilization(Unit.COUNT, "How many samples there are.")]
    max: Annotated[Natural, _utilization(Unit.NONE, "The highest.")]
    min: Annotated[Natural, _utilization(Unit.NONE, "The lowest.")]
    average: Annotated[Amount, _utilization(Unit.NONE, "Their mean.")]
    # fmt: on


class NvLink(Struct, frozen=True, kw_only=True):
    """One NVLink of a GPU."""

    # fmt: off
    number: Annotated[Index, _nvlink(Unit.NONE, "Its number on the GPU.")]
    is_active: Annotated[bool | None, _nvlink(Unit.NONE, "Whether it is up.")] = None
    max_bytes_per_second: Annotated[Natural | None, _nvlink(Unit.BYTE_PER_SECOND,
        "What it carries each way; null unless it is up.")] = None
    replay_count: Annotated[Natural | None, _nvlink(Unit.COUNT, "Packets sent again.")] = None
    recovery_count: Annotated[Natural | None, _nvlink(Unit.COUNT,
        "Times that it was trained again.")] = None
    crc_error_count: Annotated[Natural | None, _nvlink(Unit.COUNT,
        "Packets with a wrong checksum.")] = None
    remote_pci_bus_id: Annotated[SafeText | None, _nvlink(Unit.NONE,
        "PCI address of the GPU or switch that it leads to; null unless it is up.")] = None
    remote_link: Annotated[Index | None, _nvlink(Unit.NONE, "Its number there.")] = None
    data_tx_kib: Annotated[Natural | None, _nvlink(Unit.COUNT,
        "KiB of payload that were sent.")] = None
    data_rx_kib: Annotated[Natural | None, _nvlink(Unit.COUNT,
        "KiB of payload that were received.")] = None
    raw_tx_kib: Annotated[Natural | None, _nvlink(Unit.COUNT,
        "KiB that were sent, with the protocol.")] = None
    raw_rx_kib: Annotated[Natural | None, _nvlink(Unit.COUNT,
        "KiB that were received, with the protocol.")] = None
    capabilities: Annotated[tuple[str, ...] | None, _nvlink(Unit.NONE,
        "Of p2p, system-memory, p2p-atomics, system-memory-atomics, sli and link, those that it "
        "has.")] = None
    # fmt: on
