"""What is decided by sorting: the same rows as by an index that is asked row by row."""

import gzip
import json
import lzma
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import rows_of
from support.dedup_settings import dedup_arguments
from support.faults import around, broken_off, set_bound
from support.truth import kept_by_index, lines, texts, write_lines

import simindex
from simindex import Config, SimHashConfig, SimIndexError, tuning
from simindex.corpus import DedupSettings, Removed, deduplicate
from simindex.inputs import InputError

TEXTS = texts(400, seed=7)


ORDERS: dict[str, Callable[[list[str]], list[int]]] = {
    "first": lambda documents: list(range(len(documents))),
    "newest": lambda documents: list(range(len(documents)))[::-1],
    "field:id": lambda documents: list(range(len(documents)))[::-1],
    "longest": lambda documents: sorted(range(len(documents)), key=lambda at: -len(documents[at])),
}


def said_by_an_index(path: Path, documents: list[str], named: dict[str, Any]) -> dict[int, tuple[Any, ...]]:
    """What an index says of the rows that go, which is asked and given one row after the other."""
    how = {name: named[name] for name in ("max_distance", "exact", "recall") if name in named}
    found: dict[int, tuple[Any, ...]] = {}
    against = named.get("against")
    with simindex.open(path, "x", named["config"]) as own, own.transaction():
        others = [simindex.open(against, "r")] if against else []
        for number in ORDERS[named.get("keep", "first")](documents):
            for index in (*others, own):
                if named.get("by") == "simhash":
                    matches = index.query_simhash(documents[number], limit=1, **how)
                else:
                    matches = index.query(documents[number], named["threshold"], limit=1, **how)
                for match in matches:
                    figures = match.similarity, match.distance, match.exact, match.standard_error
                    found[number] = (match.key, None if index in others else match.key, *figures)
                if matches:
                    break
            else:
                own.insert(number, documents[number])
        for index in others:
            index.close()
    return found


@pytest.mark.parametrize(
    ("seed", "named"),
    [
        (0, {}),
        (1, {"mode": "annotate"}),
        (2, {"keep": "newest"}),
        (2, {"against": True, "workers": 2}),
        (2, {"against": True, "keep": "newest", "by": "simhash", "mode": "annotate"}),
        (3, {"keep": "longest", "mode": "annotate", "explain": True}),
        (4, {"keep": "field:id", "config": Config()}),
        (5, {"by": "simhash", "max_distance": 6, "config": Config(simhash=SimHashConfig(6))}),
        (6, {"by": "simhash", "keep": "longest", "config": Config()}),
        (7, {"threshold": 0.4}),
        (8, {"threshold": 0.1, "keep": "longest", "recall": 0.9}),
        (9, {"exact": True}),
        (10, {"exact": True, "threshold": 0.3, "keep": "newest"}),
        (11, {"exact": True, "against": True, "config": Config(keep_shingles=30)}),
        (12, {"max_distance": 5, "config": Config()}),
        (13, {"max_distance": 8, "exact": True, "keep": "longest", "config": Config(keep_shingles=200)}),
        (14, {"max_distance": 2, "against": True, "config": Config()}),
        (15, {"max_distance": 12, "threshold": 0.1, "recall": 0.9, "config": Config()}),
    ],
)
def test_rows_go_as_an_index_says_that_is_asked_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, named: dict[str, Any]
) -> None:
    """With runs that are long, keys that are sorted in parts, and pairs that are compared a few at a time."""
    small: dict[str, Any] = {"max_run": 2 if named.get("by") else 3, "capacity": 100}
    around(monkeypatch, "plan the candidates", lambda plan, *how: replace(plan(*how), **small))
    around(monkeypatch, "verify pairs", lambda verify, *of: verify(*of, pairs=50))
    dice = random.Random(seed)
    some = texts(300, seed)
    some += dice.choices(some, k=60)  # equal ones, too
    dice.shuffle(some)
    some += ["", "one"]  # nothing to compare, and equal to nothing
    own = write_lines(tmp_path / "a.jsonl", some)
    config = Config(keep_shingles=200) if "exact" in named else Config(simhash=None)
    named = {"config": Config() if named.get("by") else config} | named
    if "against" in named:
        with simindex.open(tmp_path / "seen", "x", named["config"]) as index:
            index.insert_many(enumerate(texts(300, seed)[::5]))
        named = named | {"against": tmp_path / "seen"}
    if "by" not in named:
        named = {"threshold": 0.7} | named
    expected = said_by_an_index(tmp_path / "index", some, named)
    named = named | {"workers": named.get("workers", 1 + seed % 2)}
    gone: list[Removed] = []
    report = deduplicate(
        tmp_path / "a.jsonl", tmp_path / "out.jsonl", **dedup_arguments(on_removed=gone.append, **named)
    )
    assert {
        row.number: (
            row.duplicate_of,
            row.cluster,
            row.similarity,
            row.distance,
            row.exact,
            row.standard_error,
        )
        for row in gone
    } == expected
    assert report[:4] == (len(some), len(some) - len(expected), len(expected), 0)
    assert report.removed > 60
    if named.get("mode") != "annotate":
        stays = b"".join(line for number, line in enumerate(own) if number not in expected)
        assert (tmp_path / "out.jsonl").read_bytes() == stays
    for row in gone:
        kept = (named.get("against"), 0) if row.cluster is None else (tmp_path / "a.jsonl", row.cluster + 1)
        assert (row.place.row, *row.kept_place[:2]) == (row.number + 1, str(kept[0]), kept[1])


def test_rows_that_no_lines_are_read_again_as_rows(tmp_path: Path) -> None:
    """Blank lines, a byte order mark, lines without an end, other formats, packed ones; in one job."""
    own = lines(TEXTS[:200])
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + b"".join(own[:40]) + b"\n\n")
    (tmp_path / "b.jsonl").write_bytes(b"".join(own[40:60]) + b"\r\n" + b"".join(own[60:80]).rstrip(b"\n"))
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b"".join(own[80:120])))
    (tmp_path / "d.csv").write_text("id,text\n" + "".join(f"{n},{TEXTS[n]}\n" for n in range(120, 150)))
    (tmp_path / "e.jsonl.xz").write_bytes(lzma.compress(b"".join(own[150:])))
    (tmp_path / "f.jsonl").write_bytes(b"")
    paths = [
        tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl.gz", "d.csv", "e.jsonl.xz", "f.jsonl")
    ]
    report = deduplicate(paths, tmp_path / "out.jsonl")
    kept = kept_by_index(tmp_path / "i", TEXTS[:200])
    assert report[:3] == (200, len(kept), 200 - len(kept))
    found = rows_of(tmp_path / "out.jsonl")
    assert [row["text"] for row in found] == [TEXTS[index] for index in kept]
    of_lines = [own[index] for index in kept if not 120 <= index < 150]
    assert set(of_lines) <= set((tmp_path / "out.jsonl").read_bytes().splitlines(keepends=True))


def test_documents_that_come_but_once_and_cannot_wait_in_a_file_are_named() -> None:
    """Shingles that a generator gives can wait, and what cannot be pickled cannot."""
    kept: list[Any] = []
    words = [text.split() for text in TEXTS[:20]]
    deduplicate(((number, iter(some)) for number, some in enumerate(words)), kept.append)
    assert [row.document for row in kept] == [tuple(words[row.key]) for row in kept]

    class Words(list[str]):
        pass

    with pytest.raises(TypeError, match="expected what can be pickled, found"):
        deduplicate(((number, Words(some)) for number, some in enumerate(words) if number < 2), kept.append)


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_that_were_looked_at_are_not_sketched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    write_lines(tmp_path / "a.jsonl", TEXTS)
    deduplicate(tmp_path / "a.jsonl", tmp_path / "whole.jsonl")
    how: dict[str, Any] = {"batch_size": 50, "workers": workers}
    with monkeypatch.context() as patch:
        broken_off(patch, "keep the sketches of rows", 4, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", **dedup_arguments(**how))
    journal = tmp_path / "out.jsonl.dedup/journal.json"
    assert json.loads(journal.read_bytes())["state"]["looked"] == 150
    sketched: list[int] = []

    def counted(sketch: Any, job: Any, rows: Any) -> Any:
        sketched.append(len(rows))
        return sketch(job, rows)

    around(monkeypatch, "sketch rows", counted)
    deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", **dedup_arguments(**how))
    assert sum(sketched) == 250
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert rows_of(tmp_path / "out.jsonl.dedup/removed.jsonl") == rows_of(
        tmp_path / "whole.jsonl.dedup/removed.jsonl"
    )
    left = {path.name for path in (tmp_path / "out.jsonl.dedup").iterdir()}
    assert left == {"journal.json", "removed.jsonl"}


def test_an_input_that_changes_between_two_readings_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = write_lines(tmp_path / "a.jsonl", TEXTS[:50])

    def change(write_verdicts: Any, *arguments: Any, **named: Any) -> None:
        write_verdicts(*arguments, **named)
        (tmp_path / "a.jsonl").write_bytes(b"".join(own[:30]))

    around(monkeypatch, "write the verdicts", change)
    with pytest.raises(InputError, match=r"a\.jsonl: expected the 50 rows .* found the input changed"):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_decisions_out_of_order_end_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines(tmp_path / "a.jsonl", [*TEXTS[:50], *TEXTS[:50]])

    def turn(write_verdicts: Any, path: str, read: Any, *verdicts: Any) -> None:
        gone = [one for some in verdicts for one in some]
        write_verdicts(path, read, [gone[1], gone[0], *gone[2:]])

    around(monkeypatch, "write the verdicts", turn)
    with pytest.raises(SimIndexError, match="decisions and rows do not belong together"):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", settings=DedupSettings(batch_size=50))
    assert not (tmp_path / "out.jsonl").exists()


def test_more_rows_than_have_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "rows of a job", 39)
    write_lines(tmp_path / "a.jsonl", TEXTS[:40])
    with pytest.raises(SimIndexError, match="expected fewer than 40 rows, found more; cut the input"):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl")
    write_lines(tmp_path / "a.jsonl", TEXTS[:39])
    assert deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", force=True).read == 39


def test_keys_of_all_kinds_are_told_as_they_are(tmp_path: Path) -> None:
    """In one batch with others and without, of some bytes a character."""
    keys: list[Any] = ["a b", "\u00fc\n", 7, -(2**63), "7", {"bytes": "AAE="}, None, ""]
    for name, some in (("mixed", keys), ("texts", ["\u00fc", "b\U0001f600"]), ("plain", ["x", "y"])):
        rows = [{"id": key, "text": TEXTS[0]} for key in some]
        source = tmp_path / f"{name}.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *reversed(rows)]))
        deduplicate(source, tmp_path / f"{name}.out.jsonl")
        found = rows_of(tmp_path / f"{name}.out.jsonl.dedup/removed.jsonl")
        ids = [f"{source}:{row}" if key is None else key for row, key in enumerate((*some, *some[::-1]), 1)]
        assert [row["id"] for row in found] == ids[1:]
        assert {json.dumps(row["duplicate_of"]) for row in found} == {json.dumps(ids[0])}


def test_a_run_that_is_long_is_bounded(tmp_path: Path) -> None:
    """Pages that share four fifths of their words: more than 256 of them share a prefix that is of these."""
    shared = " ".join(f"menu{number}" for number in range(40))
    pages = [f"{shared} " + " ".join(f"w{n * 1_000 + i}" for i in range(10)) for n in range(2_400)]
    write_lines(tmp_path / "a.jsonl", pages)
    report = deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", 0.9)
    assert report.kept == 2_400
    assert report.bounded > 0


def test_row_is_bounded_from_one_more_than_it_is_compared_with() -> None:
    """Brute force: of each prefix of a band it is compared with the first 256 rows that stay."""
    shared, config = {f"menu{number}" for number in range(40)}, simindex.Config()
    pages = [shared | {f"{n} own{i}" for i in range(10)} for n in range(800)]
    bits, runs, expected = tuning.compared_bits(0.9, config.bands), Counter[tuple[int, int]](), 0
    for sketch in simindex.Sketcher(config).sketch_many(pages):
        assert sketch.rows is not None
        words = np.frombuffer(sketch.rows.astype(np.uint8).tobytes(), dtype=">u8").tolist()
        prefixes = [(band, word >> (64 - bits)) for band, word in enumerate(words)]
        expected += any(runs[prefix] > 256 for prefix in prefixes)
        runs.update(prefixes)
    report = deduplicate(enumerate(pages), None, 0.9)
    assert (report.kept, report.bounded) == (800, expected)
    assert expected > 0


def test_batch_ends_where_its_rows_are_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(by_columns: Any, *arguments: Any) -> Any:
        for rows in by_columns(*arguments):
            sizes.append(len(rows))
            yield rows

    around(monkeypatch, "batches of rows", counted)
    set_bound(monkeypatch, "bytes of a batch of rows", 4 << 20)
    write_lines(tmp_path / "a.jsonl", [f"text {n} " + "word " * 200_000 for n in range(12)])
    assert deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl").kept == 12
    assert sum(sizes) == 12
    assert max(sizes) <= 5


@pytest.mark.parametrize("shift", [1, 5, 10_000])
def test_decisions_that_fit_no_row_end_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift: int
) -> None:
    """Rows numbered otherwise in the second reading than in the first must not be written."""
    write_lines(tmp_path / "a.jsonl", TEXTS)
    entries = tmp_path / "b.csv"
    entries.write_text("id,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(TEXTS)))

    def shifted(by_columns: Any, *arguments: Any) -> Any:
        for number, rows in enumerate(by_columns(*arguments)):
            rows.first += shift * (number >= 3)
            yield rows

    around(monkeypatch, "batches of rows", shifted)
    with pytest.raises(SimIndexError, match="decisions and rows do not belong together"):
        deduplicate(
            [tmp_path / "a.jsonl", entries], tmp_path / "out.jsonl", settings=DedupSettings(batch_size=50)
        )
    assert not (tmp_path / "out.jsonl").exists()
