"""The emulator that the terminal of the other tests stands on."""

from tests.e2e.emulation import Emulator


def test_sequences_cut_anywhere_are_understood() -> None:
    output = "\x1b[?2026$p\x1b[>25ux\x1b[38;2;1;2;3mé\x1b]0;title\x07\x1b[5by\x1b[c".encode()
    whole = Emulator(20, 2)
    answers = whole.feed(output)
    for cut in range(len(output)):
        parts = Emulator(20, 2)
        assert parts.feed(output[:cut]) + parts.feed(output[cut:]) == answers
        assert parts.text == whole.text == "xéééééé" + "y\n"
