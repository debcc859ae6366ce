"""`keep_per` of `deduplicate`: a row goes only for a kept one of its own source. Brute force is the judge."""

import json
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.commands import Run, rows_of
from support.dedup_settings import dedup_arguments
from support.texts import json_lines

import simindex
from simindex.corpus import DedupSettings, Removed, deduplicate

HOSTS = ["a.org", "b.org", "c.org", None]


class Row(NamedTuple):
    """A row of a family of near copies; those of two families have no word in common."""

    family: int
    values: dict[str, Any]


def made_up(families: int, copies: int, hosts: list[Any], seed: int = 1) -> list[Row]:
    """Rows in any order; half of a family are equal, in the others one word of 80 is another."""
    dice, found = random.Random(seed), list[Row]()
    for family in range(families):
        for copy in range(copies):
            words = [f"f{family}w{number}" for number in range(80)]
            if dice.random() < 0.5:
                words[dice.randrange(80)] = f"f{family}x{copy}"
            values = {"text": " ".join(words), "host": dice.choice(hosts), "lang": dice.choice(["en", "fr"])}
            found.append(Row(family, values | {"rank": dice.randrange(1_000)}))
            if found[-1].values["host"] is None and dice.random() < 0.5:
                del found[-1].values["host"]  # which is the same as a null
    dice.shuffle(found)
    return [Row(row.family, {"id": number} | row.values) for number, row in enumerate(found)]


def brute_force(
    rows: list[Row], keep: str, fields: tuple[str, ...], alike: Callable[[int, int], bool]
) -> set[int]:
    """The rows that stay: those that are like none of their source that stays before them in keep order."""
    order = list(range(len(rows)))
    if keep != "first":
        ranks = {"newest": lambda n: -n, "longest": lambda n: -len(rows[n].values["text"])}
        order.sort(key=ranks.get(keep, lambda n: -rows[n].values["rank"]))
    stay = defaultdict[Any, list[int]](list)
    for number in order:
        others = stay[tuple(rows[number].values.get(field) for field in fields)]
        if not any(alike(number, other) for other in others):
            others.append(number)
    return {number for numbers in stay.values() for number in numbers}


def of_family(rows: list[Row]) -> Callable[[int, int], bool]:
    return lambda a, b: rows[a].family == rows[b].family


def within_bits(rows: list[Row], distance: int) -> Callable[[int, int], bool]:
    sketches = simindex.Sketcher().sketch_many([row.values["text"] for row in rows])
    return lambda a, b: int(sketches.fingerprints[a] ^ sketches.fingerprints[b]).bit_count() <= distance


def written(path: Path, rows: list[Row]) -> Path:
    path.write_bytes(json_lines([row.values for row in rows]))
    return path


ROWS = made_up(40, 9, HOSTS)


@pytest.mark.parametrize("keep", ["first", "newest", "longest", "field:rank"])
@pytest.mark.parametrize(
    "how",
    [
        {"recall": 1 - 1e-9},
        {"exact": True},
        {"by": "simhash", "max_distance": 4},
        {"in_kept": 0.5, "recall": 1 - 1e-9},
        {"ignore_common": 0.5, "recall": 1 - 1e-9},
    ],
)
@pytest.mark.parametrize("fields", [("host",), ("host", "lang")])
def test_one_of_each_source_stays(
    tmp_path: Path, keep: Any, how: dict[str, Any], fields: tuple[str, ...]
) -> None:
    paths = [written(tmp_path / "1.jsonl", ROWS[:100]), written(tmp_path / "2.jsonl", ROWS[100:])]
    alike = within_bits(ROWS, 4) if "by" in how else of_family(ROWS)
    removed, expected, out = list[Removed](), brute_force(ROWS, keep, fields, alike), tmp_path / "out.jsonl"
    keep_per = fields[0] if len(fields) == 1 else fields
    how = how if "by" in how else how | {"threshold": 0.7}
    report = deduplicate(
        paths, out, **dedup_arguments(keep=keep, keep_per=keep_per, on_removed=removed.append, **how)
    )
    assert report[:4] == (len(ROWS), len(expected), len(ROWS) - len(expected), 0)
    assert {row["id"] for row in rows_of(out)} == expected
    for row in removed:
        assert row.cluster in expected
        source = {field: ROWS[row.number].values.get(field) for field in fields}
        assert row.source == source == {name: ROWS[row.cluster].values.get(name) for name in fields}
    assert rows_of(f"{out}.dedup/removed.jsonl") == [json.loads(json.dumps(row.to_dict())) for row in removed]
    again: dict[str, Any] = {"workers": 2, "batch_size": 7, "mode": "annotate"}
    deduplicate(
        paths, tmp_path / "all.jsonl", **dedup_arguments(keep=keep, keep_per=keep_per, **how, **again)
    )
    marked = {row["id"]: row["cluster"] for row in rows_of(tmp_path / "all.jsonl")}
    assert marked == {number: number for number in expected} | {row.number: row.cluster for row in removed}


def test_each_source_has_its_own_room_in_a_long_run() -> None:
    """Of 400 sources, more than are compared in one run, each has three near copies of one text."""
    rows = made_up(1, 1_200, [f"{number}.org" for number in range(400)], seed=3)
    kept, expected = list[Any](), brute_force(rows, "first", ("host",), of_family(rows))
    items = [(row.values["id"], row.values["text"], row.values) for row in rows]
    report = deduplicate(items, kept.append, 0.7, settings=DedupSettings(recall=1 - 1e-9), keep_per="host")
    assert {row.key for row in kept} == expected
    assert 300 < report.kept < 400
    assert not report.bounded


def test_documents_of_an_index_have_their_sources_in_their_metadata(tmp_path: Path) -> None:
    stored, rows = ROWS[:120], ROWS[120:]
    with simindex.open(tmp_path / "old") as index:
        index.insert_many((row.values["id"], row.values["text"], row.values) for row in stored)
        index.insert("bare", rows[0].values["text"])  # of no source, which is that of nulls
    seen = {(row.family, row.values.get("host")) for row in stored} | {(rows[0].family, None)}
    left = [row for row in rows if (row.family, row.values.get("host")) not in seen]
    expected = {
        left[number].values["id"] for number in brute_force(left, "first", ("host",), of_family(left))
    }
    how: dict[str, Any] = {"threshold": 0.7, "recall": 1 - 1e-9, "keep_per": "host"}
    out, removed = tmp_path / "out.jsonl", list[Removed]()
    path = written(tmp_path / "a.jsonl", rows)
    deduplicate(path, out, **dedup_arguments(against=tmp_path / "old", on_removed=removed.append, **how))
    assert {row["id"] for row in rows_of(out)} == expected
    of_index = [row for row in removed if row.cluster is None]
    assert of_index
    for row in of_index:
        other = {} if row.duplicate_of == "bare" else ROWS[int(str(row.duplicate_of))].values
        assert row.source == {"host": other.get("host")}


def test_what_goes_into_an_index_is_known_by_its_source_the_next_time(tmp_path: Path) -> None:
    how: dict[str, Any] = {"threshold": 0.7, "recall": 1 - 1e-9, "keep_per": ["host", "lang"]}
    kept = set[int]()
    for number, rows in enumerate((ROWS[:200], ROWS[200:])):
        path = written(tmp_path / f"{number}.jsonl", rows)
        deduplicate(path, tmp_path / f"{number}-out.jsonl", **dedup_arguments(into=tmp_path / "seen", **how))
        kept |= {row["id"] for row in rows_of(tmp_path / f"{number}-out.jsonl")}
    assert kept == brute_force(ROWS, "first", ("host", "lang"), of_family(ROWS))
    with simindex.open(tmp_path / "seen", "r") as index:
        assert set(index) == kept
        for key in kept:
            of_row = {name: ROWS[key].values.get(name) for name in ("host", "lang")}
            assert of_row.items() <= index[key].metadata.items()


def test_paragraphs_have_the_source_of_their_document(tmp_path: Path) -> None:
    menu, story = "home news sport weather contact imprint", "the ferry leaves at nine in the morning"
    other = "bread milk and two tickets for the train"
    texts = [("a", f"{menu}\n{story}"), ("b", f"{menu}\n{story}"), ("a", f"{menu}\n{other}"), ("b", story)]
    path = tmp_path / "a.jsonl"
    path.write_bytes(json_lines([{"text": text, "site": site} for site, text in texts]))
    deduplicate(path, tmp_path / "out.jsonl", level="paragraph", keep_per="site")
    left = [(row["site"], row["text"]) for row in rows_of(tmp_path / "out.jsonl")]
    assert left == [*texts[:2], ("a", other)]
    removed = rows_of(tmp_path / "out.jsonl.dedup/removed.jsonl")
    assert [(row["row"], row["source"]) for row in removed] == [(3, {"site": "a"}), (4, {"site": "b"})]


def test_command_keeps_one_of_each_source_and_refuses_a_field_that_no_row_has(run: Run) -> None:
    Path("a.csv").write_text(
        "id,host,text\n1,x,one two three four\n2,y,one two three four\n3,x,One two three four\n"
    )
    assert run("dedup", "a.csv", "-o", "out.csv", "--keep-per", "host").code == 0
    assert Path("out.csv").read_text() == "id,host,text\n1,x,one two three four\n2,y,one two three four\n"
    again = run("dedup", "a.csv", "-o", "out.csv", "--keep-per", "host", "--keep-per", "id")
    assert "was made with --keep-per host, and you ask for --keep-per host, --keep-per id" in again.err
    assert (
        run("dedup", "a.csv", "-o", "out.csv", "--keep-per", "host", "--keep-per", "id", "--force").code == 0
    )
    assert len(Path("out.csv").read_text().splitlines()) == 4
    wrong = run("dedup", "a.csv", "-o", "no.csv", "--keep-per", "host", "--keep-per", "hots")
    assert wrong.code == 1
    assert "expected rows with a field 'hots', found none of 3" in wrong.err
    assert not Path("no.csv.dedup").exists()
    wrong = run("dedup", "a.csv", "-o", "no.csv", "--keep-per", "row", "--into", "seen")
    assert wrong.code == 2
    assert "--keep-per" in wrong.err


@pytest.mark.parametrize("keep_per", ["", 7, ["host", 7]])
def test_what_names_no_field_is_refused(keep_per: Any) -> None:
    with pytest.raises(ValueError, match=r"^keep_per: expected the name of a field, or several"):
        deduplicate([("a", "b")], None, keep_per=keep_per)
