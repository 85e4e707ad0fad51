import pytest

from gpudash.analysis.filter.terms import hint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gpu:9", "there is no GPU 9: choose from 0-7"),
        ("alice GPU=8-11,14", "there is no GPU 8-11,14"),
        ("gpu:0:1", "there is no GPU 0:1"),
        ("mem:10G", "mem:10G is about equal: mem>10G is more"),
        ("idle=10m", "idle>10m is more"),
        ("a|b", "a|b is looked for as it stands"),
    ],
)
def test_words_that_may_not_mean_what_was_meant_are_told(text: str, told: str) -> None:
    assert told in hint(text, [str(index) for index in range(8)])


@pytest.mark.parametrize("text", ["", "gpu:7", "-gpu:9", "gpu:6-9", '"(a|b)"', "zzz", "mem>10G"])
def test_words_that_mean_what_they_say_are_not(text: str) -> None:
    assert hint(text, [str(index) for index in range(8)]) == ""
