"""deduplicate by fingerprints, against a star by brute force."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.truth import texts, write_lines

import simindex
from simindex import Config, SimHashConfig, Sketcher
from simindex.corpus import Removed, deduplicate

TEXTS = texts(400)


def fingerprints(rows: Iterable[str]) -> list[int]:
    found = [sketch.fingerprint for sketch in Sketcher(Config(num_perm=0)).sketch_many(rows)]
    return [number for number in found if number is not None]


def star(numbers: list[int], order: Iterable[int], distance: int) -> set[int]:
    """Which rows stay: in this order, those that no row that stays is within the distance of."""
    kept: list[int] = []
    for place in order:
        if all((numbers[place] ^ numbers[other]).bit_count() > distance for other in kept):
            kept.append(place)
    return set(kept)


@pytest.mark.parametrize("distance", [0, 3, 6])
@pytest.mark.parametrize("keep", ["first", "newest", "longest"])
def test_simhash_keeps_the_star_of_brute_force(distance: int, keep: str) -> None:
    numbers = fingerprints(TEXTS)
    orders: dict[str, Any] = {
        "first": range(400),
        "newest": range(399, -1, -1),
        "longest": sorted(range(400), key=lambda place: -len(TEXTS[place])),
    }
    rows: list[Any] = []
    gone: list[Removed] = []
    items = list(enumerate(TEXTS))
    deduplicate(
        items,
        rows.append,
        by="simhash",
        max_distance=distance,
        keep=keep,
        on_removed=gone.append,
        batch_size=37,
    )
    kept = star(numbers, orders[keep], distance)
    assert 20 < len(kept) < 400
    assert {row.key for row in rows} == kept
    for each in gone:
        assert each.cluster in kept
        assert each.similarity is None
        assert each.distance == (numbers[each.number] ^ numbers[each.cluster]).bit_count() <= distance


def test_simhash_job_with_its_default_distance_and_an_index(tmp_path: Path) -> None:
    write_lines(tmp_path / "new.jsonl", TEXTS[150:])
    with simindex.open(tmp_path / "seen", "x", Config(num_perm=0, simhash=SimHashConfig(3))) as index:
        index.insert_many(enumerate(TEXTS[:150]))
    report = deduplicate(
        tmp_path / "new.jsonl", tmp_path / "out.jsonl", by="simhash", against=tmp_path / "seen"
    )
    numbers = fingerprints(TEXTS)
    new = [
        number for number in numbers[150:] if all((number ^ other).bit_count() > 3 for other in numbers[:150])
    ]
    assert report.kept == len(star(new, range(len(new)), 3)) < len(new)


@pytest.mark.parametrize("options", [{"threshold": 0.9}, {"exact": True}, {"max_distance": 9}])
def test_simhash_refuses_what_is_not_its_own(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"threshold|exact|max_distance"):
        deduplicate([("a", "one")], lambda _: None, by="simhash", **options)
