import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.fleet.names import MAX_HOSTS, check_host, expand, folded
from gpudash.model.errors import UsageError
from tests.waiting import LIMIT_SECONDS


def names(*specs: str, **more: object) -> list[str]:
    return list(expand(specs, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "hosts"),
    [
        ("gpu[01-03],lab7", ["gpu01", "gpu02", "gpu03", "lab7"]),
        ("a[01-02,07]b[1-2]", ["a01b1", "a01b2", "a02b1", "a02b2", "a07b1", "a07b2"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[008-010]", ["n008", "n009", "n010"]),
        ("n[0-8/4]", ["n0", "n4", "n8"]),
        ("n[1-4],!n[2-3]", ["n1", "n4"]),
        ("!n2, n[1-3] ,n1", ["n1", "n3"]),
        ("[1-2]-", ["1-", "2-"]),
        ("alice@lab7,fe80::1%eth0", ["alice@lab7", "fe80::1%eth0"]),
    ],
)
def test_expands(spec: str, hosts: list[str]) -> None:
    assert names(spec) == hosts


@pytest.mark.parametrize(
    "spec",
    [
        *("-oProxyCommand=id", "a b", "a;id", "$(id)", "a`id`", "a'b", 'a"b', "a\nb", "a\\b", "ü"),
        *("gpu[01-", "gpu]", "gpu[3-1]", "gpu[]", "gpu[a-b]", "gpu[[1]]", "gpu[1-2-3]", "[::1]"),
        *("gpu[01-100]", "gpu[1-01]", "gpu[1-4/0]", "[-1]", "!-x,a;b"),
        *("n[1-5000]", "n[1-99]m[1-99]", "!n[1-9999]m[1-9999],a", "x" * 256),
        *("", ",", "!a", "a,!a", "@", "@nogroup", "@-x", "slurm:-x", "slurm:a b", "slurm:a;b"),
    ],
)
def test_refuses_in_one_line(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError) as error:
        names(spec)
    assert "\n" not in str(error.value)


@given(st.text(max_size=40))
def test_every_name_is_safe_as_an_argument(text: str) -> None:
    try:
        found = names(f"{text},fine", groups={})
    except UsageError:
        return
    assert all(check_host(name) == name and name[0] != "-" for name in found)
    assert len(found) <= MAX_HOSTS


@given(
    st.text("abcz-", min_size=1, max_size=5).filter(lambda text: text[0] != "-"),
    st.integers(0, 900),
    st.integers(0, 60),
    st.integers(1, 5),
)
def test_numbers_keep_their_width(prefix: str, first: int, more: int, width: int) -> None:
    numbers = [str(number).zfill(width) for number in range(first, first + more + 1)]
    if len(numbers[0]) != len(numbers[-1]) and numbers[0].startswith("0"):
        return
    spec = f"{prefix}[{numbers[0]}-{numbers[-1]}]"
    assert names(spec) == [prefix + number for number in numbers]


def test_groups_of_the_settings_name_their_hosts_and_may_nest() -> None:
    groups = {"lab": "gpu[1-2],lab7", "all": "@lab,big1"}
    assert expand(["@lab,x"], groups=groups) == {
        "gpu1": "lab",
        "gpu2": "lab",
        "lab7": "lab",
        "x": None,
    }
    assert set(expand(["@all"], groups=groups).values()) == {"all"}
    assert names("@all,!@lab", groups=groups) == ["big1"]
    with pytest.raises(UsageError, match="did you mean lab"):
        names("@lap", groups=groups)
    with pytest.raises(UsageError, match="contains itself"):
        names("@loop", groups={"loop": "@loop"})


def test_reads_files_of_mpi_pdsh_and_clustershell(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text(
        "# the lab\n\nlab7 slots=8 max_slots=9  # big\nlab8:4\ngpu[01-02],gpu04\n!gpu02\n@more\n"
    )
    found = names(files=[str(file)], groups={"more": "m1"})
    assert found == ["lab7", "lab8", "gpu01", "gpu04", "m1"]


def test_a_mistake_in_a_file_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("fine\n-oProxyCommand=id\n")
    with pytest.raises(UsageError, match="hosts:2: invalid host"):
        names(files=[str(file)])
    with pytest.raises(UsageError, match="cannot read"):
        names(files=[str(tmp_path / "missing")])


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_slurm_names_the_nodes_of_partitions_jobs_and_this_job(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(programs / "sinfo", 'echo "$*" >&2; echo "gpu[01-02],big1"')
    program(programs / "squeue", 'echo "gpu[07-08]"')
    assert expand(["slurm:a100"]) == dict.fromkeys(("gpu01", "gpu02", "big1"), "a100")
    assert expand(["slurm:4242"]) == {"gpu07": None, "gpu08": None}
    assert names("slurm:4242_7") == ["gpu07", "gpu08"]
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    assert names("slurm:") == ["n1", "n2"]
    monkeypatch.delenv("SLURM_JOB_NODELIST")
    with pytest.raises(UsageError, match="this is none"):
        names("slurm:")


def test_slurm_that_fails_is_quoted(programs: Path) -> None:
    program(programs / "squeue", 'printf "slurm_load_jobs: \\033[31mInvalid job id\\n" >&2; exit 1')
    program(programs / "sinfo", "exit 0")
    with pytest.raises(UsageError, match=r"job 1: squeue failed: slurm_load_jobs: \\x1b"):
        names("slurm:1")
    with pytest.raises(UsageError, match="names no nodes"):
        names("slurm:empty")
    (programs / "sinfo").write_text("#!/bin/sh\necho '-oProxyCommand=id'\n")
    with pytest.raises(UsageError, match="invalid host"):
        names("slurm:hostile")
    (programs / "sinfo").unlink()
    with pytest.raises(UsageError, match="sinfo failed: cannot be started: No such file"):
        names("slurm:gone")


def test_slurm_that_prints_something_else_is_quoted(programs: Path) -> None:
    program(programs / "squeue", "echo Welcome to the cluster; echo gpu01")
    with pytest.raises(UsageError, match="no nodes for 1: it printed 'Welcome to the cluster'"):
        names("slurm:1")


def test_groups_that_are_not_in_the_settings_are_those_of_nodeset(programs: Path) -> None:
    program(programs / "nodeset", 'echo "n1 n2 $1 $2" | { read a b c d; echo "$a $b"; }')
    assert expand(["@rack"]) == {"n1": "rack", "n2": "rack"}


def test_what_slurm_prints_has_a_limit(programs: Path) -> None:
    for line in ("gpu01," * 1000 + "\\n", "x" * 4096):
        writer = f"import sys\nfor _ in range(20000): sys.stdout.write('{line}')"
        program(programs / "squeue", f'exec {sys.executable} -c "{writer}"')
        with pytest.raises(UsageError, match="job 1: squeue failed: more than 64 MiB"):
            names("slurm:1", command_seconds=LIMIT_SECONDS)


def test_slurm_that_hangs_is_left_behind(programs: Path) -> None:
    program(programs / "squeue", "echo gpu01; exec /bin/sleep 600")
    with pytest.raises(UsageError, match="job 1: squeue failed: no answer"):
        names("slurm:1", command_seconds=0.1)


def test_the_last_line_may_have_no_end(programs: Path) -> None:
    program(programs / "squeue", "printf gpu01")
    assert names("slurm:1") == ["gpu01"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["gpu08", "gpu09", "gpu10", "gpu12"], "gpu[08-10,12]"),
        (["n9", "n10", "n010", "lab"], "n[9-10,010],lab"),
        (["a7", "r1-n7.x1.org", "r1-n8.x1.org"], "a7,r1-n[7-8].x1.org"),
        (["c98", "c99", "c100", "c098", "c099", "c100"], "c[98-100,098-100]"),
        (["10.0.0.5", "10.0.0.6"], "10.0.0.5,10.0.0.6"),
        (["lab", "lab"], "lab"),
        ([], ""),
    ],
)
def test_names_are_folded_to_what_is_expanded(given: list[str], text: str) -> None:
    assert folded(given) == text
    if given:
        assert names(text) == [*dict.fromkeys(given)]


@given(st.lists(st.from_regex(r"[a-c]{0,2}[0-9]{1,3}(-?[a-b])?", fullmatch=True), min_size=1))
def test_any_names_are_folded_without_loss(given: list[str]) -> None:
    assert sorted(names(folded(given))) == sorted({*given})
