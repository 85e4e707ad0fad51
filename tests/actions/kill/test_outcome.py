from __future__ import annotations

import pytest

from gpudash.actions.kill.pin import Standing
from gpudash.actions.kill.report import outcome
from gpudash.actions.kill.signals import find_signal
from tests.factories import make_process

KILL, TERM = find_signal("KILL"), find_signal("TERM")
GONE = Standing("gone")
PARENT = (4100, "torchrun")


def test_the_end_of_a_process_names_owner_and_memory() -> None:
    released = "80.0 GiB freed on GPU 0-7"
    said = outcome(make_process(), KILL, GONE, waited_seconds=1, freed=released)
    assert said.text == "killed 4242 (alice): 80.0 GiB freed on GPU 0-7"
    assert said.done


@pytest.mark.parametrize(
    ("signal", "text"),
    [
        ("TERM", "terminated 4242 (alice)"),
        ("INT", "interrupted 4242 (alice)"),
        ("HUP", "4242 (alice) ended after SIGHUP"),
    ],
)
def test_each_signal_has_its_words(signal: str, text: str) -> None:
    said = outcome(make_process(), find_signal(signal), GONE, waited_seconds=1)
    assert (said.text, said.done) == (text, True)


def test_a_process_without_an_owner_is_its_pid() -> None:
    process = make_process(username=None)
    assert outcome(process, KILL, GONE, waited_seconds=1).text == "killed 4242"


def test_d_state_is_explained() -> None:
    said = outcome(make_process(), KILL, Standing("uninterruptible", *PARENT), waited_seconds=5)
    assert said.text == (
        "4242 (alice) still in D state after 5 s: the kernel delivers the signal when its system"
        " call returns"
    )
    assert not said.done
    stuck = Standing("uninterruptible", *PARENT, waits_in="nv_wait")
    said = outcome(make_process(), KILL, stuck, waited_seconds=5)
    assert said.text.startswith("4242 (alice) still in D state in nv_wait after 5 s")


def test_a_zombie_names_who_must_reap_it() -> None:
    said = outcome(make_process(), KILL, Standing("zombie", *PARENT), waited_seconds=1)
    assert said.text == "killed 4242 (alice); zombie: parent 4100 (torchrun) must reap it"
    assert said.done


def test_a_zombie_has_ended_while_its_parent_may_be_about_to_reap_it() -> None:
    zombie = Standing("zombie", *PARENT)
    said = outcome(make_process(), KILL, zombie, waited_seconds=1, is_reaping_due=False)
    assert (said.text, said.done) == ("killed 4242 (alice)", True)


def test_an_ignored_sigterm_offers_sigkill() -> None:
    said = outcome(make_process(), TERM, Standing("alive", *PARENT), waited_seconds=10)
    assert said.text == "4242 (alice) ignored SIGTERM for 10 s"
    assert said.offer_kill
    assert not said.done


def test_sigkill_is_not_offered_after_itself() -> None:
    said = outcome(make_process(), KILL, Standing("alive", *PARENT), waited_seconds=5)
    assert "has not ended after 5 s" in said.text
    assert not said.offer_kill


def test_a_signal_that_ends_nothing_is_done_when_sent() -> None:
    said = outcome(make_process(), find_signal("STOP"), Standing("alive"), waited_seconds=0)
    assert (said.text, said.done) == ("SIGSTOP sent to 4242 (alice)", True)


def test_a_refusal_is_its_reason_unless_the_process_ended() -> None:
    reason = "not permitted: PID 4242 is owned by alice; try sudo gpudash"
    refused = outcome(make_process(), KILL, Standing("alive"), waited_seconds=0, refused=reason)
    assert (refused.text, refused.done) == (reason, False)
    ended = outcome(make_process(), KILL, GONE, waited_seconds=0, refused="already exited")
    assert (ended.text, ended.done) == ("4242 (alice) already exited", True)
