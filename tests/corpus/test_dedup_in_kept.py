"""`in_kept` of `deduplicate`: a row goes only for one that has most of it."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run, rows_of
from support.dedup_settings import dedup_arguments
from support.texts import json_lines
from support.truth import extract, shingle_set

from simindex import Config
from simindex.corpus import Removed, deduplicate


def _grown(count: int) -> list[str]:
    """Texts, each with copies that go on, begin earlier, or have some words replaced, in any order."""
    dice, found = random.Random(3), list[str]()
    while len(found) < count:
        words = [f"w{dice.randrange(400)}" for _ in range(dice.randint(30, 90))]
        for _ in range(4):
            own, more = list(words), [f"m{dice.randrange(400)}" for _ in range(dice.randint(0, 12))]
            own[dice.randrange(len(own))] = "other"
            found.append(" ".join(dice.choice([words, own, words + more, more + own, words[5:]])))
    dice.shuffle(found)
    return found


COLLECTIONS = {"grown": lambda: _grown(240), "licenses": lambda: list(extract().values())[:120]}


def _brute_force(texts: list[str], keep: str, threshold: float, in_kept: float) -> dict[int, set[float]]:
    """The rows that go, each with the shares that kept rows have of it, of those for which it may go."""
    sets = [shingle_set(text) for text in texts]
    order = list(range(len(texts)))
    if keep != "first":
        order = order[::-1] if keep == "newest" else sorted(order, key=lambda index: -len(texts[index]))
    kept, gone = list[int](), dict[int, set[float]]()
    for number in order:
        own = sets[number]
        shares = {
            len(own & sets[other]) / len(own)
            for other in kept
            if own and len(own & sets[other]) / len(own | sets[other]) >= threshold
        }
        held = {share for share in shares if share >= in_kept}
        if held:
            gone[number] = held
        else:
            kept.append(number)
    return gone


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize(("keep", "in_kept"), [("first", 0.95), ("newest", 1.0), ("longest", 0.95)])
def test_rows_go_for_one_that_has_them_as_brute_force_says(
    tmp_path: Path, collection: str, keep: Any, in_kept: float
) -> None:
    texts, how = COLLECTIONS[collection](), {"keep": keep, "in_kept": in_kept, "recall": 1 - 1e-9}
    expected, removed = _brute_force(texts, keep, 0.7, in_kept), list[Removed]()
    kept = list[Any]()
    report = deduplicate(
        enumerate(texts), kept.append, 0.7, **dedup_arguments(on_removed=removed.append, **how)
    )
    assert {row.number for row in removed} == set(expected)
    assert sorted(row.key for row in kept) == sorted(set(range(len(texts))) - set(expected))
    for row in removed:
        assert row.exact
        assert row.in_kept in expected[row.number]
        assert row.to_dict()["in_kept"] == row.in_kept
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(json_lines([{"id": key, "text": text} for key, text in enumerate(texts)]))
    out = tmp_path / "out.jsonl"
    assert deduplicate(rows, out, 0.7, **dedup_arguments(batch_size=17, workers=2, **how))[:3] == report[:3]
    assert [row["id"] for row in rows_of(out)] == sorted(row.key for row in kept)
    lines = rows_of(tmp_path / "out.jsonl.dedup" / "removed.jsonl")
    assert [line["in_kept"] for line in lines] == [row.in_kept for row in removed]
    assert len(removed) < deduplicate(enumerate(texts), None, 0.7, keep=keep, exact=True).removed


def test_share_of_a_sample_is_an_estimate() -> None:
    words = [f"w{number}" for number in range(1_000)]
    texts = [" ".join(words[:850]), " ".join(words)]
    for keep, gone in (("first", []), ("longest", [(0, 1.0, False)])):
        removed = list[Removed]()
        how: dict[str, Any] = {"keep": keep, "config": Config(keep_shingles=200)}
        deduplicate(
            enumerate(texts), None, 0.7, **dedup_arguments(in_kept=0.95, on_removed=removed.append, **how)
        )
        assert [(row.key, row.in_kept, row.exact) for row in removed] == gone


def test_command_keeps_the_longer_of_two(run: Run) -> None:
    short, long = "one two three four five six seven eight nine ten", "eleven"
    texts = [short, f"{short} {long}", short]
    Path("rows.jsonl").write_bytes(json_lines([{"text": text} for text in texts]))
    how = ["rows.jsonl", "-o", "out.jsonl", "--threshold", 0.7]
    assert run("dedup", *how, "--in-kept", 0.95).code == 0
    assert [row["text"] for row in rows_of("out.jsonl")] == texts[:2]
    assert [row["in_kept"] for row in rows_of("out.jsonl.dedup/removed.jsonl")] == [1.0]
    again = run("dedup", *how, "--in-kept", 0.9)
    assert "was made with --in-kept 0.95, and you ask for --in-kept 0.9" in again.err
    assert run("dedup", *how, "--in-kept", 0.95, "--keep", "longest", "--force").code == 0
    assert [row["text"] for row in rows_of("out.jsonl")] == texts[1:2]
    assert "--into does not go with --in-kept" in run("dedup", *how, "--in-kept", 1, "--into", "k").err
    assert "'--in-kept': expected a number in (0, 1], found 0" in run("dedup", *how, "--in-kept", 0).err
    journal = json.loads(Path("out.jsonl.dedup/journal.json").read_bytes())
    assert journal["job"]["in_kept"] == 0.95


@pytest.mark.parametrize("options", [{"by": "simhash"}, {"into": "index"}, {"against": "index"}])
def test_what_has_no_shingles_to_go_by_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"^expected no against=.* beside in_kept=.*; it goes by the shingles"
    ):
        deduplicate([("a", "b")], None, **dedup_arguments(in_kept=0.9, **options))
