"""A made-up fleet as its exporters show it: every number follows from the host, GPU and time.

`FLEET` has one host of each dialect and trap. `Gpu.does` is what a perfect reader would find.
"""

from collections.abc import Iterator
from typing import NamedTuple

Labels = dict[str, str]
Sample = tuple[str, Labels, float]

MIB = 1 << 20
TOTAL_MIB, RESERVED_MIB = 81_559, 551
_LASTS_SECONDS = 600.0
"""How long it goes on after the instant at which it was written: what reads it may come late."""
DOWN_SECONDS = 900
"""How long the lost and the down are gone, and the frozen repeat themselves."""
FRESH_SECONDS = 400
"""How long the job runs that has not computed yet."""


class Gpu(NamedTuple):
    """A GPU and what it does all the time."""

    index: int
    does: str = "busy"
    """`steady` computes, since a while without a change of its power.

    `unopened` has a job, since a while, that uses nothing of it.
    """
    xid: int = 0
    xid_seconds: float = 1e9
    """How long ago the error was."""
    mig: tuple[int, ...] = ()
    """GPU instance ids; the first of them computes."""
    pods: int = 1
    """How many share it by time."""
    fresh_seconds: float = FRESH_SECONDS
    """How long its job runs, if that has not computed yet, or is `unopened`."""
    lost_seconds: float = DOWN_SECONDS
    """How long it is gone, if it is lost."""
    card: int | None = None
    """What its UUID ends with, if that is not its index."""
    away: tuple[tuple[float, float], ...] = ()
    """When it was gone before, from so many seconds ago to so many; then it is without an error."""


class Host(NamedTuple):
    name: str
    dialect: str = "dcgm"
    gpus: tuple[Gpu, ...] = (Gpu(0), Gpu(1, "free"))
    cluster: str = ""
    is_down: bool = False
    is_frozen: bool = False
    address: str = ""
    """What the exporter calls its host, if that is not the name."""
    down_seconds: float = DOWN_SECONDS
    """How long it is down, or frozen, if it is."""
    began_seconds: float = 1e9
    """How long its exporter has had this name."""
    ended_seconds: float = 0.0
    """How long ago it was given another one, and was no target any more."""
    board: str = ""
    """What the UUIDs of its GPUs are of, if that is not the name."""
    away: tuple[tuple[float, float], ...] = ()
    """When it was down before, from so many seconds ago to so many."""

    def is_away(self, at: float, now: float) -> bool:
        """Whether it was down at an instant, and is up again."""
        return _is_in(self.away, now - at)

    @property
    def shown(self) -> str:
        """The name that can be known."""
        return self.address or self.name

    @property
    def target(self) -> Labels:
        """What Prometheus adds: the labels of the target."""
        port, job = {"smi": (9835, "nvidia_gpu_exporter"), "nvitop": (8000, "nvitop-exporter")}.get(
            self.dialect, (9400, "dcgm-exporter")
        )
        labels = {"job": job, "instance": f"{self.shown}:{port}", "rack": f"r{len(self.name)}"}
        return {**labels, "cluster": self.cluster} if self.cluster else labels

    def is_target(self, at: float, now: float) -> bool:
        """Whether it is scraped at an instant."""
        return now - self.began_seconds < at <= now - self.ended_seconds


FLEET = (
    Host("old1", gpus=(Gpu(0), Gpu(1, "free"), Gpu(2, "lost"), Gpu(3, "held-idle"))),
    Host("old2", gpus=(Gpu(0, "allocated-unused"), Gpu(1, "fresh-job"), Gpu(2, pods=3))),
    Host("xid1", gpus=(Gpu(0, xid=79, xid_seconds=600), Gpu(1, xid=31))),
    Host("mig1", gpus=(Gpu(0, mig=(7, 8)), Gpu(1, "free"))),
    Host("down1", is_down=True),
    Host("frozen1", is_frozen=True),
    Host("newer1", "dcgm483", (Gpu(0), Gpu(1, "held-idle"))),
    Host("new1", "dcgm49", (Gpu(0), Gpu(1, "free"), Gpu(2, "held-idle"), Gpu(3, "lost"))),
    Host("trap1", "dcgm46", (Gpu(0), Gpu(1, "held-idle"))),
    Host("smi1", "smi", (Gpu(0), Gpu(1, "held-idle"), Gpu(2, xid=79, xid_seconds=600))),
    Host("nvitop1", "nvitop", (Gpu(0), Gpu(1, "held-idle")), address="10.0.0.7"),
    Host("twin", gpus=(Gpu(0),), cluster="east"),
    Host("twin", gpus=(Gpu(0, "free"),), cluster="west"),
)


def _is_in(spans: tuple[tuple[float, float], ...], seconds: float) -> bool:
    return any(first >= seconds > last for first, last in spans)


def uuid(host: Host, gpu: Gpu) -> str:
    card = gpu.index if gpu.card is None else gpu.card
    return f"{host.cluster}{host.board or host.name}-{card}"


def samples(host: Host, at: float, now: float) -> Iterator[Sample]:
    """Yield what the exporter of a host shows at `at`, seen from `now`."""
    if host.is_away(at, now) or (host.is_down and at > now - host.down_seconds):
        return
    if host.is_frozen:
        at = min(at, now - host.down_seconds)
    for gpu in host.gpus:
        if not _is_in(gpu.away, now - at) and (gpu.does != "lost" or at <= now - gpu.lost_seconds):
            yield from _EXPORTERS[host.dialect](host, gpu, at, now)


def page(host: Host, now: float) -> str:
    return "".join(
        f"{name}{_braces(labels)} {value!r}\n" for name, labels, value in samples(host, now, now)
    )


def history(
    hosts: tuple[Host, ...], now: float, seconds: float, step: float, recorded: Labels
) -> Iterator[str]:
    """Yield lines of OpenMetrics as Prometheus stores it, with what it has of each scrape.

    `recorded` are other names.
    """
    for host in hosts:
        for number in range(int(seconds // step), -int(_LASTS_SECONDS // step) - 1, -1):
            at = now - number * step
            if not host.is_target(at, now):
                continue
            found = list(samples(host, at, now))
            is_up = not (host.is_down and at > now - host.down_seconds) and not host.is_away(
                at, now
            )
            yield f"up{_braces(host.target)} {int(is_up)} {at:.3f}\n"
            yield f"scrape_samples_scraped{_braces(host.target)} {len(found)} {at:.3f}\n"
            for name, labels, value in found:
                known = recorded.get(name, name)
                yield line(known, _stored(labels, host.target), value, at)
    yield "# EOF\n"


def line(name: str, labels: Labels, value: float, at: float) -> str:
    return f"{name}{_braces(labels)} {value!r} {at:.3f}\n"


def _stored(labels: Labels, target: Labels) -> Labels:
    own = {f"exported_{name}" if name in target else name: labels[name] for name in labels}
    return {**own, **target}


def _braces(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def _values(gpu: Gpu, at: float, now: float) -> dict[str, float]:
    """Return utilization in percent, memory in MiB, watts, degrees and MHz."""
    noise = at % 97 / 97
    has_job = gpu.does != "fresh-job" or at > now - gpu.fresh_seconds
    util = 70 + round(20 * noise) if gpu.does in ("busy", "lost", "steady") else 0
    held = gpu.does in ("busy", "lost", "steady", "held-idle", "fresh-job") and has_job
    is_steady = gpu.does == "steady" and at > now - DOWN_SECONDS
    used = 50_000 if held else 4
    was_reset = any(now - at <= last for _, last in gpu.away)
    xid = gpu.xid if at > now - gpu.xid_seconds and not was_reset else 0
    return {
        "util": util,
        "used": used,
        "free": TOTAL_MIB - RESERVED_MIB - used,
        "watts": 150 if is_steady else 60 + 4 * util + noise,
        "degrees": 30 + util // 3,
        "mhz": 1980,
        "xid": xid,
        "tensor": util / 200,
    }


_DCGM = {
    "util": ("DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO", 0.01),
    "used": ("DEV_FB_USED", "DEV_FB_USED_BYTES", MIB),
    "free": ("DEV_FB_FREE", "DEV_FB_FREE_BYTES", MIB),
    "reserved": ("DEV_FB_RESERVED", "DEV_FB_RESERVED_BYTES", MIB),
    "watts": ("DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS", 1),
    "degrees": ("DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS", 1),
    "mhz": ("DEV_SM_CLOCK", "DEV_SM_CLOCK_HERTZ", 1e6),
    "xid": ("DEV_XID_ERRORS", "DEV_XID_ERROR", 1),
    "engine": ("PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO", 1),
    "tensor": ("PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO", 1),
}  # fmt: skip


def _dcgm(host: Host, gpu: Gpu, at: float, now: float) -> Iterator[Sample]:
    values = {**_values(gpu, at, now), "reserved": RESERVED_MIB}
    values["engine"] = values["util"] / 100
    is_new = host.dialect == "dcgm49"
    labels = {"gpu": str(gpu.index), "UUID": f"GPU-{uuid(host, gpu)}", "modelName": "H100"}
    labels["Hostname" if host.dialect in ("dcgm", "dcgm46") else "hostname"] = host.name
    labels[f"DCGM_FI_{'SYSTEM_' * is_new}DRIVER_VERSION"] = "550.1"
    has_job = gpu.does != "free" and (
        gpu.does not in ("fresh-job", "unopened") or at > now - gpu.fresh_seconds
    )
    pod = {"pod": f"train-{gpu.index}", "namespace": f"team-{host.name}"} if has_job else {}
    for key, (old, new, factor) in _DCGM.items():
        value = values[key] * (factor if is_new else 1)
        name = f"DCGM_FI_{new if is_new else old}"
        if host.dialect == "dcgm46" and key == "util":
            name = "DCGM_FI_DEV_GPU_UTIL_RATIO"
        if gpu.mig:
            if key != "util":
                yield from _instances(name, {**labels, **pod}, value, gpu, key)
        elif gpu.pods > 1 and key in ("util", "used"):
            yield name, labels, value
            for number in range(gpu.pods):
                share = {
                    "pod": f"slice-{number}",
                    "namespace": "team-slices",
                    "pod_uid": str(number),
                }
                yield name, {**labels, **share}, value / (number + 2)
        else:
            yield name, {**labels, **pod}, value


def _instances(name: str, labels: Labels, value: float, gpu: Gpu, key: str) -> Iterator[Sample]:
    for number, instance in enumerate(gpu.mig):
        own = {**labels, "GPU_I_ID": str(instance), "GPU_I_PROFILE": "1g.10gb"}
        is_shared = key in ("watts", "degrees", "mhz")
        yield name, own, value if is_shared or number == 0 else 0.0


def _smi(host: Host, gpu: Gpu, at: float, now: float) -> Iterator[Sample]:
    values = _values(gpu, at, now)
    labels = {"uuid": uuid(host, gpu)}
    yield "nvidia_smi_utilization_gpu_ratio", labels, values["util"] / 100
    yield "nvidia_smi_memory_used_bytes", labels, values["used"] * MIB
    yield "nvidia_smi_memory_total_bytes", labels, TOTAL_MIB * MIB
    yield "nvidia_smi_power_draw_watts", labels, values["watts"]
    yield "nvidia_smi_temperature_gpu", labels, values["degrees"]
    info = {"index": str(gpu.index), "name": "H100", "driver_version": "550.1"}
    yield "nvidia_smi_gpu_info", {**labels, **info}, 1
    if values["xid"]:
        last = {**labels, "xid": str(gpu.xid)}
        yield "nvidia_smi_xid_last_timestamp_seconds", last, now - gpu.xid_seconds


def _nvitop(host: Host, gpu: Gpu, at: float, now: float) -> Iterator[Sample]:
    values = _values(gpu, at, now)
    labels = {"hostname": host.address, "index": str(gpu.index), "devicename": "H100"}
    labels["uuid"] = f"GPU-{uuid(host, gpu)}"
    yield "gpu_utilization_Percentage", labels, float(values["util"])
    yield "gpu_memory_used_MiB", labels, values["used"]
    yield "gpu_memory_total_MiB", labels, TOTAL_MIB
    yield "gpu_power_usage_W", labels, values["watts"]
    yield "gpu_temperature_C", labels, float("nan")
    yield "process_gpu_memory_MiB", {**labels, "pid": "7", "username": "ada"}, values["used"]


_EXPORTERS = {
    "dcgm": _dcgm,
    "dcgm483": _dcgm,
    "dcgm46": _dcgm,
    "dcgm49": _dcgm,
    "smi": _smi,
    "nvitop": _nvitop,
}
