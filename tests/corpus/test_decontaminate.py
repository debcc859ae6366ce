"""decontaminate: which rows hold an item, in which form it is said, and that a job goes on where it was."""

import json
import random
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import set_bound, small_frames, stopping_at

import simindex
from simindex import Config, ConfigMismatchError, SimIndexError, WordShingles
from simindex.corpus import Contaminated, decontaminate

ITEM = "the ferry to the island leaves at nine in the morning and comes back at noon"
WORDS = [f"w{number}" for number in range(400)]

Rows = list[tuple[int, str]]


def corpus(seed: int, count: int) -> tuple[Rows, Rows]:
    """Items, and rows of which some hold one, whole or with changed words, wrapped in some way."""
    chance = random.Random(seed)
    items = [(number, " ".join(chance.choices(WORDS, k=chance.randint(1, 40)))) for number in range(30)]
    rows = []
    for number in range(count):
        words = chance.choices(WORDS, k=chance.randint(0, 60))
        if chance.random() < 0.4:
            held = chance.choice(items)[1].upper().split()
            for _ in range(chance.randint(0, 2)):
                held[chance.randrange(len(held))] = "changed"
            at = chance.randint(0, len(words))
            words[at:at] = held
        rows.append((number, chance.choice([" ", "\n", ", "]).join(words)))
    return items, rows


def shingles(text: str, size: int) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[at : at + size]) for at in range(max(1, len(words) - size + 1))} if words else set()


def held_by_brute_force(items: Rows, text: str, threshold: float, size: int = 8) -> dict[Any, float]:
    row = shingles(text, size)
    shares = {key: len(row & own) / len(own) for key, item in items if (own := shingles(item, size))}
    return {key: share for key, share in shares.items() if share >= threshold}


def written(path: Path, rows: Rows) -> list[bytes]:
    lines = [json.dumps({"id": key, "text": text}).encode() + b"\n" for key, text in rows]
    path.write_bytes(b"".join(lines))
    return lines


@given(st.integers(0, 1_000), st.sampled_from([0.2, 0.5, 1.0]), st.sampled_from([1, 7, 4_000]))
@settings(max_examples=15, deadline=None)
def test_rows_go_that_brute_force_finds_to_hold_an_item(seed: int, threshold: float, batch_size: int) -> None:
    items, rows = corpus(seed, 60)
    gone: list[Contaminated] = []
    report = decontaminate(rows, None, items, threshold, batch_size=batch_size, on_removed=gone.append)
    expected: dict[Any, dict[Any, float]] = {
        key: held for key, text in rows if (held := held_by_brute_force(items, text, threshold))
    }
    assert {row.key: {held.item: held.share for held in row.items} for row in gone} == expected
    assert report[:4] == (60, 60 - len(expected), len(expected), 0)
    assert report.items == 30
    assert report.short_items == sum(len(text.split()) < 8 for _, text in items)
    assert {found.item: found.rows for found in report.found} == {
        item: sum(item in held for held in expected.values()) for item in set().union(*expected.values())
    }
    for found in report.found:
        assert found.share == max(held.get(found.item, 0.0) for held in expected.values())
        assert expected[found.held_by][found.item] == found.share


def test_spans_are_the_places_of_an_item_in_whatever_lines_case_and_punctuation() -> None:
    wrapped = "News!\n" + ITEM.upper().replace(" NINE ", "\nNINE, ").replace(" AND ", "; and\n") + ". A coat?"
    gone: list[Contaminated] = []
    decontaminate([("row", wrapped)], None, [("q", ITEM)], on_removed=gone.append)
    ((held,),) = [row.items for row in gone]
    ((start, end),) = held.spans
    assert (held.share, wrapped[start:end]) == (1.0, wrapped[6:-9])


@pytest.mark.parametrize("name", ["clean.jsonl", "clean.csv", "clean.parquet", "clean.jsonl.zst"])
def test_bytes_depend_neither_on_batches_nor_on_workers_nor_on_interruptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    small_frames(monkeypatch, 2_000)
    set_bound(monkeypatch, "seconds between journals of kept rows", 0.0)
    items, rows = corpus(5, 300)
    lines = written(tmp_path / "rows.jsonl", rows)
    written(tmp_path / "items.jsonl", items)
    found = set()

    for batch_size, workers, stops in ((1, 1, []), (7, 2, [40, 150]), (4_000, None, [])):
        out = tmp_path / f"{batch_size}-{name}"
        how: Any = {"batch_size": batch_size, "workers": workers}
        arguments = tmp_path / "rows.jsonl", out, tmp_path / "items.jsonl"
        for at in stops:
            with pytest.raises(KeyboardInterrupt):
                decontaminate(*arguments, progress=stopping_at(at), **how)
        report = decontaminate(*arguments, **how)
        assert decontaminate(*arguments, **how)._replace(seconds=0.0) == report._replace(seconds=0.0)
        gone = (tmp_path / f"{out.name}.dedup" / "removed.jsonl").read_bytes()
        found.add((out.read_bytes(), gone, repr(report._replace(seconds=0.0))))
    assert len(found) == 1
    if name == "clean.jsonl":
        stays = [
            line for line, row in zip(lines, rows, strict=True) if not held_by_brute_force(items, row[1], 0.5)
        ]
        assert 100 < len(stays) < 290
        assert out.read_bytes() == b"".join(stays)


def test_annotate_writes_all_rows_and_report_only_none_but_the_others(tmp_path: Path) -> None:
    rows = [(1, "Bring a coat, for it will rain at sea."), (2, f"News: {ITEM}!")]
    written(tmp_path / "rows.jsonl", rows)
    out = tmp_path / "out.jsonl"
    decontaminate(tmp_path / "rows.jsonl", out, [("q", ITEM)], mode="annotate")
    held = {"item": "q", "item_input": "items", "item_row": 1, "share": 1.0, "spans": [[6, 82]]}
    notes = [{"contamination": 0.0, "items": []}, {"contamination": 1.0, "items": [held]}]
    expected = [{"id": key, "text": text} | note for (key, text), note in zip(rows, notes, strict=True)]
    assert list(map(json.loads, out.read_text().splitlines())) == expected
    called: list[Any] = []
    decontaminate(rows, called.append, [("q", ITEM)], mode="annotate")
    assert [row[3:] for row in called] == [tuple(note.values()) for note in notes]
    only = tmp_path / "only.jsonl"
    decontaminate(rows, only, [("q", ITEM)], mode="report-only")
    (line,) = map(json.loads, only.read_text().splitlines())
    assert line == {"id": 2, "input": "items", "row": 2, "number": 1, "items": [held]}


def test_an_index_of_items_serves_as_they_do_and_one_of_samples_is_refused(tmp_path: Path) -> None:
    items, rows = corpus(3, 80)
    items += [(number + 100, text) for number, text in items[:15]]  # of some items copies, or nothing else
    for number, one_in in enumerate((1, 8)):
        how = Config(WordShingles(5), num_perm=8, simhash=None, containment=one_in)
        with simindex.open(tmp_path / str(number), config=how) as index:
            index.insert_many(items)
            index.remove_many(range(5))
    items = items[5:]
    gone: list[Contaminated] = []
    report = decontaminate(rows, None, tmp_path / "0", on_removed=gone.append)
    for row in gone:
        assert {held.item: held.share for held in row.items} == held_by_brute_force(
            items, dict[Any, str](rows)[row.key], 0.5, 5
        )
        assert {held.item_input for held in row.items} == {str(tmp_path / "0")}
    assert report.items == 40
    assert len(gone) == sum(bool(held_by_brute_force(items, text, 0.5, 5)) for _, text in rows)
    written(tmp_path / "rows.jsonl", rows)
    done, again = (
        decontaminate(tmp_path / "rows.jsonl", tmp_path / "out.jsonl", tmp_path / "0") for _ in range(2)
    )
    assert (done.items, again) == (40, done)
    with pytest.raises(ValueError, match="against: expected an index with all shingles"):
        decontaminate(rows, None, tmp_path / "1")
    with pytest.raises(ConfigMismatchError):
        decontaminate(rows, None, tmp_path / "0", config=Config(WordShingles(8)))


@given(st.integers(0, 1_000), st.sampled_from([0.1, 0.5, 1.0]), st.sampled_from([1, 3, 512]))
@settings(max_examples=15, deadline=None)
def test_shared_boilerplate_gives_what_queries_and_passages_say(
    seed: int, threshold: float, batch_size: int
) -> None:
    chance = random.Random(seed)
    notices = [" ".join(chance.choices(WORDS[:90], k=chance.randint(8, 30))) for _ in range(4)]

    def text() -> str:
        parts = [chance.choice([*notices, " ".join(chance.choices(WORDS, k=9)), "ﬁn"]) for _ in range(5)]
        return chance.choice(["\n", " é ", "\xa0"]).join(parts)

    with tempfile.TemporaryDirectory() as folder:
        how = Config(WordShingles(4), num_perm=8, simhash=None, containment=1)
        with simindex.open(folder, config=how) as index:
            for first in range(0, 60, 20):  # a segment each
                index.insert_many([(number, text()) for number in range(first, first + 20)])
            index.remove_many(chance.sample(range(60), chance.choice([0, 7])))
        rows = [(number, chance.choice([text(), text(), set(text().split())])) for number in range(20)]
        gone: list[Contaminated] = []
        decontaminate(rows, None, folder, threshold, batch_size=batch_size, on_removed=gone.append)
        expected = []
        with simindex.open(folder, "r") as index:
            for key, document in rows:
                held: list[Any] = []
                found = index.passages(document, min_words=1) if isinstance(document, str) else []
                for match in index.query_containment(document, threshold, direction="in_query"):
                    spans = sorted([p.start, p.end] for p in found if p.key == match.key)
                    held.append((match.key, match.in_query, spans if len(held) < 16 else []))
                expected += [(key, held)] * bool(held)
    assert [(row.key, [(of.item, of.share, of.spans) for of in row.items]) for row in gone] == expected


def test_a_row_of_many_items_lists_all_and_places_the_best_sixteen() -> None:
    words = [f"word{number}" for number in range(60)]
    items = [(f"q{size}", " ".join(words[:size])) for size in range(8, 54)]  # the last has half of its 46
    row = " ".join(words[:30])
    gone: list[Contaminated] = []
    report = decontaminate([(1, row)], None, items, 0.5, on_removed=gone.append)
    held = gone[0].items
    assert {of.item for of in held} == {key for key, _ in items}
    assert [of.share for of in held] == sorted((of.share for of in held), reverse=True)
    texts: dict[Any, str] = dict(items)
    assert [of.spans for of in held] == [[[0, len(texts[of.item])]] for of in held[:16]] + [[]] * 30
    assert {of.item for of in report.found} == {of.item for of in held}


def test_items_whose_keys_are_written_alike_are_two(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "items", config=Config(WordShingles(8), containment=1)) as index:
        index.insert_many([(7, ITEM), ("7", ITEM + " sharp")])
    found = decontaminate([(1, ITEM + " sharp"), (2, ITEM)], None, tmp_path / "items", 1.0).found
    assert {item.item: item.rows for item in found} == {7: 2, "7": 1}


@pytest.mark.parametrize(
    ("items", "job"),
    [
        ("e.jsonl", {"sink": "e.jsonl"}),
        ("e.jsonl", {"sink": "o.jsonl", "removed": "e.jsonl"}),
        ("o.jsonl.dedup/e.jsonl", {"sink": "o.jsonl"}),
    ],
)
def test_items_are_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, items: str, job: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("o.jsonl.dedup").mkdir()
    (line,) = written(Path("a.jsonl"), [(1, ITEM)])
    Path(items).write_bytes(line)
    with pytest.raises(ValueError, match=r"^(sink|removed|sources): expected .*inputs"):
        decontaminate("a.jsonl", against=items, force=True, **job)
    assert Path(items).read_bytes() == line


def test_a_job_with_other_items_is_another_one_and_bad_rows_are_passed_over(tmp_path: Path) -> None:
    written(tmp_path / "rows.jsonl", [(1, ITEM)])
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write("no row\n")
    bad: list[Any] = []
    for name in ("a.jsonl", "b.jsonl"):
        written(tmp_path / name, [(7, ITEM)])
    arguments = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    report = decontaminate(*arguments, tmp_path / "a.jsonl", on_bad_row=bad.append)
    assert (report[:3], len(bad)) == ((1, 0, 1), 1)
    with pytest.raises(
        SimIndexError, match=r"made with against=.\S+a.jsonl., and you ask for against=.\S+b.jsonl."
    ):
        decontaminate(*arguments, tmp_path / "b.jsonl", on_bad_row=bad.append)
    with simindex.open(tmp_path / "index", config=Config(WordShingles(8), containment=1)) as index:
        index.insert(7, ITEM)
    with pytest.raises(SimIndexError, match=r"ask for against=.\S+index. \(of 1 documents\)"):
        decontaminate(*arguments, tmp_path / "index", on_bad_row=bad.append)
    written(tmp_path / "a.jsonl", [(8, ITEM + " sharp")])
    with pytest.raises(SimIndexError, match=r"made with against=.\S+a.jsonl., which has changed since"):
        decontaminate(*arguments, tmp_path / "a.jsonl", on_bad_row=bad.append)


def test_report_of_an_id_that_is_no_unicode_has_the_same_places(tmp_path: Path) -> None:
    reports = []
    for number, item in enumerate(("q", "\udcff")):
        decontaminate([(1, f"News: {ITEM}!")], tmp_path / str(number), [(item, ITEM)], mode="report-only")
        reports.append(json.loads((tmp_path / str(number)).read_text()))
    assert reports[1]["items"] == [reports[0]["items"][0] | {"item": "\\udcff"}]


@pytest.mark.parametrize(("containment", "found"), [(0, "none"), (4, "samples")])
def test_index_without_all_shingles_is_refused(tmp_path: Path, containment: int, found: str) -> None:
    with simindex.open(tmp_path / "items", config=Config(containment=containment)) as index:
        expected = f"an index with all shingles, found one with {found}; build it with .*containment=1"
        with pytest.raises(ValueError, match=expected):
            decontaminate([(1, "some words")], None, index)
