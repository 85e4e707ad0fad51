from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.records import Records
from gpudash.model.records import NvLink
from tests.collect.nvml.tampering import Machine

COUNT, SENT, REMOTE, REPLAY, RECOVERY, CRC, SPEED, STATE = 91, 138, 146, 161, 162, 163, 164, 165
ALL_ONES = 0xFFFFFFFF


def first_link(numbers: dict[int, int]) -> NvLink:
    """The first NVLink of a GPU whose driver answers these fields with these numbers."""
    machine = Machine("dgx-h100")

    def change(entry: Any) -> None:
        entry.nvmlReturn, entry.value.sllVal = codes.SUCCESS, numbers.get(entry.fieldId, 0)

    machine.change_fields(change)
    library = Library(machine.driver, wanted={"nvlinks"})
    library.open()
    handle, _ = library.call("nvmlDeviceGetHandleByIndex", 0)
    link: NvLink = Records(library, handle).values()["nvlinks"][0]
    return link


def test_what_is_known_of_an_nvlink() -> None:
    link = first_link(
        {COUNT: 1, STATE: 1, SPEED: 26562, REPLAY: 0, RECOVERY: 3, CRC: 5, REMOTE: 7, SENT: 1 << 40}
    )
    assert (link.remote_link, link.data_tx_kib, link.data_rx_kib) == (7, 1 << 40, 0)
    assert (link.is_active, link.max_bytes_per_second) == (True, 26_562_000_000)
    assert (link.replay_count, link.recovery_count, link.crc_error_count) == (0, 3, 5)


def test_all_ones_are_no_number() -> None:
    link = first_link(
        {COUNT: 1, STATE: 1, **dict.fromkeys((SPEED, REPLAY, RECOVERY, CRC), ALL_ONES)}
    )
    assert (link.is_active, link.max_bytes_per_second) == (True, None)
    assert (link.replay_count, link.recovery_count, link.crc_error_count) == (None, None, None)
