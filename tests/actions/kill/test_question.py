from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from gpudash.actions.kill.question import Question, question
from gpudash.actions.kill.selection import KillSelection
from gpudash.actions.kill.signals import find_signal
from gpudash.model.process import EXITED, Job, Process
from tests.actions.kill.family import DEAF_LAUNCHER, Family
from tests.actions.kill.shown import HERE, shown
from tests.factories import GIB, make_process_device, make_snapshot
from tests.holders import Holder, Holders

Asked = Callable[..., Question]


@contextmanager
def selected(*processes: Process) -> Iterator[Asked]:
    """A function that returns the question about these, whose trees are known."""
    snapshot = make_snapshot(2, host=HERE, processes=processes)
    with closing(KillSelection(processes, snapshot)) as selection:
        selection.find_trees()

        def asked(signal: str = "KILL", *, with_tree: bool = False, **options: Any) -> Question:
            found = find_signal(signal)
            return question(selection, found, now=snapshot, with_tree=with_tree, **options)

        yield asked


def facts(asked: Question) -> list[str]:
    return [text for text, _ in asked.facts]


def test_says_who_how_long_what_is_held_and_what_it_is(job: Holder) -> None:
    process = shown(
        job.pid, job=Job(kind="slurm", id="77", step="0"), command_line=("sleep", "--token", "x")
    )
    with selected(process) as asked:
        found = asked()
        assert (found.title, found.action) == (f"Kill PID {job.pid}?", "Kill")
        first, *rest = facts(found)
        assert first.startswith(f"PID {job.pid}, alice, started ")
        assert first.endswith("slurm:77.0, 40.0 GiB on GPU 0")
        assert rest == ["no children", "command: sleep --token '***'"]
        assert found.processes == ()
        assert asked("HUP").title == f"Send SIGHUP to PID {job.pid}?"


def test_one_without_a_gpu_says_so(job: Holder) -> None:
    with selected(shown(job.pid, devices=())) as asked:
        assert facts(asked())[0].endswith(", no GPU memory")


def test_children_are_counted_with_what_becomes_of_them() -> None:
    with Family(("sh", "-c", DEAF_LAUNCHER)) as family:
        first, second = family.started(3, sleepers=2) - {family.pid}
        share = (make_process_device(index=1, used_gpu_memory_bytes=3 * GIB),)
        with selected(shown(family.pid)) as asked:
            stay = "2 children (no GPU memory) will keep running"
            assert stay in facts(asked())
            killed = asked(with_tree=True)
            assert killed.title == f"Kill PID {family.pid} and its 2 children?"
            assert "2 children (no GPU memory) will get SIGKILL too" in facts(killed)
            assert "40.0 GiB on GPU 0 will be freed" in facts(killed)
            ended = facts(asked("TERM", with_tree=True))
            assert any(text.endswith("SIGTERM too if still running soon after") for text in ended)
            offered = asked(with_tree=True, offer="PID 4242 ignored SIGTERM for 10 s.")
            assert offered.title == "PID 4242 ignored SIGTERM for 10 s. Kill it and its 2 children?"
            listed = {text.split()[1] for text, _ in killed.processes}
            assert listed == {str(first), str(second)}
        with selected(shown(family.pid), shown(first, devices=share)) as asked:
            assert asked(with_tree=True).title == "Kill these 3 processes?"


def test_one_of_several_that_is_not_signalled_is_named(holders: Holders) -> None:
    one, other = holders(2)
    exited = shown(other.pid, hidden_reason=EXITED)
    with selected(shown(one.pid), exited) as asked:
        found = asked()
        assert found.title == f"Kill PID {one.pid}?"
        assert f"PID {other.pid} has already exited; 1 of 2 will be killed" in facts(found)
        assert f"  PID {other.pid} has already exited" in [text for text, _ in found.processes]
        assert any(text.endswith("1 of 2 will be sent SIGHUP") for text in facts(asked("HUP")))
        one.end()
        assert (asked().title, asked().action) == (
            f"PIDs {one.pid}, {other.pid} cannot be signalled",
            None,
        )


def test_one_that_cannot_be_signalled_says_why() -> None:
    with selected(shown(1)) as asked:
        found = asked()
        assert (found.title, found.action) == ("PID 1 cannot be signalled", None)
        assert "PID 1 is init; killing it would stop the host or container" in facts(found)


def test_a_warning_about_several_says_each(holders: Holders) -> None:
    one, other = holders(2)
    both = [shown(each.pid, name="nv-fabricmanager") for each in (one, other)]
    with selected(*both) as asked:
        warned = [text for text in facts(asked()) if text.startswith("!")]
    assert [text.partition(";")[0] for text in warned] == [
        f"! PIDs {one.pid}, {other.pid}: each runs the NVLink fabric"
    ]


def test_what_is_no_plain_job_is_warned_of_and_asked_about_again(holders: Holders) -> None:
    (fabric,) = holders(1)
    with selected(shown(fabric.pid, name="nv-fabricmanager")) as asked:
        (warning,) = [each for each in asked().facts if each.text.startswith("!")]
        assert warning.level == "critical"
        assert warning.text.startswith("! it runs the NVLink fabric")
        found = asked(again=True)
        assert found.title == (
            f"PID {fabric.pid} is not a plain job. Kill PID {fabric.pid} anyway?"
        )
        assert found.action == "Kill anyway"


def test_members_are_indented_by_depth() -> None:
    with Family(("sh", "-c", "sh -c 'sleep 600 & wait' & wait")) as family:
        family.started(3, sleepers=1)
        with selected(shown(family.pid)) as asked:
            depths = [text.index("+") for text, _ in asked(with_tree=True).processes]
            assert depths == [0, 2]
