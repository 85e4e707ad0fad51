"""The options of nvidia-smi, parsed like its driver 535, and its messages for failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpudash.cli.options import QUERIES
from gpudash.model.errors import NVML_REFUSED, ExitStatus, GpudashError

if TYPE_CHECKING:
    from gpudash.model.device import Device
    from gpudash.model.snapshot import Snapshot

HELP = "Please run 'nvidia-smi -h' for help."
FAILED = 255
"""The status for an invalid option, and for other failures without a number of their own."""
_NO_PERMISSION, _NOT_LOADED, _NO_LIBRARY = 4, 9, 12

_FLAGS = (
    "-h --help|-L --list-gpus|-B --list-excluded-gpus|-q --query -a --all-gpus|-x --xml-format|"
    "-u --unit|--dtd|--version"
)
_VALUED = "-i --id|-g --gpu|-f --filename|-d --display|--format|--debug"
_OPTIONAL = "-l --loop|-lms --loop-ms"
_SET_FLAGS = (
    "-r --gpu-reset|-rgc --reset-gpu-clocks|-rmc --reset-memory-clocks|"
    "-rmcd --reset-memory-clocks-deferred|-rac --reset-applications-clocks "
    "--reset-application-clocks|-caa --clear-accounted-apps|-eow --error-on-warning"
)
_SET_VALUED = (
    "-pm --persistence-mode|-e --ecc-config|-p --reset-ecc-errors|-c --compute-mode|--gom|"
    "-vm --virt-mode|-lgc --lock-gpu-clocks|-m --mode|-lmc --lock-memory-clocks|"
    "-lmcd --lock-memory-clocks-deferred|-ac --applications-clocks --application-clocks|"
    "-acp --applications-clocks-permission|-pl --power-limit|-sc --scope|-cc --cuda-clocks|"
    "-am --accounting-mode|--auto-boost-default|--auto-boost-permission|"
    "-mig --multi-instance-gpu|-gtt --gpu-target-temp|-t --toggle-led|-dm --driver-model|"
    "-fdm --force-driver-model|-psl --performance-state-lock"
)


class Option(NamedTuple):
    """An option: its first spelling, whether it has a value, and whether it changes a GPU."""

    name: str
    value: str
    """`no`, `yes` or `maybe`."""
    sets: bool


def _declared() -> dict[str, Option]:
    """Return the options by each spelling."""
    queries = "|".join(f"--query-{name}" for name in QUERIES)
    helps = "|".join(f"--help-query-{name}" for name in QUERIES)
    kinds = (
        (f"{_FLAGS}|{helps}", "no", False),
        (f"{_VALUED}|{queries}", "yes", False),
        (_OPTIONAL, "maybe", False),
        (_SET_FLAGS, "no", True),
        (_SET_VALUED, "yes", True),
    )
    return {
        spelling: Option(group.split()[0], value, sets)
        for text, value, sets in kinds
        for group in text.split("|")
        for spelling in group.split()
    }


_OPTIONS = _declared()
SETTINGS = frozenset(name for name, option in _OPTIONS.items() if option.sets)
"""The options that change a GPU, in all spellings."""
VERBS_ELSEWHERE = (
    "daemon replay drain c2c clocks encodersessions fbcsessions compute-policy "
    "boost-slider power-hint base-clocks conf-compute gpm power-smoothing power-profiles pci prm "
    "rusd"
)
"""The commands of nvidia-smi, up to driver 590, that `gpudash smi` lacks."""


_OWN_WORDS = "\0"
"""Marks nvidia-smi's own words: of an error in a child, only text and status arrive."""


class SmiError(GpudashError):
    """A message that nvidia-smi prints to stdout before it ends with a nonzero status."""

    def __init__(self, status: int, text: str, end: str = "\n") -> None:
        super().__init__(f"{_OWN_WORDS}{text}{end}")
        self.exit_status = status


class Given(NamedTuple):
    """A word of the command line: an option with its value, or another word."""

    word: str
    option: str = ""
    """Its first spelling; empty for a word that is not an option."""
    value: str | None = None
    sets: bool = False
    """Whether it changes a GPU."""
    lacks_value: bool = False


class Request(NamedTuple):
    """A parsed command line."""

    words: list[str]
    given: list[Given]
    demo: str | None
    """The simulated host to use instead of this one."""

    def value(self, *options: str) -> str | None:
        """Return the value of the last of these options, None if none was given."""
        found = [each.value for each in self.given if each.option in options]
        return found[-1] if found else None

    def has(self, *options: str) -> bool:
        """Whether one of these options was given."""
        return any(each.option in options for each in self.given)


def parse(words: Sequence[str]) -> list[Given]:
    """Return the options with their values, and all other words."""
    given, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        option = _OPTIONS.get(name)
        if option is None:
            given.append(Given(word))
        elif option.value == "no":
            given.append(Given(word if not equals else name, option.name, sets=option.sets))
            if equals:
                given.append(Given(value))
        elif equals:
            given.append(Given(word, option.name, value, option.sets))
        elif rest and (not rest[0].startswith("-") or rest[0][1:].isdecimal()):
            given.append(Given(word, option.name, rest.pop(0), option.sets))
        else:
            lacks_value = option.value == "yes"
            given.append(Given(word, option.name, None, option.sets, lacks_value))
    return given


def missing(given: Given) -> SmiError:
    """Return the error of an option without its value."""
    return SmiError(FAILED, f"ERROR: Option {given.word} is missing its value. {HELP}\n")


def gpu_words(text: str | None) -> list[str]:
    """Return the words of -i; raises SmiError if there are none."""
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if text is not None and not words:
        raise SmiError(FAILED, "Failed to parse device string on command line", end="")
    return words


def chosen_gpus(snapshot: Snapshot, words: Sequence[str]) -> Snapshot:
    """Return the snapshot with the existing, accessible GPUs of -i, or of all without words.

    Raises SmiError for a GPU without a handle: a chosen one, or any if the word is not an index, so
    that all are searched.
    """
    from gpudash.analysis.selection import select, select_existing
    from gpudash.model.snapshot import whole_gpus

    gpus = whole_gpus(snapshot)
    for word in words or [str(index) for index in range(len(gpus))]:
        is_index = word.isdecimal() and int(word) < len(gpus)
        for gpu in [gpus[int(word)]] if is_index else gpus:
            code = _without_handle(gpu)
            if code and code != _NO_PERMISSION:
                if is_index:
                    raise _handle_error(code, f"GPU{gpu.index}")
                text = f"Problem with GPU {gpu.index}: {_NO_HANDLE.get(code, _UNKNOWN)}"
                raise SmiError(FAILED, text)
    chosen = select_existing(snapshot, words)
    readable = [gpu for gpu in whole_gpus(chosen) if not _without_handle(gpu)]
    if not readable:
        text = "No devices were found. Please make sure /dev/nvidia* files are readable by current "
        raise SmiError(_NO_PERMISSION, f"{text}user.")
    return select(chosen, [str(gpu.index) for gpu in readable])


def no_handle(device: Device, name: str) -> SmiError | None:
    """Return the error of a GPU that NVML has no handle for; None if it has one."""
    code = _without_handle(device)
    return _handle_error(code, name) if code else None


def _handle_error(code: int, name: str) -> SmiError:
    text = f"Unable to determine the device handle for {name}: {_NO_HANDLE.get(code, _UNKNOWN)}"
    return SmiError(as_status(code), text)


def as_status(code: int) -> int:
    """Return nvidia-smi's exit status for an NVML error."""
    return code if code in _SAME_STATUS else FAILED


def _without_handle(device: Device) -> int | None:
    """Return NVML's number for why it has no handle; None if it has one, or did not answer."""
    # From the kernel come names, UUIDs and addresses, but no device ids.
    if device.pci_device_id is not None or device.state == "not-answering":
        return None
    return device.fault.code if device.fault else None


def as_there(error: GpudashError) -> tuple[int, str]:
    """Return nvidia-smi's status and words for an error, with the end of its line."""
    own = str(error).removeprefix(_OWN_WORDS)
    if own != str(error):
        return error.exit_status, own
    status, text = _in_its_words(error)
    return status, f"{text}\n"


def _in_its_words(error: GpudashError) -> tuple[int, str]:
    status = error.exit_status
    if status == ExitStatus.NO_GPU:
        return status, "No devices were found"
    if status == _NOT_LOADED:
        text = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        return status, f"{text}Make sure that the latest NVIDIA driver is installed and running.\n"
    if status == _NO_LIBRARY:
        text = "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure "
        text += "that the NVIDIA Display Driver is properly installed and present in your system.\n"
        return (
            status,
            f"{text}Please also try adding directory that contains libnvidia-ml.so to "
            "your system PATH.",
        )
    if status in _INIT_ERRORS:
        from gpudash.output.smi_table import error_text

        return as_status(status), f"Failed to initialize NVML: {error_text(status)}"
    return status, str(error)


_INIT_ERRORS = (NVML_REFUSED | {1, 999}) - {ExitStatus.NO_ANSWER}
"""Statuses for a failed initialization of NVML; without an answer, nvidia-smi never ends."""
_SAME_STATUS = frozenset({*range(2, 20), 23}) - {5, 7, 10, 16}
_UNKNOWN = "Unknown Error"
_NO_HANDLE = {
    _NO_PERMISSION: "Insufficient Permissions",
    15: "GPU is lost.  Reboot the system to recover this GPU\n\n",
    16: "A GPU reset must occur before this GPU can be used again.\n\n.",
}
"""nvidia-smi's words for why NVML has no handle of a GPU."""
