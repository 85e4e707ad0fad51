"""A day of made-up hosts with known events, as a Prometheus would have stored it."""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

HOSTS, GPUS, SECONDS, SCRAPE = 16, 4, 86_400, 30
_CODES = (13, 31, 43, 48, 63, 74, 79, 94)


class Happened(NamedTuple):
    """Something that happens in that day: what `gpudash events` is to find."""

    at: float
    kind: str
    host: str | None
    gpu: int | None = None
    job: str | None = None
    xid: int | None = None


class Day:
    """Sixteen hosts of four GPUs; all that happens follows from a seed."""

    def __init__(self, start: float, seed: int = 1) -> None:
        self.start = start
        self._random = Random(seed)
        self.happened: list[Happened] = []
        self._down: dict[int, tuple[float, float]] = {}
        self._lost: dict[tuple[int, int], tuple[float, float]] = {}
        self._hot: dict[tuple[int, int], tuple[float, float]] = {}
        self._xids: dict[tuple[int, int], tuple[float, int]] = {}
        self._jobs: dict[int, list[tuple[float, float, str]]] = {}
        self._plan_jobs()
        self._plan_faults()
        self.happened.sort()

    def _plan_jobs(self) -> None:
        """Two hosts beside each other have the same jobs, some of them with a pause between."""
        for pair in range(0, HOSTS, 2):
            at, number = -3600.0, 0
            while at < SECONDS - 4 * 3600:
                end = at + self._random.randrange(120, 480) * 60
                job = str(1000 * (pair + 1) + number)
                for host in (pair, pair + 1):
                    self._jobs.setdefault(host, []).append((at, end, job))
                self._note(at, "job-began", None, job=job)
                self._note(end, "job-ended", None, job=job)
                at, number = end + self._random.choice((0, 0, 1800)), number + 1

    def _plan_faults(self) -> None:
        hosts = [*range(HOSTS)]
        self._random.shuffle(hosts)
        for host in hosts[:6]:
            job = max(self._jobs[host], key=lambda each: min(each[1], SECONDS) - max(each[0], 0))
            # A job that ends with its host would end when that is seen again.
            at = max(job[0], 0) + 1800.0
            self._down[host] = at, at + self._random.randrange(600, 2400)
            self._note(at, "host-down", host)
            self._note(self._down[host][1], "host-up", host)
        others = [(host, gpu) for host in hosts[6:] for gpu in range(GPUS)]
        self._random.shuffle(others)
        for host, gpu in others[:14]:
            at = float(self._random.randrange(3600, SECONDS - 7200))
            end = at + self._random.choice((1200, 3600, 2 * SECONDS))
            self._lost[host, gpu] = at, end
            self._note(at, "gpu-lost", host, gpu)
            self._note(end, "gpu-returned", host, gpu)
        for host, gpu in others[14:26]:
            at, code = (
                float(self._random.randrange(600, SECONDS - 600)),
                self._random.choice(_CODES),
            )
            self._xids[host, gpu] = at, code
            self._note(at, "xid", host, gpu, xid=code)
        for host, gpu in others[26:36]:
            at = float(self._random.randrange(600, SECONDS - 3600))
            self._hot[host, gpu] = at, at + self._random.randrange(600, 1800)
            self._note(at, "throttled", host, gpu)
            self._note(self._hot[host, gpu][1], "unthrottled", host, gpu)

    def _note(
        self,
        at: float,
        kind: str,
        host: int | None,
        gpu: int | None = None,
        *,
        job: str | None = None,
        xid: int | None = None,
    ) -> None:
        if 0 < at < SECONDS:
            name = None if host is None else f"node{host:02}"
            self.happened.append(Happened(self.start + at, kind, name, gpu, job, xid))

    def lines(self) -> Iterator[str]:
        """Yield it as OpenMetrics."""
        for host in range(HOSTS):
            for gpu in range(GPUS):
                yield from self._gpu(host, gpu)
        yield "# EOF\n"

    def _gpu(self, host: int, gpu: int) -> Iterator[str]:
        down, lost = self._down.get(host), self._lost.get((host, gpu))
        xid_at, code = self._xids.get((host, gpu), (float("inf"), 0))
        hot, heat = self._hot.get((host, gpu), (0.0, 0.0)), 0
        for at in range(host % SCRAPE, SECONDS + 1, SCRAPE):
            heat += 1_000_000 * (hot[0] <= at < hot[1])
            if any(span is not None and span[0] <= at < span[1] for span in (down, lost)):
                continue
            jobs = [job for since, end, job in self._jobs[host] if since <= at < end]
            labels = f'gpu="{gpu}",UUID="GPU-{host}-{gpu}",Hostname="node{host:02}"'
            labels += f',instance="node{host:02}:9400",job="dcgm-exporter"'
            labels += f',hpc_job="{jobs[0]}"' if jobs else ""
            moment = self.start + at
            yield f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {90 if jobs else 0} {moment}\n"
            last = code if at >= xid_at else 0
            yield f'DCGM_FI_DEV_XID_ERRORS{{{labels},err_code="{last}"}} {last} {moment}\n'
            yield f"DCGM_FI_DEV_THERMAL_VIOLATION{{{labels}}} {heat} {moment}\n"
