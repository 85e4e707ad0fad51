import pytest

from gpudash.analysis.health.rule import number, proof_text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("age_seconds", 7 * 3600, "Last seen 7 h ago"),
        ("xid_seconds", 1500.0, "Reported 25 min ago"),
        ("idle_seconds", 7200, "Idle 2 h"),
        ("whole_host_count", 11, "Whole hosts 11"),
        ("free_gpu_count", 594, "Free GPUs 594"),
    ],
)
def test_a_value_reads_as_in_a_sentence(name: str, value: float, text: str) -> None:
    assert proof_text(number(name, value)) == text
