import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudash import __version__
from gpudash.cli import verbs
from gpudash.cli.arguments import main_parser, parse
from gpudash.cli.modes import MODES
from gpudash.cli.parser import command_parser
from gpudash.model.errors import ExitStatus, UsageError
from tests.demo_clock import demo_clock
from tests.e2e import forking


def gpudash(*words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return forking.run([*forking.GPUDASH, *words], {**os.environ, **env})


def run(options: argparse.Namespace) -> None:
    options.run(options)


Words = Callable[..., str]


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str]) -> Words:
    """What takes words of a command line, and returns why they are refused."""

    def message(*words: str) -> str:
        with pytest.raises(UsageError) as error:
            run(parse(words))
        assert capfd.readouterr() == ("", "")
        assert "\n" not in str(error.value)
        return str(error.value)

    return message


@pytest.fixture
def printed(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Words:
    """What takes words of a command line, and returns the help that they print."""
    monkeypatch.setenv("COLUMNS", "80")

    def text(*words: str) -> str:
        with pytest.raises(SystemExit) as end:
            parse(words)
        assert not end.value.code
        out, err = capfd.readouterr()
        assert err == ""
        return out

    return text


def test_version() -> None:
    assert gpudash("--version").stdout == f"gpudash {__version__}\n"


INTERRUPTED_WHERE = """
import os, runpy, signal, sys

module = sys.argv.pop()
# Whoever runs the tests may ignore interrupts, and so would all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv += ["--demo", "--once"]
runpy.run_module("gpudash", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["gpudash.cli", "argparse", "gpudash.output.table"])
def test_an_interrupt_while_it_starts_ends_it_without_a_word(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_WHERE, module], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_help_fits_a_screen_and_names_every_command(printed: Words) -> None:
    text = printed("--help")
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in verbs.names())


@pytest.mark.parametrize("before", [[], ["-r"], ["-pm"], ["-r=0"], ["--gpu-reset"]])
def test_the_whole_help_has_every_option(before: list[str], printed: Words) -> None:
    text = printed(*before, "--help-all")
    assert "--query-compute-apps" in text
    assert "--no-config" in text


NO_PIDS = ("0", "0x10", "self", "", "１", "9" * 5000, f"1:{'9' * 5000}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--interval", "0"], "expected 0.1 to 3600 seconds"),
        (["--interval", "soon"], "invalid value 'soon'"),
        (["--interval", "nan"], "invalid value 'nan'"),
        *((["--once", "--timeout", text], "0.1 to 3600") for text in ("0", "soon", "nan", "1e9")),
        (["dmon", "-s", "x"], "expected letters of pucvmet"),
        (["pmon", "-s", "c"], "expected letters of um"),
        (["dmon", "-o", "X"], "expected letters of DT"),
        (["dmon", "--gpm-metrics", "99"], "expected numbers of 1, 2"),
        (["dmon", "-c", "0"], "1 to 999999"),
        (["--fail-on", "warn", "--json"], "--fail-on does not go with"),
        (["--fail-on", "warn", "topo"], "--fail-on does not go with"),
        (["--once", "--demo=nonsense"], "there are: dgx-h100, pcie-1080ti, "),
        (["--once", "--demo=nonsense"], "empty, and fleet for many hosts"),
        (["run", "--demo", "--wait", "--", "true"], "--wait does not go with --demo"),
        (["--once", "--demo=single", "--gpu", "7"], "choose from 0"),
        (["frobnicate"], "unknown command 'frobnicate': choose from ack, completion, "),
        (["docter"], "unknown command 'docter': did you mean doctor? choose from "),
        (["docter", "--help"], "unknown command 'docter': did you mean doctor? choose from "),
        (["-i0", "--once", "-l", "5", "80"], "unknown command '80'"),
        (["--gpu", "-1", "--", "frobnicate"], "unknown command 'frobnicate'"),
        (["--jsn"], "unrecognized arguments: --jsn; did you mean --json?"),
        (["--once", "--width", "80"], "unrecognized arguments: --width; see gpudash --help"),
        (["--theme", "light"], "--theme does not go with a pipe or a file"),
        (["--intervall", "5", "record", "x"], "--intervall; did you mean --interval?"),
        (["topo", "--jsn"], "unrecognized arguments: --jsn; did you mean --json?"),
        (["topo", "--width", "80"], "unrecognized arguments: --width 80; see gpudash topo --help"),
        (["record", "x", "--max-sice=5"], "--max-sice=5; did you mean --max-size?"),
        (["kill", "1", "--once"], "--once does not go with gpudash kill"),
        (["--query-gpu=index", "--format=csv", "--fail-on", "warn"], "--fail-on does not go with"),
        (["-L", "--json"], "--json does not go with -L"),
        (["-q", "-L"], "-L does not go with -q"),
        (["-i", "0", "-pl", "300"], "sets nothing; run `command nvidia-smi -i 0 -pl 300`"),
        (["-ac=877,1530"], "-ac=877,1530: gpudash sets nothing"),
        (["-gtt", "80"], "-gtt: gpudash sets nothing; run `command nvidia-smi -gtt 80`"),
        (["power-profiles", "-l"], "power-profiles: only nvidia-smi does that"),
        (["--demo", "-pm", "1"], "-pm: gpudash sets nothing; run `command nvidia-smi -pm 1`"),
        (["mig", "-lgi"], "mig: only nvidia-smi does that; run `command nvidia-smi mig -lgi`"),
        (["--demo=mig", "clocks", "-i", "0"], "run `command nvidia-smi clocks -i 0`"),
        (["--at", "-1s", "-pm", "1"], "sets nothing; run `command nvidia-smi -pm 1`"),
        (["-B"], "-B: only nvidia-smi does that; run `command nvidia-smi -B`"),
        (["--demo", "mig", "--filter", "clocks", "--json"], "--filter does not go with"),
        (["--demo", "mig", "kill", "-c"], "arguments are required: PID"),
        (["-L", "-d", "ECC"], "-d does not go with -L, only with -q"),
        (
            ["--query-supported-clocks=gr", "--format=csv", "-l", "1"],
            "does not go with supported clocks",
        ),
        (["--json", "--format", "csv"], "--json does not go with --format"),
        (["--demo", "doctor"], "--demo does not go with gpudash doctor"),
        (["replay", "/dev/null"], "not a regular file: expected one that gpudash record wrote"),
        (["run", "--timeout", "3s", "--", "true"], "--timeout goes with --wait"),
        (["--replay", "a b", "--at", "-1s"], "is gpudash replay 'a b' --at -1s"),
        (["--at", "-1s", "--once", "--fresh"], "--fresh does not go with --at"),
        (["completion", "tcsh"], "unknown shell 'tcsh': choose from bash, zsh, fish"),
        (["config", "validat"], "unknown action 'validat': did you mean validate? choose from"),
        (["pick", "--format", "xml"], "--format 'xml': choose from uuid, index"),
        (["pick", "--for", "5h"], "up to 1h"),
        (["pick", "--min-free", "20"], "--min-free"),
        (["pick", "-n", "0"], "-n"),
        (["pick", "--max-util", "x"], "--max-util"),
        (["--theme", "nope", "--once"], "--theme does not go with --once"),
        (["--theme", "dark", "--json"], "--theme does not go with --json without --once"),
        (["--interval", "5", "--format", "csv"], "--interval does not go with --format"),
        (["--once", "--format", "csv", "--pid", "1"], "--pid does not go with csv"),
        (["--once", "-l", "1", "--timeout", "3"], "--timeout does not go with --loop"),
        (["--once", "--demo", "-l", "1", "--at", "10:53"], "--at does not go with --loop"),
        (
            ["--query-gpu=index", "--format=csv", "--demo", "-l", "1", "--at", "10:53"],
            "--at does not go with --loop",
        ),
        (["-q", "--demo", "-l", "1", "--at", "10:53"], "--at does not go with --loop"),
        (["--once", "--json-schema"], "--once does not go with --json-schema"),
        (["--query-gpu=index", "--format=csv", "-l", "1", "--once"], "--once does not go with"),
        (["--gpu", "0", "kill", "4"], "--gpu does not go with gpudash kill"),
        (["-i", "0", "doctor"], "--gpu does not go with gpudash doctor"),
        (["--replay", "x", "run", "--", "true"], "--replay does not go with gpudash run"),
        (["--demo", "--replay", "x", "--once"], "--demo does not go with --replay"),
        (["--timeout", "3", "leases"], "--timeout does not go with gpudash leases"),
        (["--timeout", "3", "wait"], "its own --timeout goes after wait"),
        (["wait", "--host", "gpu1"], "--host does not go with gpudash wait"),
        (["--ssh-config", "x", "wait"], "--ssh-config does not go with gpudash wait"),
        (["--pcie-throughput", "-L"], "--pcie-throughput does not go with -L"),
        (["--host", "gpu1", "--once", "--show-secrets"], "--show-secrets does not go with --host"),
        (["--host", "gpu1", "-L", "--demo"], "--demo does not go with --host"),
        (["--host", "gpu1", "--json", "--compact"], "--compact does not go with --host"),
        (["record", "x", "--host", "gpu1", "--pcie-throughput"], "--pcie-throughput does not go"),
        (["record", "x", "--demo=fleet", "--gpu", "0"], "--gpu does not go with many hosts"),
        (["record", "x", "--demo=fleet", "--on-finding", "true"], "--on-finding does not go with"),
        (["--no-config", "config", "path"], "takes no --no-config"),
        (["--demo=fleet", "--once", "--filter", "x"], "many hosts: --where"),
        (["--demo=fleet", "--gpu", "0"], "--gpu does not go with --once of many hosts"),
        (["--demo=fleet", "--once", "--user", "a"], "--user does not go with --once of many hosts"),
        (["--where", "held"], "--where does not go with a pipe or a file, only with many hosts"),
        (["--once", "--where", "held"], "--where does not go with --once, only with many hosts"),
        (["--demo=fleet-0", "--once"], "--demo 'fleet-0': expected fleet or fleet-HOSTSxGPUS"),
        (["--prometheus", "--once"], "--prometheus needs a URL, here, in GPUDASH_PROMETHEUS"),
        (["--scrape", "--once"], "--scrape needs a URL, here, in GPUDASH_SCRAPE or in the "),
        (["--prometheus", "ftp://x", "--once"], "--prometheus 'ftp://x': expected a URL"),
        (["--demo=fleet", "--once", "--format", "gpustat"], "--format 'gpustat' of many hosts"),
        (["--demo=fleet-2x2", "--once", "--replay", "f"], "--demo does not go with --replay"),
        (["--hosts-file", "h", "--once", "--replay", "f"], "--hosts-file does not go with"),
        (["--host=a,b", "--once", "--at", "10:53"], "--at goes with --prometheus, --replay"),
        (["kill", "1", "--signal", "KIL"], "did you mean KILL?"),
        (["serve", "--demo", "--listen=127.0.0.1:0", "--keep=7d"], "give --history DIR"),
        (["serve", "--listen", "9836"], "expected HOST:PORT or :PORT"),
        (["serve", "--listen", "::1:9836"], "expected HOST:PORT or :PORT"),
        (["serve", "--listen", "127.0.0.1:65536"], "expected HOST:PORT or :PORT"),
        (["replay", "x", "--speed", "0"], "expected 0.1 to 100"),
        (["--replay", "x", "kill", "1"], "--replay does not go with gpudash kill"),
        (["--show-secrets", "record", "x"], "--show-secrets does not go with gpudash record"),
        (["--query-gpu=memory.usd", "--format=csv"], "did you mean memory.used"),
        (["--query-gpu=", "--format=csv"], "needs names"),
        (["--format", "xml"], "choose from table, json, csv, prometheus, gpustat"),
        (["--query-gpu=index", "--format=csv", "-lms", "1"], "expected 100 to 3600000 ms"),
        (["kill", "--yes", "--", "-1"], "is not a PID"),
        (["events", "--filter", "-host:x"], "one that begins with - is written --filter=-..."),
        *((["kill", "--yes", "--", pid], "is not a PID") for pid in NO_PIDS),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    words: list[str], message: str, refused: Words
) -> None:
    assert message in refused(*words)


def test_a_bad_argument_is_one_line_and_exit_2() -> None:
    outcome = gpudash("-L", "--json")
    assert (outcome.returncode, outcome.stdout, outcome.stderr.count("\n")) == (2, "", 1)
    assert outcome.stderr.startswith("gpudash: ")


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ("--demo topo", {"command": "topo"}),
        ("topo --demo", {"command": "topo"}),
        ("--demo --json topo", {"command": "topo", "json": "native"}),
        ("--demo --once", {"command": None, "once": True}),
    ],
)
def test_a_bare_demo_swallows_no_command(words: str, known: dict[str, object]) -> None:
    options = vars(parse(words.split()))
    assert {"demo": "dgx-h100", **known}.items() <= options.items()


def test_an_option_with_a_value_may_precede_a_command_and_have_its_name(refused: Words) -> None:
    assert refused("--theme", "topo", "pick") == "--theme does not go with gpudash pick"
    assert "--json does not go with gpudash pick" in refused("--json", "native", "pick")
    assert "-l does not go with gpudash pick" in refused("-l", "pick")


@pytest.mark.parametrize("verb", ["serve", "pick"])
def test_what_is_about_one_host_simulates_no_fleet(
    verb: str, refused: Words, printed: Words
) -> None:
    message = refused(verb, "--demo=fleet-2x2")
    assert message == "--demo=fleet-2x2 simulates many hosts, and this is about one"
    assert "fleet" not in printed(verb, "--help")


@pytest.mark.parametrize(("name", "status"), [("lost", 15), ("mig", 0), ("fleet-2x2", 0)])
def test_a_demo_prints_a_table(name: str, status: int) -> None:
    outcome = gpudash("--once", f"--demo={name}", **demo_clock(1800000000))
    assert (outcome.returncode, outcome.stderr) == (status, "")
    assert "GPU" in outcome.stdout


@pytest.mark.parametrize(("level", "status"), [("info", 1), ("warn", 0), ("critical", 0)])
def test_fail_on_a_level_fails_on_findings_of_it_or_worse(level: str, status: int) -> None:
    outcome = gpudash("--once", "--json", "--demo=laptop", "--fail-on", level)
    levels = {finding["level"] for finding in json.loads(outcome.stdout)["findings"]}
    assert (outcome.returncode, levels) == (status, {"info"})


def test_run_gives_a_command_the_gpus_that_pick_names_on_a_simulated_host() -> None:
    command = ("--", "printenv", "CUDA_VISIBLE_DEVICES")
    run, picked = gpudash("run", "--demo", *command), gpudash("pick", "--demo")
    assert (run.returncode, run.stdout) == (0, picked.stdout)
    too_many = gpudash("run", "--demo", "-n", "2", *command)
    assert (too_many.returncode, too_many.stdout) == (ExitStatus.TOO_FEW_GPUS, "")


def test_without_a_terminal_the_table_is_printed() -> None:
    clock = demo_clock(1800000000)
    piped, once = (gpudash(*words, "--demo", **clock) for words in ((), ("--once",)))
    assert (piped.returncode, piped.stdout) == (0, once.stdout)


def test_ascii_where_the_locale_is_not_utf_8() -> None:
    outcome = gpudash("--once", "--demo=single", LC_ALL="C", LANG="C")
    assert outcome.stdout.isascii()


@pytest.mark.parametrize(
    "words",
    [
        ["--read-only", "--ascii", "--no-config", "--once", "--demo"],
        ["--once", "-L", "--demo", "--gpu", "0"],
        ["--timeout", "3", "topo", "--demo"],
        ["--once", "--json", "--show-secrets", "--pcie-throughput", "--demo"],
    ],
)
def test_options_that_hold_or_forbid_are_taken(words: list[str]) -> None:
    assert parse(words).demo == "dgx-h100"


def test_a_recording_may_be_named_behind_topo_as_before_it() -> None:
    recording = ("--replay", "recorded.jsonl", "--at", "+0s")
    assert vars(parse(["topo", *recording])) == vars(parse([*recording, "topo"]))


def test_a_schema_goes_into_a_file_and_has_all_documents(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    assert gpudash("-f", str(file), "--json-schema").stdout == ""
    schema = json.loads(file.read_text())
    documents = ("Snapshot", "FleetSnapshot", "Report")
    assert schema["anyOf"] == [{"$ref": f"#/$defs/{name}"} for name in documents]
    assert {"FleetHost", "Device", "FleetDevice", "ReportRow"} <= set(schema["$defs"])


@pytest.mark.parametrize("words", [["--format", "nope"], ["--gpu", "99"]])
def test_a_file_stays_as_it_is_where_nothing_is_written(tmp_path: Path, words: list[str]) -> None:
    file = tmp_path / "keep.csv"
    file.write_text("kept")
    run = gpudash("--once", "--demo=single", *words, "-f", str(file))
    assert (run.returncode, file.read_text()) == (2, "kept")


def test_a_file_that_is_written_has_nothing_of_before(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    file.write_text("of before\n" * 100)
    words = ["-L", "--demo=lost", "--gpu", "3"]
    assert gpudash(*words, "-f", str(file)).returncode == 0
    assert file.read_text() == gpudash(*words).stdout


def test_a_recording_is_not_written_over(tmp_path: Path) -> None:
    file, link = tmp_path / "recorded.jsonl", tmp_path / "link"
    file.write_text("recorded")
    link.symlink_to(file)
    run = gpudash("--once", "--replay", str(file), "-f", str(link))
    assert (run.returncode, file.read_text()) == (2, "recorded")
    assert run.stderr == f"gpudash: -f {link} is the file of --replay: name another\n"


def test_help_that_cannot_be_written_says_so() -> None:
    for words in (["--help"], ["--version"]):
        with open("/dev/full", "w") as full:
            run = subprocess.run(
                [sys.executable, "-m", "gpudash", *words], stdout=full, stderr=subprocess.PIPE
            )
        assert run.returncode == 74
        assert run.stderr.count(b"\n") == 1


def test_an_error_that_nobody_can_read_keeps_its_status() -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run([sys.executable, "-m", "gpudash", "bogus"], stderr=full)
    assert run.returncode == 2


def test_the_fields_of_a_query_are_listed(printed: Words) -> None:
    assert "memory.used" in printed("--help-query-gpu").splitlines()
    assert "used_gpu_memory or used_memory" in printed("--help-query-compute-apps")


def test_what_a_mode_takes_are_options() -> None:
    known = {action.dest for action in main_parser().declared}
    assert all(mode.takes <= known for mode in MODES)


@pytest.mark.parametrize("name", verbs.names())
def test_a_command_declares_itself(name: str) -> None:
    assert verbs.load(name).help
    assert f"gpudash {name}" in command_parser(name).format_help()


@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_an_output_file_is_never_made_through_a_link(tmp_path: Path, mode: int) -> None:
    folder, target = tmp_path / "folder", tmp_path / "target"
    folder.mkdir()
    folder.chmod(mode)
    link = folder / "link"
    link.symlink_to(target)
    run = gpudash("--query-gpu=name", "--format=csv", "--demo=single", "-f", str(link))
    assert (run.returncode, run.stdout) == (ExitStatus.OUTPUT, "")
    assert run.stderr.startswith(f"gpudash: {link}: a symbolic link ")
    assert run.stderr.count("\n") == 1
    assert not target.exists()


@pytest.mark.parametrize(
    ("mode", "owner", "is_followed"), [(0o755, 0, True), (0o755, 4242, False), (0o1777, 0, False)]
)
def test_an_output_file_is_written_through_ones_own_links_alone(
    tmp_path: Path, mode: int, owner: int, is_followed: bool
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a link away")
    folder, target = tmp_path / "folder", tmp_path / "target"
    folder.mkdir()
    folder.chmod(mode)
    target.write_text("before")
    link = folder / "link"
    link.symlink_to(target)
    os.chown(link, owner, owner, follow_symlinks=False)
    run = gpudash("--json-schema", "-f", str(link))
    assert (run.returncode == 0) is is_followed
    assert (target.read_text() != "before") is is_followed


def test_an_output_file_may_be_the_output_itself() -> None:
    assert gpudash("--json-schema", "-f", "/dev/stdout").stdout.startswith("{")
