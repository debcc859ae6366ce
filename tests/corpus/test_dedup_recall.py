"""How many rows right at the threshold a deduplication misses, and that it says so."""

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from support.commands import Run

import simindex
from simindex.corpus import DedupSettings, deduplicate

_PAIRS = 1_000
_WORDS = 90


def shingles_of(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return set(zip(words, words[1:], words[2:], strict=False))


@pytest.fixture(scope="module")
def right_at_the_threshold() -> list[str]:
    """Pairs of an unlike text and its copy with words changed, whose exact similarity is 0.8 to 0.82."""
    random = Random(17)
    found: list[str] = []
    while len(found) < 2 * _PAIRS:
        words = [f"{random.randrange(10**9):x}" for _ in range(_WORDS)]
        changed = list(words)
        for index in random.sample(range(_WORDS), 3):
            changed[index] = "other"
        one, other = " ".join(words), " ".join(changed)
        if 0.8 <= simindex.textbook.jaccard(shingles_of(one), shingles_of(other)) <= 0.82:
            found += [one, other]
    return found


def test_recall_decides_how_many_rows_right_at_the_threshold_are_missed(
    right_at_the_threshold: list[str],
) -> None:
    """By estimates about half of them are, for half of the estimates lie below the similarity."""
    shares = []
    for recall in (None, 0.9, 0.98):
        kept: list[int] = []
        items = enumerate(right_at_the_threshold)
        report = deduplicate(
            items, lambda row, kept=kept: kept.append(row.key), 0.8, settings=DedupSettings(recall=recall)
        )
        assert set(range(0, 2 * _PAIRS, 2)) <= set(kept)
        share = len(set(kept) & set(range(1, 2 * _PAIRS, 2))) / _PAIRS
        assert share <= report.missed + 3 * (report.missed * (1 - report.missed) / _PAIRS) ** 0.5
        assert recall is None or report.missed <= 1 - recall + 1e-9
        shares.append(share)
    assert shares[0] > 0.25
    assert all(more > less for more, less in pairwise(shares))


def test_recall_is_a_share_and_goes_with_rows_alone(run: Run) -> None:
    Path("rows.jsonl").write_text('{"id": 1, "text": "one two three"}\n')
    for value, why in (("0", "recall"), ("1.5", "recall"), ("many", "recall")):
        result = run("dedup", "rows.jsonl", "-o", "out.jsonl", "--recall", value)
        assert result.code == 2
        assert why in result.err
    result = run("dedup", "rows.jsonl", "-o", "out.jsonl", "--recall", "0.9", "--by", "simhash")
    assert result.code == 2
    assert "--recall" in result.err
    report = deduplicate([(1, "one two three four")], print, by="simhash")
    assert report.missed == 0
