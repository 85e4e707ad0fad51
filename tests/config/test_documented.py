import re
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gpudash.config.file import load, save, template
from gpudash.config.settings import ExporterSettings, FleetSettings, Settings, declared
from tests.config.choices import CHOICES


def test_the_documented_file_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(template(CHOICES))
    assert load(str(file), CHOICES) == (Settings(), [])


def test_every_setting_is_in_it_with_help_default_and_choices(tmp_path: Path) -> None:
    text = template(CHOICES)
    flat = " ".join(text.replace("#", " ").split())
    for setting in declared().values():
        assert setting.help.endswith(".")
        if isinstance(setting.default, Struct):
            section = text.partition(f"# [{setting.name}]")[2].partition("# [")[0]
            assert all(f"# {name} = " in section for name in setting.default.__struct_fields__)
            continue
        assert f"{setting.help} Valid: {setting.kind.valid(CHOICES)}." in flat
        assert f"# {setting.name} = " in text or f"# [{setting.name}]" in text
    assert max(map(len, text.splitlines())) <= 100


def test_its_lines_without_the_sign_are_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(re.sub(r"(?m)^# (?=[a-z_]+ = |\[)", "", template(CHOICES)))
    settings, mistakes = load(str(file), CHOICES)
    assert replace(settings, fleet=FleetSettings(), exporters=ExporterSettings()) == Settings()
    # Those of many hosts have no defaults that are worth a line: an example of each is valid.
    assert settings.fleet.groups == {"lab": "gpu[01-12],lab7"}
    assert [line.partition(": ")[2].partition(":")[0] for line in mistakes] == ["keys.action"]


def test_saving_into_it_puts_values_below_their_explanation(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(template(CHOICES))
    changed = replace(Settings(), theme="light", keys={"kill": ("x",)})
    save(changed, str(file), since=Settings(), choices=CHOICES)
    assert load(str(file), CHOICES) == (changed, [])
    assert '# theme = "dark"\ntheme = "light"\n' in file.read_text()
