import os
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from msgspec.structs import replace

from gpudash.config import file as place
from gpudash.config.file import load, save
from gpudash.config.settings import Settings
from gpudash.model.errors import SettingsError
from tests.config.choices import CHOICES, any_settings

WRITTEN = """\
# How I like it.
theme = "light"   # in the office
interval = 2
from_a_newer_version = [
    "a",  # one
    "b",
]

columns = ["pid", "nothing"]

# Fingers know these.
[keys]
kill = ["x"]  # as in htop
later = ["z"]

[other]
theme = "untouched"
"""

ANOTHER = 12345
"""A uid that is not the one of the tests."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gpudash" / "config.toml"


def written(file: Path, text: str = WRITTEN) -> Settings:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return load(str(file), CHOICES)[0]


@given(any_settings(), any_settings())
def test_what_was_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, first: Settings, second: Settings
) -> None:
    file = tmp_path_factory.getbasetemp() / "round" / "config.toml"
    file.unlink(missing_ok=True)
    save(first, str(file), since=Settings(), choices=CHOICES)
    assert load(str(file), CHOICES) == (first, [])
    save(second, str(file), since=first, choices=CHOICES)
    assert load(str(file), CHOICES) == (second, [])


@given(any_settings())
def test_saving_over_a_written_file_keeps_what_it_does_not_know(
    tmp_path_factory: pytest.TempPathFactory, settings: Settings
) -> None:
    file = tmp_path_factory.getbasetemp() / "over" / "config.toml"
    loaded = written(file)
    before = load(str(file), CHOICES)[1]
    save(settings, str(file), since=loaded, choices=CHOICES)
    found, mistakes = load(str(file), CHOICES)
    assert found == settings
    assert set(mistakes) <= set(before)
    text = file.read_text()
    for part in ("# How I like it.\n", '    "a",  # one\n', "# Fingers", '"untouched"', "later ="):
        assert part in text


def test_only_what_changed_enters_the_file(file: Path) -> None:
    save(Settings(theme="light"), str(file), since=Settings(), choices=CHOICES)
    assert file.read_text() == 'theme = "light"\n'
    save(Settings(theme="light"), str(file), since=Settings(theme="light"), choices=CHOICES)
    assert file.read_text() == 'theme = "light"\n'


def test_nothing_changed_makes_no_file(file: Path) -> None:
    save(Settings(), str(file), since=Settings(), choices=CHOICES)
    assert not file.parent.exists()


def test_a_default_chosen_again_stays_in_the_file(file: Path) -> None:
    loaded = written(file, 'theme = "light"\n')
    save(Settings(), str(file), since=loaded, choices=CHOICES)
    assert file.read_text() == 'theme = "dark"\n'


def test_other_lines_stay_as_they_were_written(file: Path) -> None:
    loaded = written(file)
    keys = {**loaded.keys, "kill": ("K",), "help": ()}
    save(
        replace(loaded, theme="dark", reverse=True, keys=keys),
        str(file),
        since=loaded,
        choices=CHOICES,
    )
    assert file.read_text() == WRITTEN.replace(
        'theme = "light"   # in', 'theme = "dark"   # in'
    ).replace("# Fingers", "reverse = true\n\n# Fingers").replace(
        '["x"]  # as in htop\nlater = ["z"]\n', '["K"]  # as in htop\nlater = ["z"]\nhelp = []\n'
    )


def test_a_change_of_another_in_the_meantime_stays(file: Path) -> None:
    loaded = written(file)
    file.write_text(WRITTEN.replace("interval = 2", "interval = 5"))
    save(replace(loaded, theme="dark"), str(file), since=loaded, choices=CHOICES)
    assert load(str(file), CHOICES)[0] == replace(loaded, theme="dark", interval=5.0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'theme = "light"\n\n[keys]\nkill = ["K"]\n'),
        ("ascii = true", 'ascii = true\ntheme = "light"\n\n[keys]\nkill = ["K"]\n'),
        ("# theme = 1\n# more\n", '# theme = 1\ntheme = "light"\n# more\n\n[keys]\nkill = ["K"]\n'),
        ("# mine\n[keys]\n", 'theme = "light"\n\n# mine\n[keys]\nkill = ["K"]\n'),
        ("keys = {help = ['h']}\n", 'keys = {help = [\'h\'],kill = ["K"]}\ntheme = "light"\n'),
        ("keys.help = ['h']\n", 'keys.help = [\'h\']\nkeys.kill = ["K"]\ntheme = "light"\n'),
        ("keys.kill = ['x']\n", 'keys.kill = ["K"]\ntheme = "light"\n'),
        ('"theme" = "dark" # x', '"theme" = "light" # x\n[keys]\nkill = ["K"]\n'),
        ("x = '''\ntheme = 1\n'''\n[ 'keys' ]\n", None),
        ("[[a]]\nx = 1\n[keys]\n[a.b]\n", None),
        ('x = """\\"""" # "\n"a = b" = {c = "]"}\n', None),
        ("ascii = true\r\n[keys]\r\nkill=['x']\r\n", None),
        ("x = [\n# theme = 1\n[1]]\n", None),
    ],
)
def test_every_way_to_write_toml_is_understood(file: Path, before: str, after: str | None) -> None:
    file.parent.mkdir()
    file.write_bytes(before.encode())
    loaded = load(str(file), CHOICES)[0]
    settings = replace(loaded, theme="light", keys={**loaded.keys, "kill": ("K",)})
    save(settings, str(file), since=loaded, choices=CHOICES)
    assert load(str(file), CHOICES)[0] == settings
    text = file.read_bytes().decode()
    assert after is None or text == after
    assert ("\r\n" in before) == ("\r\n" in text)
    assert text.count("\n") == text.count("\r\n") or "\r" not in text


def test_an_action_loses_its_line_when_it_gets_its_own_keys_back(file: Path) -> None:
    loaded = written(file, 'theme = "light"\nkeys.kill = ["x"]\n')
    for _ in range(2):
        save(replace(loaded, keys={}), str(file), since=loaded, choices=CHOICES)
        assert "kill" not in file.read_text()
        assert load(str(file), CHOICES) == (replace(loaded, keys={}), [])


@pytest.mark.parametrize("text", ["theme = = 1\n", "keys = 1\n", "\xff"])
def test_a_file_that_cannot_be_changed_is_left_alone(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text, encoding="latin-1")
    before = file.read_bytes()
    with pytest.raises(SettingsError, match=f"settings not saved to {file}: ") as caught:
        save(Settings(keys={"kill": ("x",)}), str(file), since=Settings(), choices=CHOICES)
    assert str(caught.value).isprintable()
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == ["config.toml"]


def test_file_and_folder_are_private(file: Path) -> None:
    previous = os.umask(0)
    try:
        save(Settings(ascii=True), str(file), since=Settings(), choices=CHOICES)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert os.listdir(file.parent) == ["config.toml"]


def test_a_reader_never_sees_half_a_file(file: Path) -> None:
    loaded = written(file)
    with file.open() as reader:
        save(replace(loaded, theme="dark"), str(file), since=loaded, choices=CHOICES)
        assert reader.read() == WRITTEN


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    path = str(tmp_path / "taken" / "gpudash" / "config.toml")
    with pytest.raises(SettingsError, match=f"settings not saved to {path}: ") as caught:
        save(Settings(ascii=True), path, since=Settings(), choices=CHOICES)
    assert str(caught.value).isprintable()


@pytest.fixture
def home_of_a_user() -> Iterator[Path]:
    """A folder of somebody who may not write everywhere, as whom the test runs."""
    with TemporaryDirectory() as folder:
        user = os.geteuid() or ANOTHER
        os.chown(folder, user, -1)
        os.seteuid(user)
        try:
            yield Path(folder)
        finally:
            os.seteuid(os.getuid())
            Path(folder).chmod(0o700)


def test_an_unwritable_folder_is_one_line(home_of_a_user: Path) -> None:
    file = home_of_a_user / "config.toml"
    loaded = written(file)
    home_of_a_user.chmod(0o500)
    with pytest.raises(SettingsError, match="Permission denied") as caught:
        save(replace(loaded, ascii=True), str(file), since=loaded, choices=CHOICES)
    assert str(caught.value).isprintable()
    assert file.read_text() == WRITTEN


def test_a_link_stays_and_its_own_target_is_replaced(file: Path, tmp_path: Path) -> None:
    loaded = written(tmp_path / "dotfiles" / "gpudash.toml")
    file.parent.mkdir()
    file.symlink_to("../dotfiles/gpudash.toml")
    save(replace(loaded, theme="dark"), str(file), since=loaded, choices=CHOICES)
    assert file.is_symlink()
    assert load(str(file), CHOICES)[0].theme == "dark"
    assert os.listdir(tmp_path / "dotfiles") == ["gpudash.toml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("given", ["link", "target", "folder"])
def test_what_belongs_to_another_user_is_left_alone(file: Path, tmp_path: Path, given: str) -> None:
    target = tmp_path / "home" / "alice.toml"
    loaded = written(target)
    file.parent.mkdir()
    file.symlink_to(target)
    taken = {"link": file, "target": target, "folder": target.parent}[given]
    os.chown(taken, ANOTHER, -1, follow_symlinks=False)
    with pytest.raises(SettingsError, match="belongs to another user"):
        save(replace(loaded, theme="dark"), str(file), since=loaded, choices=CHOICES)
    assert target.read_text() == WRITTEN


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_no_folder_is_made_in_the_home_of_another(tmp_path: Path) -> None:
    os.chown(tmp_path, ANOTHER, -1)
    with pytest.raises(SettingsError, match="belongs to another user"):
        save(
            Settings(ascii=True),
            str(tmp_path / "a" / "config.toml"),
            since=Settings(),
            choices=CHOICES,
        )
    assert os.listdir(tmp_path) == []


def test_mistakes_in_a_list_outlast_a_change_of_it(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('hidden_panels = ["host", "minimap"]  # from a newer version\n')
    loaded, mistakes = load(str(file), CHOICES)
    assert len(mistakes) == 1
    wanted = replace(loaded, hidden_panels=("sparklines",))
    save(wanted, str(file), since=loaded, choices=CHOICES)
    assert file.read_text() == (
        'hidden_panels = ["sparklines", "minimap"]  # from a newer version\n'
    )
    assert load(str(file), CHOICES)[0] == wanted


def test_a_file_that_somebody_wrote_after_it_was_read_is_not_replaced(file: Path) -> None:
    written(file, "# mine\n")
    for was in ("# older\n", None):
        with pytest.raises(place.FileChangedError):
            place.replace(str(file), "ascii = true\n", was=was)
    assert file.read_text() == "# mine\n"
    file.unlink()
    with pytest.raises(place.FileChangedError):
        place.replace(str(file), "ascii = true\n", was="# mine\n")
    assert os.listdir(file.parent) == []


def test_a_mistake_at_the_end_is_reported_with_its_line(file: Path) -> None:
    written(file, 'theme = "light"\n\ninterval =')
    with pytest.raises(SettingsError, match=r"at its end, line 3"):
        save(Settings(ascii=True), str(file), since=Settings(), choices=CHOICES)
