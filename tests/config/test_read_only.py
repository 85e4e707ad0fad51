"""The setting that forbids signals: where it cannot be read, it holds."""

from pathlib import Path

import pytest

from gpudash.config.file import is_read_only, load
from gpudash.model.errors import SettingsError
from tests.config.choices import CHOICES


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("read_only = false", False),
        ("read_only = true", True),
        ('theme = "none such"\nread_only = true', True),
        ("this is not TOML\nread_only = true", True),
        ("this is not TOML\n# read_only = true", False),
    ],
)
def test_a_clear_word_counts_whatever_else_is_wrong(file: Path, text: str, expected: bool) -> None:
    file.write_text(text)
    assert is_read_only(str(file)) is expected
    assert load(str(file), CHOICES)[0].read_only is expected


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ('read_only = "no"', 'read_only: "no" is not a boolean'),
        ("read_only = tru", "line 1 is not TOML"),
        ("read_only: true", "line 1 is not TOML"),
        ("[keys]\nread_only = true", "inside a table"),
    ],
)
def test_what_makes_no_sense_forbids_signals_and_is_reported(
    file: Path, text: str, mistake: str
) -> None:
    file.write_text(text)
    with pytest.raises(SettingsError, match=mistake):
        is_read_only(str(file))
    settings, mistakes = load(str(file), CHOICES)
    assert settings.read_only
    assert mistakes[-1] == f"{file}: whether read_only is set is unclear: taken as true"


def test_without_a_file_signals_are_allowed(file: Path) -> None:
    assert not is_read_only(str(file))


def test_a_file_that_cannot_be_read_does_not_allow_them(file: Path) -> None:
    file.mkdir()
    with pytest.raises(SettingsError, match="cannot be read: not a regular file"):
        is_read_only(str(file))
