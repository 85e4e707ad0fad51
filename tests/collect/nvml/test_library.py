import sys
from ctypes import c_uint
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import FieldAnswer, Library, listed, load
from gpudash.model.errors import GpudashError
from tests.collect.nvml.tampering import Machine
from tests.fakenvml.asking import ask

UNSIGNED_SHORT, UNKNOWN_TYPE = 6, 99


def entry(number: int, **members: int) -> SimpleNamespace:
    return SimpleNamespace(
        fieldId=number,
        scopeId=0,
        nvmlReturn=members.pop("code", 0),
        valueType=members.pop("kind", 1),
        timestamp=5,
        value=SimpleNamespace(**members),
    )


def library_that_answers(*entries: SimpleNamespace) -> Library:
    driver = Machine("single").driver
    driver.replaced["nvmlDeviceGetFieldValues"] = lambda *_: list(entries)
    return Library(driver)


def test_each_value_is_read_by_its_type() -> None:
    library = library_that_answers(entry(1, uiVal=3), entry(2, kind=UNSIGNED_SHORT, usVal=4))
    assert library.fields(None, []).values == {(1, 0): FieldAnswer(3, 5), (2, 0): FieldAnswer(4, 5)}


def test_a_value_of_a_type_that_pynvml_does_not_know_is_absent() -> None:
    answers = library_that_answers(entry(1, kind=UNKNOWN_TYPE), entry(2, uiVal=1)).fields(None, [])
    assert answers.values == {(2, 0): FieldAnswer(1, 5)}
    assert answers.refused == frozenset()


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        (codes.NOT_SUPPORTED, True),
        (codes.FUNCTION_NOT_FOUND, True),
        (codes.INVALID_ARGUMENT, True),
        (codes.UNKNOWN, False),
        (codes.NO_PERMISSION, False),
    ],
)
def test_fields_that_a_device_never_has_are_distinguished(code: int, refused: bool) -> None:
    answers = library_that_answers(entry(1, code=code)).fields(None, [])
    assert not answers.values
    assert answers.refused == ({(1, 0)} if refused else set())


@pytest.mark.parametrize(
    ("nvml", "driver", "expected"),
    [
        # Under WSL the driver is of Windows, and counts its releases by itself.
        ("13.580.65.06", "580.97", 251),
        ("13.580.95.05", "581.15", 269),
        ("", "575.57.08", 251),
        ("13.unknown", "nothing", 269),
    ],
)
def test_the_librarys_own_version_says_how_fields_are_numbered(
    nvml: str, driver: str, expected: int
) -> None:
    asked: list[tuple[int, int]] = []

    def answer(_handle: object, ids: list[tuple[int, int]]) -> list[SimpleNamespace]:
        asked.extend(ids)
        return [entry(number, uiVal=7) for number, _ in ids]

    module = Machine("single").driver
    module.replaced["nvmlSystemGetNVMLVersion"] = lambda: nvml
    module.replaced["nvmlSystemGetDriverVersion"] = lambda: driver
    module.replaced["nvmlDeviceGetFieldValues"] = answer
    library = Library(module)
    library.open()
    assert library.fields(None, [(269, 0)]).values == {(269, 0): FieldAnswer(7, 5)}
    assert asked == [(expected, 0)]


def test_pynvml_has_every_name_that_is_read(fakenvml: Path) -> None:
    states, absent = ask(
        fakenvml,
        """
        !from gpudash.collect.nvml.bus import PciBus
        !from gpudash.collect.nvml.library import Library
        !from gpudash.collect.nvml.reader import NvmlReader
        !from gpudash.model.device import Device
        !absent = set()
        !found = lambda _, name: (hasattr(N, name) or absent.add(name), getattr(N, name))[1]
        !module = type("Module", (), {"__getattr__": found})()
        !all = {*Device.__struct_fields__, "processes"}
        !libraries = [Library(module, pcie_throughput=True), Library(module, wanted=all)]
        !readers = [NvmlReader(library, PciBus()) for library in libraries]
        [reader.read().devices[2].state for reader in readers for _ in range(3)]
        sorted(absent)
        """,
        prelude="",
        DEVICES=2,
        MIG=1,
        GPM=1,
        GRACE=1,
        WORN=1,
        FABRIC=3,
        PROCS_PER_DEVICE=1,
    )
    assert states == ["ok"] * 6
    # Before 13.595 this is what pynvml calls under the name without a version.
    assert set(absent) <= {"nvmlDeviceGetDriverModel_v1"}


def test_another_module_of_that_name_is_reported_and_not_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", ModuleType("pynvml"))
    with pytest.raises(GpudashError, match=r"pip install -U --force-reinstall nvidia-ml-py$"):
        load()


def test_listing_processes_makes_no_type_again_and_again(fakenvml: Path) -> None:
    # 535.43 to 535.85 list entries that are wider than pynvml's.
    counts = ask(
        fakenvml,
        """
        !from gpudash.collect.nvml.library import Library
        !library = Library(N)
        !library.open()
        [library.running_processes(D[0], "Compute")[1] for _ in range(5)]
        !from ctypes import Structure
        !plain = [kind for kind in Structure.__subclasses__() if "ProcessInfo" in kind.__name__]
        [len(kind.__subclasses__()) for kind in plain]
        """,
        DRIVER="535.54.03",
    )
    assert counts == [[0] * 5, [1]]


@pytest.mark.parametrize("count", [1_000_000, 2**32 - 1])
def test_a_list_of_more_processes_than_there_can_be_is_not_made_room_for(count: int) -> None:
    asked: list[int] = []

    def too_many(_handle: object, size: Any, _entries: object) -> int:
        asked.append(size._obj.value)
        size._obj.value = count
        return codes.INSUFFICIENT_SIZE

    assert listed(too_many, None, c_uint) == (None, codes.INSUFFICIENT_SIZE)
    assert asked == [64]


def test_a_count_that_no_memory_has_room_for_is_unknown(single: Machine) -> None:
    def make_room(*_: object) -> Any:
        raise MemoryError

    single.driver.replaced["nvmlDeviceGetRetiredPages"] = make_room
    device = single.read().devices[0]
    assert (device.state, device.retired_pages_single_bit_count) == ("ok", None)


def test_more_retired_pages_than_there_can_be_are_unknown(single: Machine) -> None:
    single.driver.replaced["nvmlDeviceGetRetiredPages"] = lambda *_: range(1_000_000)
    assert single.read().devices[0].retired_pages_single_bit_count is None
