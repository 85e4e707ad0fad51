from __future__ import annotations

from gpudash.analysis.health.rules import RULES, WORDS
from tests.analysis.health.examined import of_device, rules


def test_ids_are_unique_and_each_rule_says_what_it_finds() -> None:
    ids = [rule.id for rule in RULES]
    assert len(set(ids)) == len(ids)
    assert all(rule.help and rule.id == rule.id.lower() for rule in RULES)


def test_words_fit_the_column_of_the_status() -> None:
    assert all(len(word) <= 9 for word in WORDS.values())


def test_what_is_found_is_in_the_table() -> None:
    found = rules(of_device(state="lost")) | rules(of_device(remapped_rows_failed=True))
    assert set(found) <= {rule.id for rule in RULES}
