"""deduplicate paragraph by paragraph: what is left of texts, what is told, against a plain loop."""

import itertools
import json
import random
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.commands import Run, rows_of
from support.dedup_settings import dedup_arguments
from support.faults import small_frames, stopping_at
from support.samples import sample_of
from support.truth import texts

import simindex
from simindex.corpus import DedupSettings, Removed, deduplicate
from simindex.inputs import BadRowError, InputError

SOME = random.Random(12)
POOL = texts(150)
TEXTS = ["\n".join(SOME.choices(POOL, k=SOME.randrange(1, 8))) + "\n" * SOME.randrange(3) for _ in range(120)]


def write(path: Path, rows: list[str]) -> list[bytes]:
    lines = [orjson.dumps({"id": n, "text": text, "n": 1}) + b"\n" for n, text in enumerate(rows)]
    path.write_bytes(b"".join(lines))
    return lines


def brute_force(rows: list[str], threshold: float = 0.8) -> list[list[bool]]:
    """Which paragraphs of each text were seen before."""
    sketcher = simindex.Sketcher(simindex.Config(simhash=None))
    kept: list[Any] = []
    found = []
    for text in rows:
        seen = []
        for line in text.split("\n"):
            if line.strip():
                sketch = sketcher.sketch(line)
                # Below the threshold by half a step of the estimate; the index cuts there, too.
                seen.append(any(sketch.jaccard(other) >= threshold - 1e-9 for other in kept))
                if not seen[-1]:
                    kept.append(sketch)
        found.append(seen)
    return found


def test_seen_paragraphs_go_and_rows_without_any_stand_as_they_stood(tmp_path: Path) -> None:
    lines = write(tmp_path / "a.jsonl", TEXTS)
    report = deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", level="paragraph")
    expected, counts = [], [0, 0]
    for number, (text, seen) in enumerate(zip(TEXTS, brute_force(TEXTS), strict=True)):
        paragraphs = [line for line in text.split("\n") if line.strip()]
        rest = [line for line, is_seen in zip(paragraphs, seen, strict=True) if not is_seen]
        counts[0] += len(paragraphs)
        counts[1] += sum(seen)
        if not any(seen):
            expected.append(orjson.loads(lines[number]))
            assert lines[number] in (tmp_path / "out.jsonl").read_bytes()
        elif rest:
            tail = text[len(text.rstrip()) :]
            expected.append({"id": number, "text": "\n".join(rest) + tail, "n": 1})
    assert rows_of(tmp_path / "out.jsonl") == expected
    assert 20 < len(expected) < 100
    assert (report.read, report.removed) == tuple(counts)


def test_each_seen_paragraph_and_the_share_of_each_document_is_told(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", TEXTS)
    gone: list[Removed] = []
    deduplicate(
        tmp_path / "a.jsonl",
        tmp_path / "out.jsonl",
        level="paragraph",
        on_removed=gone.append,
        settings=DedupSettings(explain=True),
    )
    folder = tmp_path / "out.jsonl.dedup"
    removed_rows = rows_of(folder / "removed.jsonl")
    assert [each.to_dict() for each in gone] == removed_rows
    for row in removed_rows:
        text = TEXTS[row["row"] - 1]
        paragraph = text[slice(*row["span"])].strip()
        assert row["id"] == f"{row['row'] - 1}#{row['paragraph']}"
        assert paragraph == [line for line in text.split("\n") if line.strip()][row["paragraph"] - 1]
        kept = [line for line in TEXTS[row["kept_row"] - 1].split("\n") if line.strip()]
        found = simindex.corpus.explain(
            paragraph, kept[row["kept_paragraph"] - 1], simindex.Config(simhash=None)
        )
        assert row["explanation"] == found.to_dict()
        assert row["duplicate_of"] == f"{row['kept_row'] - 1}#{row['kept_paragraph']}"
    rollup = rows_of(folder / "documents.jsonl")
    for row in rollup:
        parts = [line for line in TEXTS[row["number"]].split("\n") if line.strip()]
        numbers = [each["paragraph"] for each in removed_rows if each["row"] == row["row"]]
        assert (row["paragraphs"], row["seen"]) == (len(parts), len(numbers))
        share = sum(len(parts[number - 1]) for number in numbers) / sum(map(len, parts))
        assert row["share"] == pytest.approx(share, abs=1e-4)
        assert row["kept"] == (len(numbers) < len(parts))
    assert {row["row"] for row in rollup} == {row["row"] for row in removed_rows}


def test_paragraphs_are_annotated_with_their_places(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", TEXTS)
    deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", level="paragraph", mode="annotate")
    rows = rows_of(tmp_path / "out.jsonl")
    assert [row["text"] for row in rows] == TEXTS
    for row, seen in zip(rows, brute_force(TEXTS), strict=True):
        assert len(row["seen"]) == sum(seen)
        assert (row["seen_share"] > 0) == any(seen)
        for each in row["seen"]:
            assert each.keys() == {"span", "duplicate_of", "similarity"}
            assert row["text"][slice(*each["span"])].strip() in POOL


@pytest.mark.parametrize("keep", sample_of(["longest"], ["first", "newest"]))
def test_batches_workers_and_interruptions_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str
) -> None:
    small_frames(monkeypatch, 9_000)
    write(tmp_path / "a.jsonl", TEXTS)
    names = ("{}", "{}.dedup/removed.jsonl", "{}.dedup/documents.jsonl")
    found = []
    for number, (batch_size, workers) in enumerate([(40, 1), (33, 2), (4_000, None), (30, 1)]):
        out = tmp_path / f"{number}.jsonl"
        how: Any = {"level": "paragraph", "keep": keep, "explain": True}
        if number == 3:
            for stop in (40, 150, 260):
                broken_off = how | {"batch_size": batch_size, "progress": stopping_at(stop)}
                with pytest.raises(KeyboardInterrupt):
                    deduplicate(tmp_path / "a.jsonl", out, **dedup_arguments(**broken_off))
        deduplicate(
            tmp_path / "a.jsonl", out, **dedup_arguments(batch_size=batch_size, workers=workers, **how)
        )
        found.append([(tmp_path / name.format(out.name)).read_bytes() for name in names])
    assert found[1:] == found[:1] * 3
    assert all(found[0])


def test_paragraphs_of_csv_parquet_folders_and_iterables(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    rows = [
        "one two three four\nfive six seven eight",
        "Five six seven eight!\nnine ten eleven",
        "one two three four",
    ]
    left = [rows[0], "nine ten eleven"]
    table = pyarrow.table({"n": pyarrow.array([1, 2, 3], "int8"), "id": ["a", "b", "c"], "text": rows})
    parquet.write_table(table, tmp_path / "a.parquet")
    deduplicate(tmp_path / "a.parquet", tmp_path / "out.parquet", level="paragraph")
    out = parquet.read_table(tmp_path / "out.parquet")
    assert out.schema.types == table.schema.types
    assert (out["text"].to_pylist(), out["n"].to_pylist()) == (left, [1, 2])
    (tmp_path / "a.csv").write_text(
        'id,text,n\r\na,"one two three\nfour five",1\r\nb,"x y z\nfour five",2\r\n'
    )
    deduplicate(tmp_path / "a.csv", tmp_path / "out.csv", level="paragraph")
    assert (tmp_path / "out.csv").read_text() == 'id,text,n\na,"one two three\nfour five",1\nb,x y z,2\n'
    (tmp_path / "folder").mkdir()
    for number, text in enumerate(rows):
        (tmp_path / "folder" / f"{number}.txt").write_text(text)
    deduplicate(tmp_path / "folder", tmp_path / "folder.jsonl", level="paragraph")
    assert [row["text"] for row in rows_of(tmp_path / "folder.jsonl")] == left
    with pytest.raises(InputError, match=r"list\.txt: expected an output"):
        deduplicate(tmp_path / "folder", tmp_path / "list.txt", level="paragraph")
    kept: list[Any] = []
    items: list[Any] = [(b"a", rows[0], {"n": 1}), (7, rows[1]), ("c", rows[2])]
    gone: list[Removed] = []
    deduplicate(iter(items), kept.append, level="paragraph", keep="newest", on_removed=gone.append)
    assert [(row.key, row.document) for row in kept] == [(7, rows[1]), ("c", rows[2])]
    assert [(each.key, each.duplicate_of) for each in gone] == [(b"a#1", "c#1"), (b"a#2", "7#1")]
    marked_rows: list[Any] = []
    deduplicate(items, marked_rows.append, level="paragraph", mode="annotate")
    assert [row.seen_share for row in marked_rows] == [0, 0.5833, 1]


def test_paragraphs_go_into_an_index_and_are_seen_there(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", TEXTS[:60])
    write(tmp_path / "b.jsonl", TEXTS[60:])
    for name in ("a", "b"):
        how: Any = {"level": "paragraph", "into": tmp_path / "seen"}
        deduplicate(tmp_path / f"{name}.jsonl", tmp_path / f"{name}-out.jsonl", **dedup_arguments(**how))
    write(tmp_path / "all.jsonl", TEXTS)
    whole = deduplicate(tmp_path / "all.jsonl", tmp_path / "all-out.jsonl", level="paragraph")
    both = rows_of(tmp_path / "a-out.jsonl") + rows_of(tmp_path / "b-out.jsonl")
    assert [row["text"] for row in both] == [row["text"] for row in rows_of(tmp_path / "all-out.jsonl")]
    with simindex.open(tmp_path / "seen", "r") as index:
        assert len(index) == whole.kept
        assert {"input", "row", "paragraph"} == set(index["0#1"].metadata)


def test_short_paragraphs_and_other_splits() -> None:
    text = "Share this\n\none two three\nfour five six"
    kept: list[Any] = []
    deduplicate([(1, text), (2, text)], kept.append, level="paragraph", settings=DedupSettings(min_words=3))
    assert [row.document for row in kept] == [text, "Share this\n\n".rstrip()]
    kept.clear()
    other = "one two three\n  four five six\n \nnew words here"
    deduplicate(
        [(1, text), (2, other)], kept.append, level="paragraph", settings=DedupSettings(split="blank-line")
    )
    assert [row.document for row in kept] == [text, "new words here"]


@given(
    st.lists(st.sampled_from(["", " ", "\t\r", "one two", "  three four", "\x0bfive\u2028six "]), max_size=9)
)
@settings(max_examples=25, deadline=None)
def test_a_paragraph_begins_at_a_line_with_words_or_at_one_behind_an_empty_line(lines: list[str]) -> None:
    text, ends = "\n".join(lines), list(itertools.accumulate(len(line) + 1 for line in lines))
    with_words = [index for index, line in enumerate(lines) if line.strip()]
    for split in ("line", "blank-line"):
        begins = [at for at in with_words[1:] if split == "line" or not lines[at - 1].strip()]
        bounds = [0, *(ends[at - 1] for at in begins), len(text)]
        gone: list[Removed] = []
        deduplicate(
            [(1, text), (2, text)],
            None,
            level="paragraph",
            settings=DedupSettings(split=split, workers=1),
            on_removed=gone.append,
        )
        found = [removed.span for removed in gone if removed.place.row == 2]
        assert found == (list(itertools.pairwise(bounds)) if with_words else [])


def test_what_has_no_paragraphs_is_refused_with_its_place() -> None:
    with pytest.raises(BadRowError, match="items:1: expected a text to cut into paragraphs, found list"):
        deduplicate([(1, ["a", "b"])], lambda _: None, level="paragraph")
    for wrong in ({"level": "sentence"}, {"split": "page"}, {"min_words": 0}):
        with pytest.raises(ValueError, match="expected"):
            deduplicate([(1, "a")], lambda _: None, **dedup_arguments(**wrong))


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_rows_that_are_no_text_are_bad_ones(run: Run, name: str) -> None:
    rows: list[Any] = [{"id": 0, "text": "one two three\nfour five six"}, {"id": 1, "text": ["a", "b"]}]
    rows.append({"id": 2, "text": "four five six\nseven eight nine"})
    lines = "\n".join(map(json.dumps, rows)) if name == "a.jsonl" else json.dumps(rows)
    Path(name).write_text(lines)
    how = "dedup", name, "-o", "out.jsonl", "--level", "paragraph"
    stopped = run(*how)
    assert stopped.code == 1
    assert f"{name}:2: text: expected a string, found list" in stopped.err
    assert run(*how, "--skip-bad-rows", "--force").err.count("1 bad row") == 1
    left = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [(row["id"], row["text"].split()[0]) for row in left] == [(0, "one"), (2, "seven")]


def test_explained_rows_say_what_they_share(tmp_path: Path) -> None:
    rows = [TEXTS[0], "quite other words here", TEXTS[0] + " and a few more"]
    write(tmp_path / "a.jsonl", rows)
    for keep in ("first", "longest"):
        out = tmp_path / f"{keep}.jsonl"
        deduplicate(
            tmp_path / "a.jsonl", out, 0.5, keep=keep, mode="annotate", settings=DedupSettings(explain=True)
        )
        found = rows_of(out)
        gone, kept = (2, 0) if keep == "first" else (0, 2)
        explained = simindex.corpus.explain(rows[gone], rows[kept], simindex.Config(simhash=None)).to_dict()
        assert found[gone]["explanation"] == explained
        assert found[kept]["explanation"] is found[1]["explanation"] is None
        (removal,) = rows_of(tmp_path / f"{keep}.jsonl.dedup" / "removed.jsonl")
        assert removal["explanation"] == explained
    with simindex.open(tmp_path / "old") as index:
        index.insert("x", rows[0])
    gone_rows: list[Removed] = []
    deduplicate(
        [(1, rows[0])],
        None,
        against=tmp_path / "old",
        settings=DedupSettings(explain=True),
        on_removed=gone_rows.append,
    )
    assert gone_rows[0].to_dict()["explanation"] is None
