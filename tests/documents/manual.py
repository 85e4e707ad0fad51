"""The manual page, from the parser: python -m tests.documents.manual."""

import os
import re
import sys
from pathlib import Path

from argparse_manpage.manpage import Manpage

from gpudash import __version__
from gpudash.cli.arguments import complete_parser
from gpudash.cli.help import ABOUT
from gpudash.cli.verbs.help import ENVIRONMENT, TOPICS
from gpudash.model.errors import MEANINGS

PAGE = Path(__file__).parents[2] / "gpudash" / "cli" / "gpudash.1"

_FILES = """\
.TP
.I ~/.config/gpudash/config.toml
Settings; GPUDASH_CONFIG names another file, --no-config leaves it alone, and
.B gpudash config init
writes one in which every setting is explained."""


def written() -> str:
    """Return the page, which is the same whenever it is made."""
    # The usage lines would be as wide as the terminal.
    os.environ["COLUMNS"] = "80"
    page = Manpage(complete_parser())
    page.date = ""
    page.source = f"gpudash {__version__}"
    page.manual = "User Commands"
    page.description = ABOUT[:1].lower() + ABOUT[1:].rstrip(".")
    page.add_section("exit status", ">", _listed({str(k): v for k, v in MEANINGS.items()}))
    page.add_section(
        "reference", ">", _listed({f"gpudash help {n}": t.help for n, t in TOPICS.items()})
    )
    page.add_section("environment", ">", _listed(ENVIRONMENT))
    page.add_section("files", ">", _FILES)
    return _with_plain_headings(str(page))


def _with_plain_headings(page: str) -> str:
    """Return the page with each command as it is typed, and its options below it."""
    page = re.sub(r"^\.SH COMMAND \\fI\\,'(.+)'\\/\\fR$", r".SH \1", page, flags=re.M)
    page = re.sub(r"^\.SH OPTIONS \\fI.+$", ".SS Options", page, flags=re.M)
    return page.replace(".SH COMMENTS\n", ".SH NOTES\n")


def _listed(terms: dict[str, str]) -> str:
    return "\n".join(
        f".TP\n.B {term}\n{_roff(text[:1].upper() + text[1:])}" for term, text in terms.items()
    )


def _roff(text: str) -> str:
    return text.replace("\\", "\\\\").replace("-", "\\-").replace("`", "")


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
    sys.exit(0)
