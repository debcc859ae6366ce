"""deduplicate: what stays, what is told of what goes, and in which form."""

import csv
import gc
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from support.commands import rows_of
from support.dedup_settings import dedup_arguments
from support.faults import around, set_bound
from support.texts import json_lines
from support.truth import kept_by_index, lines, texts, write_lines

import simindex
from simindex import Config, ConfigMismatchError, SimIndexError, Sketch, SketchBatch, WordShingles
from simindex.corpus import DedupSettings, Removed, decontaminate, deduplicate, explain, join
from simindex.inputs import BadRowError, Fields, InputError, Inputs, Row, sound

TEXTS = texts(600)


def test_report_has_a_line_for_each_row_that_goes(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", TEXTS[:300])
    write_lines(tmp_path / "b.jsonl", TEXTS[300:])
    paths = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]
    gone: list[Removed] = []
    removed = tmp_path / "removed.jsonl.gz"
    report = deduplicate(
        paths, tmp_path / "out.jsonl", settings=DedupSettings(removed=removed), on_removed=gone.append
    )
    removed_rows = [json.loads(line) for line in gzip.decompress(removed.read_bytes()).splitlines()]
    assert [each.to_dict() for each in gone] == removed_rows
    assert len(removed_rows) == report.removed
    across = [each for each in removed_rows if each["input"] != each["kept_input"]]
    assert across
    assert {(each["input"], each["kept_input"]) for each in across} == {(paths[1], paths[0])}
    only = deduplicate(paths, tmp_path / "only.jsonl", mode="report-only")
    assert only[:4] == report[:4]
    assert rows_of(tmp_path / "only.jsonl") == removed_rows


def test_rows_without_ids_and_ids_given_twice_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "one two three four"}\n'
        '{"id": "x", "text": "five six seven eight"}\n'
        '{"id": "x", "text": "nine ten eleven twelve"}\n'
        '{"text": "one two three four"}'
    )
    report = deduplicate(path, tmp_path / "out.jsonl")
    assert report[:3] == (4, 3, 1)
    (row,) = rows_of(tmp_path / "out.jsonl.dedup" / "removed.jsonl")
    assert (row["id"], row["duplicate_of"], row["kept_row"]) == (f"{path}:4", f"{path}:1", 1)
    assert (tmp_path / "out.jsonl").read_text() == path.read_text()[: path.read_text().rindex("\n") + 1]


def test_csv_keeps_its_columns_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        'id,text,"n"\r\n1,"one two, three four",x\r\n2,one two  three four,y\r\n3,other words here,\r\n'
    )
    deduplicate(path, tmp_path / "out.csv")
    kept = b'id,text,n\r\n1,"one two, three four",x\r\n3,other words here,\r\n'
    assert (tmp_path / "out.csv").read_bytes() == kept
    deduplicate(path, tmp_path / "marked.csv", mode="annotate")
    assert (tmp_path / "marked.csv").read_text().splitlines() == [
        "id,text,n,duplicate_of,similarity,cluster",
        '1,"one two, three four",x,,,0',
        "2,one two  three four,y,1,1.0,0",
        "3,other words here,,,,2",
    ]
    deduplicate(path, tmp_path / "out.jsonl")
    assert rows_of(tmp_path / "out.jsonl")[0] == {"id": "1", "text": "one two, three four", "n": "x"}
    deduplicate(tmp_path / "out.jsonl", tmp_path / "back.tsv")
    assert (
        tmp_path / "back.tsv"
    ).read_text() == "id\ttext\tn\n1\tone two, three four\tx\n3\tother words here\t\n"


@pytest.mark.parametrize(("delimiter", "suffix"), [(",", "csv"), ("\t", "tsv")])
@pytest.mark.parametrize("ends", [("\r\n", "\n"), ("\n", "\r\n")])
@pytest.mark.parametrize("mode", ["remove", "annotate"])
@pytest.mark.parametrize("level", ["document", "paragraph"])
def test_output_has_the_line_ends_of_its_first_table(
    tmp_path: Path, delimiter: str, suffix: str, ends: tuple[str, str], mode: Any, level: Any
) -> None:
    first = ["id,text", '1,"one two\n three"', "2,four five six", '3,"one two\n three\n x"']
    tables = [first, ["id,text", "4,y"]]
    paths = [tmp_path / f"{number}.{suffix}" for number in range(2)]
    for path, table, end in zip(paths, tables, ends, strict=True):
        path.write_bytes(end.join(table).replace(",", delimiter).encode())  # the last line has no end
    output = tmp_path / f"out.{suffix}"
    for some in (paths, paths[:1]):
        deduplicate(some, output, mode=mode, level=level, force=True)
        lines = output.read_bytes().replace(b"two\n", b"").replace(b"three\n", b"").splitlines(keepends=True)
        assert len(lines) >= 4
        assert {line[len(line.rstrip()) :] for line in lines} == {ends[0].encode()}


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_columns_of_one_name_stay(tmp_path: Path, delimiter: str) -> None:
    rows = [["id", "text", "more", "more"], ["1", "a b c", "d e f", "g"]]
    (tmp_path / "a.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    output = tmp_path / f"out.{'csv' if delimiter == ',' else 'tsv'}"
    deduplicate(tmp_path / "a.csv", output)
    assert [line.split(delimiter) for line in output.read_text().splitlines()] == rows


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv", "parquet"])
def test_annotated_rows_are_annotated_anew(tmp_path: Path, suffix: str) -> None:
    names = ["duplicate_of", "similarity", "cluster", "explanation"]
    source = tmp_path / "a.jsonl"
    texts = ("one two three four five", "one two three four six", "seven eight nine ten")
    source.write_bytes(json_lines([{"id": f"{n}.", "text": text} for n, text in enumerate(texts)]))
    for number, threshold in enumerate((0.3, 0.9)):
        output = tmp_path / f"{number}.{suffix}"
        deduplicate(
            source, output, threshold, mode="annotate", settings=DedupSettings(explain=True), exact=True
        )
        found = list(Inputs([str(output)], Fields(metadata=True)))
        assert all(isinstance(row, Row) and list(row.metadata) == names for row in found)
        gone = [row.metadata["duplicate_of"] or None for row in found if isinstance(row, Row)]
        assert gone == ([None, "0.", None] if threshold == 0.3 else [None] * 3)
        assert suffix == "parquet" or output.read_text().splitlines()[0].count("cluster") == 1
        source = output


def test_folder_of_texts_gives_the_paths_that_stay(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, text in [("a", "one two three four"), ("b", "one two three four!"), ("c", "five six seven")]:
        (folder / f"{name}.txt").write_text(text)
    deduplicate(folder, tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text() == f"{folder}/a.txt\n{folder}/c.txt\n"


@pytest.mark.parametrize("name", ["out.txt", "out.jsonl", "out.csv"])
def test_names_of_files_that_are_not_utf_8_are_written_and_reported(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for file, text in (
        (b"a", "one two three four"),
        (b"\xfe", "five six seven"),
        (b"\xff", "one two three four"),
    ):
        (folder / os.fsdecode(file)).write_text(text)
    assert deduplicate(folder, tmp_path / name)[:3] == (3, 2, 1)
    (removed,) = rows_of(tmp_path / f"{name}.dedup/removed.jsonl")
    assert (removed["id"], removed["input"]) == (rf"{folder}/\udcff", rf"{folder}/\udcff")
    written = (tmp_path / name).read_bytes()
    assert (rb"texts/\\udcfe" if name == "out.jsonl" else b"texts/\xfe") in written
    assert written.count(b"texts/") == 2


def test_rows_with_a_half_of_a_character_are_written_as_json_has_it(tmp_path: Path) -> None:
    items = [("a", "one \ud800 two three"), ("b", "quite other words")]
    assert deduplicate(items, tmp_path / "out.jsonl").kept == 2
    assert [(row["id"], row["text"]) for row in rows_of(tmp_path / "out.jsonl")] == items
    with pytest.raises(InputError, match=r"items:1: expected .*; an output of \.jsonl takes it"):
        deduplicate(items, tmp_path / "out.csv")


def test_cells_are_written_in_the_order_of_the_first_rows_columns(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"id": 1, "text": "one two", "n": 5}\n{"n": 6, "text": "red", "id": 2}\n'
    )
    (tmp_path / "b.csv").write_text("n,id,text\n7,3,blue green\n")
    deduplicate([tmp_path / "a.jsonl", tmp_path / "b.csv"], tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "id,text,n\n1,one two,5\n2,red,6\n3,blue green,7\n"
    deduplicate([tmp_path / "b.csv", tmp_path / "a.jsonl"], tmp_path / "all.csv", mode="annotate")
    assert (tmp_path / "all.csv").read_text().splitlines() == [
        "n,id,text,duplicate_of,similarity,cluster",
        "7,3,blue green,,,0",
        "5,1,one two,,,1",
        "6,2,red,,,2",
    ]


@pytest.mark.parametrize("mode", ["remove", "annotate"])
def test_rows_with_a_half_of_a_character_are_read_again(tmp_path: Path, mode: Any) -> None:
    rows: list[Any] = [{"id": f"{n}", "text": text, "cluster": "\udcfe"} for n, text in enumerate(TEXTS[:50])]
    rows[7] |= {"id": "\udcfe", "text": "one \ud800 two three"}
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", mode=mode).read == 50
    found = rows_of(tmp_path / "out.jsonl")
    assert [(row["id"], row["text"]) for row in found if row["id"] == "\udcfe"] == [
        ("\udcfe", rows[7]["text"])
    ]
    with simindex.open(tmp_path / "index") as index:
        index.insert_many((row.key, row.document) for row in sound(Inputs([str(tmp_path / "out.jsonl")])))
        assert "\udcfe" in index


@pytest.mark.parametrize("line", [r'{"id": "\udcfe", }', r'["\udcfe"]', r'"\udcfe'])
def test_line_with_a_half_of_a_character_that_is_no_json_is_a_bad_row(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text(line)
    with pytest.raises(BadRowError, match=r"a\.jsonl:1: expected a JSON object"):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl")


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv"])
@pytest.mark.parametrize("level", ["document", "paragraph"])
def test_numbers_over_64_bits_stay_as_they_are(tmp_path: Path, suffix: str, level: Any) -> None:
    number, line = 12345678901234567890123, "one two three four five"
    row = {"id": "a", "text": f"{line}\n{line}", "cluster": 1, "n": number, "m": {"k": [-number]}}
    (tmp_path / "a.jsonl").write_bytes(json.dumps(row).encode())
    deduplicate(tmp_path / "a.jsonl", tmp_path / f"out.{suffix}", mode="annotate", level=level)
    assert (tmp_path / f"out.{suffix}").read_text().count(str(number)) == 2
    deduplicate([("a", row["text"], row)], tmp_path / f"items.{suffix}", level=level)
    assert (tmp_path / f"items.{suffix}").read_text().count(str(number)) == 2


def test_cells_of_any_text_are_read_back(tmp_path: Path) -> None:
    texts = [
        "one two\rthree",
        "four\r",
        "five\r\n",
        "\rsix",
        "\x00",
        "\u2028",
        " ",
        "\ufeff",
        '"',
        "\\",
        "a\tb,c",
    ]
    items = [(f"{number}", text) for number, text in enumerate(texts)]
    for suffix in ("csv", "tsv", "jsonl", "parquet"):
        deduplicate(items, tmp_path / f"out.{suffix}")
        found = [(row.key, row.document) for row in sound(Inputs([str(tmp_path / f"out.{suffix}")]))]
        assert found == items


@pytest.mark.parametrize("value", [{1: {2: 3}}, ["\udcfe"], [[[]]], (1, {"a": b"x"})], ids=str)
def test_nested_values_are_cells_of_json(tmp_path: Path, value: Any) -> None:
    deduplicate([("a", "some words", {"value": value})], tmp_path / "out.csv")
    deduplicate([("a", "some words", {"value": value})], tmp_path / "out.jsonl")
    (cell,) = (row["value"] for row in csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [json.loads(cell)] == [row["value"] for row in rows_of(tmp_path / "out.jsonl")]


def test_paragraphs_are_cut_from_the_column_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,more,more,text\n1,first,second,"a b c\na b c"\n')
    deduplicate(tmp_path / "a.csv", tmp_path / "out.csv", level="paragraph")
    assert (tmp_path / "out.csv").read_text() == "id,more,more,text\n1,first,second,a b c\n"


def test_columns_of_one_name_are_all_written_and_stored(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text("id,text,n,n_2,n,,\n1,last,first,second,third,more,end\n")
    whole = {
        "id": "1",
        "text": "last",
        "n_3": "first",
        "n_2": "second",
        "n": "third",
        "_2": "more",
        "": "end",
    }
    for name in ("out.jsonl", "out.parquet"):
        deduplicate(source, tmp_path / name)
    assert json.loads((tmp_path / "out.jsonl").read_text()) == whole
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == [whole]
    (row,) = Inputs([str(source)], Fields(metadata=True))
    assert row == ("1", "last", {name: whole[name] for name in whole if name not in ("id", "text")})


@pytest.mark.parametrize("key", ["a\nb", "\ud800"])
def test_list_of_paths_refuses_a_name_that_is_no_line(tmp_path: Path, key: str) -> None:
    with pytest.raises(InputError, match=r"items:1: expected .*; an output of \.jsonl takes it"):
        deduplicate([(key, "some words")], tmp_path / "out.txt")


# ---- against ----


def test_against_keeps_what_is_before_a_bad_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with simindex.open(tmp_path / "seen") as index:
        index.insert_many([(f"old{number}", text) for number, text in enumerate(TEXTS[:200:3])])
    write_lines(tmp_path / "new.jsonl", TEXTS)
    with open(tmp_path / "new.jsonl", "a", encoding="utf-8") as file:
        file.write("no row\n")
    batch_lengths: list[int] = []

    def counted(matches: Any, others: Any, sketches: SketchBatch, view: Any) -> Any:
        batch_lengths.append(len(sketches))
        return matches(others, sketches, view)

    around(monkeypatch, "ask other indexes", counted)
    set_bound(monkeypatch, "rows that other indexes are asked for", 90)
    with pytest.raises(BadRowError, match=f"new.jsonl:{len(TEXTS) + 1}: "):
        deduplicate(
            tmp_path / "new.jsonl",
            tmp_path / "o.jsonl",
            against=tmp_path / "seen",
            settings=DedupSettings(batch_size=20),
        )
    assert batch_lengths == [100] * 6
    journal = json.loads((tmp_path / "o.jsonl.dedup/journal.json").read_bytes())
    assert journal["state"]["looked"] == len(TEXTS)


# ---- into ----


def test_into_takes_the_kept_rows_and_lets_in_only_what_is_new(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", TEXTS[:300])
    write_lines(tmp_path / "b.jsonl", TEXTS[300:])
    for name in ("a", "b"):
        deduplicate(tmp_path / f"{name}.jsonl", tmp_path / f"{name}-out.jsonl", into=tmp_path / "seen")
    kept = kept_by_index(tmp_path / "i", TEXTS)
    out = rows_of(tmp_path / "a-out.jsonl") + rows_of(tmp_path / "b-out.jsonl")
    assert [row["text"] for row in out] == [TEXTS[at] for at in kept]
    with simindex.open(tmp_path / "seen") as index:
        assert len(index) == len(kept)
        sketcher = simindex.Sketcher(index.config)
        for row in index.values():
            number = row.metadata["row"] - 1 + 300 * row.metadata["input"].endswith("b.jsonl")
            assert row.sketch.jaccard(sketcher.sketch(TEXTS[number])) == 1
        taken = [key for key in index if isinstance(key, str)]
        # The ids of the second file begin at 0 again.
        assert taken
        assert all(key.startswith(f"{tmp_path}/b.jsonl:") for key in taken)


@pytest.mark.parametrize("ids", [True, False])
def test_into_takes_the_rows_of_a_later_input_of_the_same_name(tmp_path: Path, ids: bool) -> None:
    for begin in (0, 100, 200):
        some = [({"id": n} if ids else {}) | {"text": text} for n, text in enumerate(TEXTS[begin:][:100])]
        (tmp_path / "day.jsonl").write_bytes(json_lines(some))
        deduplicate(tmp_path / "day.jsonl", None, into=tmp_path / "seen")
    with simindex.open(tmp_path / "seen", "r") as index:
        assert len(index) == len(kept_by_index(tmp_path / "i", TEXTS[:300]))
        assert all(index.query(text) for text in TEXTS[:300])


def test_into_an_open_index_and_against_another(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "old") as index:
        index.insert_many(enumerate(TEXTS[:200]))
    kept: list[Any] = []
    with simindex.open(tmp_path / "old", "r") as old, simindex.open(tmp_path / "new") as new:
        report = deduplicate([(None, text) for text in TEXTS], kept.append, against=old, into=new)
        assert report.kept == len(kept) == len(new)
        assert list(new) == [row.key for row in kept]
        assert all(not old.query(row.document) for row in kept)


def test_into_stores_bare_fingerprints_as_such(tmp_path: Path) -> None:
    """Then rows of any kind can be stored beside them."""
    deduplicate(
        [("print", Sketch.from_fingerprint(7))], None, into=tmp_path / "seen", by="simhash", config=Config()
    )
    with simindex.open(tmp_path / "seen") as index:
        index.insert("rows", Sketch.from_rows([1] * 128))
        assert list(index) == ["print", "rows"]


# ---- what is refused ----


@pytest.mark.parametrize("batch_size", [1, 2])
def test_rows_brought_in_are_refused_beside_texts(tmp_path: Path, batch_size: int) -> None:
    items = [("text", "one two three"), ("rows", Sketch.from_rows([1] * 128))]
    with pytest.raises(ConfigMismatchError, match="their rows mean different things"):
        deduplicate(items, tmp_path / "out.jsonl", settings=DedupSettings(batch_size=batch_size))


def test_bad_row_is_named_and_what_was_done_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "bytes of a frame", 10_000)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join([*lines(TEXTS), b'{"id": 1, "text": 5}\n', *lines(TEXTS[:10])]))
    with pytest.raises(BadRowError, match=r"a\.jsonl:601: text: expected a string"):
        deduplicate(path, tmp_path / "out.jsonl", settings=DedupSettings(batch_size=50))
    assert not (tmp_path / "out.jsonl").exists()
    state = json.loads((tmp_path / "out.jsonl.dedup" / "journal.json").read_bytes())["state"]
    assert 300 < state["looked"] <= 600
    bad: list[BadRowError] = []
    report = deduplicate(path, tmp_path / "out.jsonl", settings=DedupSettings(on_bad_row=bad.append))
    assert [error.place for error in bad] == [f"{path}:601"]
    assert report.read == 610
    deduplicate(path, tmp_path / "whole.jsonl", settings=DedupSettings(on_bad_row=bad.append))
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.parametrize("batch_size", [1, 2, 100])
@pytest.mark.parametrize("index", range(4))
def test_bad_rows_are_handed_over_wherever_they_stand(tmp_path: Path, index: int, batch_size: int) -> None:
    rows = lines(TEXTS[:3])
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join([*rows[:index], b"no row\n{}\n", *rows[index:]]))
    paths, bad = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"], list[BadRowError]()
    report = deduplicate(
        paths, tmp_path / "out.jsonl", settings=DedupSettings(on_bad_row=bad.append, batch_size=batch_size)
    )
    assert report.read == 6
    assert [row.place for row in bad] == [f"{path}:{index + n}" for path in paths for n in (1, 2)]


@pytest.mark.parametrize("document", [5, None, ["x", 1.5], {"x": -1}], ids=str)
def test_item_that_is_no_document_is_named_by_its_key(document: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^key 'b': "):
        deduplicate([("a", "some words here"), ("b", document)], None)


def test_bad_row_leaves_no_input_open(tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_bytes(b'{"id": 1, "text": "one of two"}\nno row\n{"id": 3, "text": "behind it"}\n')
    gc.disable()  # which would close it at some later time
    try:
        with pytest.raises(BadRowError):
            deduplicate(source, tmp_path / "out.jsonl")
        opened = [Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        assert source not in [link.readlink() for link in opened if link.exists()]
    finally:
        gc.enable()


def test_torn_gzip_is_named(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(lines(TEXTS)))
    (tmp_path / "a.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match=r"a\.jsonl\.gz: cannot be read beyond line \d+") as failure:
        deduplicate(tmp_path / "a.jsonl.gz", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()
    state = json.loads((tmp_path / "out.jsonl.dedup" / "journal.json").read_bytes())["state"]
    assert state["looked"] == int(str(failure.value).partition("beyond line ")[2].partition(":")[0]) > 0


def test_done_job_is_done_and_another_one_is_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", TEXTS)
    first = deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl")
    modified = (tmp_path / "out.jsonl").stat().st_mtime_ns
    assert deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl") == first
    assert (tmp_path / "out.jsonl").stat().st_mtime_ns == modified
    with pytest.raises(
        SimIndexError, match=r"out\.jsonl was made with threshold=0\.8, and you ask for threshold=0\.7\. "
    ):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", 0.7)
    with (tmp_path / "a.jsonl").open("ab") as file:
        file.write(b'{"id": 1, "text": "something else"}\n')
    with pytest.raises(SimIndexError, match=r"from inputs that have changed since: .*a\.jsonl\. "):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl")
    assert deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", force=True).read == 601
    (tmp_path / "out.jsonl").unlink()
    with pytest.raises(SimIndexError, match="found no file"):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl")


def test_file_of_others_is_not_replaced(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", TEXTS[:5])
    (tmp_path / "out.jsonl").write_text("mine")
    for source in (tmp_path / "a.jsonl", tmp_path / "a.jsonl", [(1, "some words here")]):
        with pytest.raises(SimIndexError, match=r"out\.jsonl: there is such a file already; force=True"):
            deduplicate(source, tmp_path / "out.jsonl")
        assert (tmp_path / "out.jsonl").read_text() == "mine"
    with pytest.raises(ValueError, match="none of the inputs"):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "a.jsonl", force=True)
    (tmp_path / "b.jsonl.dedup").mkdir()
    (tmp_path / "b.jsonl.dedup" / "mine").write_text("mine")
    with pytest.raises(SimIndexError, match=r"expected a journal, found a folder with .*; move it away, or"):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "b.jsonl", force=True)
    assert (tmp_path / "b.jsonl.dedup" / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keep": "best"}, "keep: expected first, longest"),
        ({"mode": "drop"}, 'mode: expected "remove", "annotate" or "report-only"'),
        ({"threshold": 1.5}, "threshold"),
        ({"batch_size": 0}, "batch_size"),
        ({"sink": "/nowhere/out.doc"}, "expected an output of .parquet, .jsonl"),
    ],
)
def test_wrong_argument_is_named(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    write_lines(tmp_path / "a.jsonl", TEXTS[:5])
    with pytest.raises(ValueError, match=message):
        deduplicate(tmp_path / "a.jsonl", **dedup_arguments(**({"sink": tmp_path / "out.jsonl"} | arguments)))
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize(
    ("argument", "value"),
    [("progress", True), ("on_removed", 1), ("config", WordShingles(3)), ("settings", {"recall": 0.9})],
)
def test_argument_of_another_type_is_named_before_a_row_is_read(argument: str, value: Any) -> None:
    rows = iter([(1, "some words here")])
    with pytest.raises(TypeError, match=f"^{argument}: expected a .* or None, found "):
        deduplicate(rows, None, **{argument: value})
    assert len(list(rows)) == 1


def test_config_that_is_none_is_refused_by_the_other_calls() -> None:
    given: Any = WordShingles(3)
    rows = [(1, "some words here")]
    calls = (
        lambda: explain("one", "two", given),
        lambda: join(rows, rows, config=given),
        lambda: decontaminate(rows, None, rows, config=given),
        lambda: simindex.open(":memory:", config=given),
    )
    for call in calls:
        with pytest.raises(TypeError, match=r"^config: expected a Config or None, found WordShingles"):
            call()


@pytest.mark.parametrize("is_file", [True, False])
def test_folders_of_all_outputs_are_made(tmp_path: Path, is_file: bool) -> None:
    rows: Any = [("a", "some words here"), ("b", "some words here")]
    if is_file:
        (tmp_path / "a.csv").write_text("id,text\n" + "".join(f"{key},{text}\n" for key, text in rows))
        rows = tmp_path / "a.csv"
    settings = DedupSettings(removed=tmp_path / "reports" / "of" / "removed.jsonl")
    deduplicate(rows, tmp_path / "kept" / "out.csv", settings=settings)
    assert (tmp_path / "kept" / "out.csv").read_text() == "id,text\na,some words here\n"
    assert [row["id"] for row in rows_of(tmp_path / "reports" / "of" / "removed.jsonl")] == ["b"]
