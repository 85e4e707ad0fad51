import pytest

from gpudash.system.pci import kernel_address, nvml_address


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("00000000:1A:00.0", "0000:1a:00.0"),
        (b"0000:1A:00.0", "0000:1a:00.0"),
        ("00010000:E1:00.0", "10000:e1:00.0"),
        (b"00000000:1A:00.\x1b[2J", r"0000:1a:00.\x1b[2j"),
        ("nowhere", None),
        ("1A", None),
        ("-1:1A:00.0", None),
        ("0x1:02:00.0", None),
        (" 1:02:00.0", None),
        ("0:../../etc", None),
        (None, None),
    ],
)
def test_an_address_is_written_as_the_kernel_does(
    told: str | bytes | None, shown: str | None
) -> None:
    assert kernel_address(told) == shown


@pytest.mark.parametrize(
    ("kernel", "nvml"),
    [
        ("0000:1a:00.0", "00000000:1A:00.0"),
        ("10000:e1:00.0", "00010000:E1:00.0"),
        ("0000:1a:00.\x1b[2J", r"00000000:1A:00.\x1b[2J"),
        (None, None),
    ],
)
def test_an_address_of_the_kernel_is_written_as_nvml_does(
    kernel: str | None, nvml: str | None
) -> None:
    assert nvml_address(kernel) == nvml
