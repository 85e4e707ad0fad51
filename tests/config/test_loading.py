import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudash.config.file import load
from gpudash.config.settings import ExporterSettings, FleetSettings, Settings, declared
from tests.config.choices import CHOICES


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def mistakes(file: Path, text: str) -> list[str]:
    """The mistakes of a text, without the file's name that each begins with."""
    file.write_text(text)
    found = load(str(file), CHOICES)[1]
    assert all(line.startswith(f"{file}: ") and line.isprintable() for line in found)
    return [line.removeprefix(f"{file}: ") for line in found]


def test_without_a_file_the_defaults_stand(file: Path) -> None:
    assert load(str(file), CHOICES) == (Settings(), [])
    assert load(str(file / "below" / "nothing"), CHOICES) == (Settings(), [])


def test_every_setting_is_taken_from_the_file(file: Path) -> None:
    file.write_text(
        """
        interval = 2
        theme = "light"
        ascii = true
        sort = "pid"
        reverse = true
        per_gpu = true
        columns = ["pid", "user", "pid"]
        hidden_panels = ["host"]
        bell = true
        read_only = true
        [keys]
        kill = ["x", "f9"]
        help = []
        "move(1)" = ["n"]
        [fleet]
        groups = { lab = "gpu[01-12]" }
        prometheus = ["http://127.0.0.1:9090"]
        [exporters]
        urls = ["https://gpu01:9400"]
        plain_http = true
        """
    )
    settings, found = load(str(file), CHOICES)
    assert found == []
    assert settings == Settings(
        interval=2.0,
        theme="light",
        ascii=True,
        sort="pid",
        reverse=True,
        per_gpu=True,
        columns=("pid", "user"),
        hidden_panels=("host",),
        bell=True,
        read_only=True,
        keys={"kill": ("x", "f9"), "help": (), "move(1)": ("n",)},
        fleet=FleetSettings(groups={"lab": "gpu[01-12]"}, prometheus=("http://127.0.0.1:9090",)),
        exporters=ExporterSettings(urls=("https://gpu01:9400",), plain_http=True),
    )
    assert all(
        getattr(settings, name) != setting.default for name, setting in declared().items()
    ), "a new setting is missing above"


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            "them = 'dark'",
            '"them" is not a setting: did you mean theme? choose from interval, theme,',
        ),
        ("zzz = 1", '"zzz" is not a setting: choose from interval, theme,'),
        ("interval = 'fast'", 'interval: "fast" is not a number: expected 0.1 to 3600 seconds'),
        ("interval = true", "interval: true is not a number: expected 0.1 to 3600 seconds"),
        ("interval = 0.01", "interval: 0.01 is out of range: expected 0.1 to 3600 seconds"),
        ("interval = nan", "interval: nan is out of range: expected 0.1 to 3600 seconds"),
        ("ascii = 1", "ascii: 1 is not a boolean: expected true or false"),
        (
            "theme = 'drak'",
            'theme: "drak" is unknown: did you mean dark? choose from dark, light, high-contrast',
        ),
        ("theme = 3", "theme: 3 is not a string: choose from dark, light, high-contrast"),
        ("sort = 'usr'", 'sort: "usr" is unknown: did you mean user? choose from pid, user,'),
        ("columns = 'pid'", 'columns: "pid" is not a list: write ["..."] with pid, user,'),
        ("columns = ['pud']", 'columns: "pud" is unknown: did you mean pid? choose from pid,'),
        ("hidden_panels = [1]", "hidden_panels: 1 is not a string: choose from host, sparklines"),
        ("keys = 'x'", 'keys: "x" is not a table: write [keys] and below it action = ["key"]'),
        (
            "[keys]\nkil = ['x']",
            'keys.kil: "kil" is unknown: did you mean kill? choose from kill, help, move(1)',
        ),
        ("[keys]\nkill = 'x'", 'keys.kill: "x" is not a list: write action = ["key"]'),
        ("[keys]\nkill = ['zz']", 'keys.kill: "zz" is not a key: expected such as "x", "ctrl+x"'),
        ("[keys]\nkill = ['escap']", 'keys.kill: "escap" is not a key: did you mean escape? '),
        ("[keys]\nkill = ['ctrl+ctrl+x']", 'keys.kill: "ctrl+ctrl+x" is not a key'),
        ("[keys]\nkill = ['ctrl+X']", 'keys.kill: "ctrl+X" is not a key'),
        ("[keys]\nkill = ['shift+k']", 'keys.kill: "shift+k" is not a key'),
        ("[keys]\nkill = ['a b']", 'keys.kill: "a b" is not a key: '),
        ("[keys]\nkill = ['x']\nhelp = ['x']", 'keys.help: "x" is a key of kill'),
        ("'\\u001b[2J' = 1", '"\\u001b[2J" is not a setting'),
        ('"\\u001b[2J" = 1', '"\\x1b[2J" is not a setting'),
    ],
)
def test_a_mistake_is_one_line_that_names_what_is_valid(
    file: Path, text: str, mistake: str
) -> None:
    [found] = mistakes(file, text)
    assert found.startswith(mistake)
    assert load(str(file), CHOICES)[0].theme == Settings().theme


@pytest.mark.parametrize(
    ("action", "meant"),
    [
        ("process.kil", "did you mean process.kill? "),
        ("kill", "did you mean process.kill? "),
        ("screen.pause", "did you mean time.pause? "),
        ("zzz", ""),
    ],
)
def test_of_many_names_only_the_closest_are_reported(file: Path, action: str, meant: str) -> None:
    many = replace(
        CHOICES, actions=("process.kill", "time.pause", *(f"move.{n}" for n in range(90)))
    )
    file.write_text(f"[keys]\n{action!r} = ['x']")
    [found] = load(str(file), many)[1]
    where = "GPUDASH_CONFIG=new.toml gpudash config init lists all in a new file"
    assert found == f'{file}: keys.{action}: "{action}" is unknown: {meant}{where}'


def test_what_is_valid_beside_mistakes_counts(file: Path) -> None:
    text = """
        interval = "fast"
        theme = "light"
        columns = ["pid", "nothing", "utilization"]
        keys = { kill = ["x"], help = ["x", "f1"], nothing = ["y"] }
    """
    assert len(mistakes(file, text)) == 4
    assert load(str(file), CHOICES)[0] == Settings(
        theme="light", columns=("pid", "utilization"), keys={"kill": ("x",), "help": ("f1",)}
    )


def test_a_list_without_a_valid_name_keeps_the_default(file: Path) -> None:
    assert mistakes(file, "columns = ['nothing']\n[keys]\nkill = ['x']\nhelp = ['x']")
    assert load(str(file), CHOICES)[0] == Settings(keys={"kill": ("x",)})


def test_a_line_that_is_no_toml_does_not_cost_the_others(file: Path) -> None:
    found = mistakes(file, "theme = 'light'\ninterval = = 2\nascii = yes\nreverse = true\n")
    assert [line.partition(":")[0] for line in found] == [
        "line 2 is not TOML and left out",
        "line 3 is not TOML and left out",
    ]
    assert load(str(file), CHOICES)[0] == Settings(theme="light", reverse=True)


def test_a_document_that_never_becomes_toml_is_reported_once_more(file: Path) -> None:
    found = mistakes(file, "x = [\n" * 3)
    assert found
    assert "is not TOML" in found[-1]
    assert load(str(file), CHOICES)[0] == Settings()


def test_a_file_that_is_no_text_is_reported(file: Path) -> None:
    file.write_bytes(b"theme = '\xff'")
    settings, [mistake] = load(str(file), CHOICES)
    assert settings == Settings()
    assert "cannot be read" in mistake
    assert "the defaults are used" in mistake


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path)])
def test_what_is_no_file_is_reported_and_never_waited_for(file: Path, make: object) -> None:
    assert callable(make)
    make(file)
    settings, [mistake] = load(str(file), CHOICES)
    assert settings == Settings()
    assert mistake.startswith(f"{file}: cannot be read: ")


def test_a_huge_file_is_reported(file: Path) -> None:
    file.write_text("#" * (1 << 19))
    assert "larger than 256 KiB" in load(str(file), CHOICES)[1][0]


def test_a_deeply_nested_file_is_reported(file: Path) -> None:
    assert any("is not TOML" in line for line in mistakes(file, "x = " + "[" * 100_000))


@given(st.text(max_size=300) | st.text(alphabet="\n\"'[]{}=#.\\ \tthemekys", max_size=60))
def test_any_text_gives_settings(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_text(text, encoding="utf-8")
    settings, found = load(str(file), CHOICES)
    assert settings.theme in CHOICES.themes
    assert all(line.isprintable() for line in found)


def test_of_the_settings_of_many_hosts_the_valid_ones_count(file: Path) -> None:
    file.write_text('[fleet]\nremote = 3\nhosts = "a"\nhost_label = "node"\n')
    settings, found = load(str(file), CHOICES)
    assert settings.fleet == FleetSettings(host_label="node")
    assert [line.partition(": ")[2].partition(":")[0] for line in found] == [
        "fleet.remote",
        "fleet.hosts",
    ]
    file.write_text("fleet = 3")
    assert load(str(file), CHOICES)[0] == Settings()


@pytest.mark.parametrize(
    ("price", "problem"),
    [
        ("-2.5", "Expected `float` >= 0.0"),
        ("nan", "Expected `float` >= 0.0"),
        ("inf", "Expected `float` <= 1000000000.0"),
        ("'2.5'", "Expected `float`, got `str`"),
    ],
)
def test_a_price_is_an_amount_of_money(file: Path, price: str, problem: str) -> None:
    text = f"[fleet]\nremote = 'x'\nprices = {{ H100 = {price} }}"
    assert mistakes(file, text) == [f"fleet.prices: {problem}: expected such as {{ H100 = 2.5 }}"]
    assert load(str(file), CHOICES)[0].fleet == FleetSettings(remote="x")
    assert mistakes(file, "[fleet]\nprices = { H100 = 0, A100 = 1.5 }") == []
