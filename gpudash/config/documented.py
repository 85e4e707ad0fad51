"""The documented file: every setting with its help, its valid values and its default."""

from __future__ import annotations

from gpudash.config.declared import Declared, declared
from gpudash.config.file import rendered
from gpudash.config.settings import Choices, plain

_HEAD = """\
Settings of gpudash. Take away the # before a setting to change it; without its line it keeps
its default, which is what stands here."""
_WIDTH = 96


def template(choices: Choices) -> str:
    """Return a file in which everything is explained and commented out: it changes nothing."""
    parts = [_comment(_HEAD), *(_part(setting, choices) for setting in declared().values())]
    return "\n\n".join(parts) + "\n"


def _part(setting: Declared, choices: Choices) -> str:
    about = _comment(f"{setting.help} Valid: {setting.kind.valid(choices)}.")
    if isinstance(setting.default, dict):
        return f'{about}\n# [{setting.name}]\n# action = ["key"]'
    return f"{about}\n# {setting.name} = {rendered(plain(setting.default))}"


def _comment(text: str) -> str:
    import textwrap

    return "\n".join(f"# {line}" for line in textwrap.wrap(text, _WIDTH))
