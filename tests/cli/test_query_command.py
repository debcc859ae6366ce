"""`simindex query`: every search and source, and the form of the results."""

import gzip
import json
from pathlib import Path

import pytest
from support.commands import Run, matches_of
from support.faults import broken_off
from support.texts import FOX, FOX_TOO, ROWS, SHIP, json_lines

import simindex


def same(key: str | int, metadata: object = None) -> dict[str, object]:
    """The match of a document with itself, in JSON."""
    with simindex.open("news", "r") as index:
        (error,) = (m.standard_error for m in index.query(index[key].sketch) if m.key == key)
    return {
        "key": key,
        "similarity": 1.0,
        "distance": 0,
        "metadata": metadata,
        "exact": False,
        "standard_error": error,
    }


def test_query_prints_a_plain_table_where_stdout_is_no_terminal(run: Run, news: str) -> None:
    result = run("query", news, FOX, "--threshold", 0.5)
    assert (result.code, result.err) == (0, "")
    lines = [line.rsplit(maxsplit=2) for line in result.out.splitlines()]
    assert lines[0] == ["key", "similarity", "distance"]
    assert lines[1] == ["fox", "1.000", "0"]
    assert lines[2][0] == "fox too"


def test_query_table_is_never_cut_off(run: Run) -> None:
    key = "k" * 500 + " [bold]\x1b[2J\n"
    assert run("insert", "news", "-", stdin=json_lines([{"id": key, "text": FOX}])).code == 0
    result = run("query", "news", FOX)
    assert "k" * 500 + " [bold]\\x1b[2J\\n" in result.out
    assert len(result.out.splitlines()) == 2


def test_query_json_prints_a_line_for_each_match(run: Run, news: str) -> None:
    found = matches_of(run("query", news, FOX, "--threshold", 0.5, "--json"))
    assert found[0] == same("fox") | {"truncated": False}
    assert [match["key"] for match in found] == ["fox", "fox too"]
    assert 0.5 < found[1]["similarity"] < 1


def test_query_json_has_the_metadata_of_a_match(run: Run) -> None:
    row = json_lines([{"id": "fox", "text": FOX, "page": 7}])
    assert run("insert", "news", "-", "--metadata", stdin=row).code == 0
    (match,) = matches_of(run("query", "news", FOX, "--json"))
    assert match == same("fox", {"page": 7}) | {"truncated": False}
    line = json.loads(run("query", "news", "--input", "-", "--json", stdin=row).out)
    assert line["matches"] == [same("fox", {"page": 7})]


def test_query_others_leaves_the_file_itself_out(run: Run, tmp_path: Path) -> None:
    for name, text in (("a.txt", FOX), ("b.txt", FOX_TOO), ("c.txt", SHIP)):
        (tmp_path / "tree" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    assert run("insert", "news", "tree").code == 0
    options: list[object]
    for options in (["--threshold", 0.5], ["--threshold", 0.5, "--limit", 1], ["--nearest", 1]):
        lines = run("query", "news", "--input", "./tree/", "--others", "--json", *options).out.splitlines()
        found = {line["query"]: [m["key"] for m in line["matches"]] for line in map(json.loads, lines)}
        assert found["tree/a.txt"] == ["tree/b.txt"]
        assert found["tree/b.txt"] == ["tree/a.txt"]
        assert "tree/c.txt" not in found["tree/c.txt"]
        one = matches_of(run("query", "news", "--file", "./tree/a.txt", "--others", "--json", *options))
        assert [match["key"] for match in one] == ["tree/b.txt"]
    output = run("query", "news", "--input", "tree", "--others", "--simhash", "--limit", 1, "--json").out
    for line in map(json.loads, output.splitlines()):
        assert line["query"] not in [match["key"] for match in line["matches"]]
    assert run("query", "news", FOX, "--others").code == 2
    assert run("query", "news", "--key", "tree/a.txt", "--others").code == 2


def test_query_reads_a_file_or_stdin(run: Run, news: str, tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text(FOX)
    from_file = matches_of(run("query", news, "--file", "page.txt", "--json"))
    assert from_file == matches_of(run("query", news, "--file", "-", "--json", stdin=FOX.encode()))
    assert from_file == matches_of(run("query", news, "-", "--json", stdin=FOX.encode()))
    assert from_file == matches_of(run("query", news, FOX, "--json"))


def test_query_key_leaves_the_document_itself_out(run: Run, news: str) -> None:
    for options in (["--threshold", 0.5], ["--nearest", 1], ["--nearest", 2]):
        keys = [match["key"] for match in matches_of(run("query", news, "--key", "fox", "--json", *options))]
        assert keys[:1] == ["fox too"]
        assert "fox" not in keys
    assert matches_of(run("query", news, "--key", "7", "--int", "--json")) == []
    result = run("query", news, "--key", "7")
    assert (result.code, "news: key '7' is not in the index, but the integer 7 is" in result.err) == (1, True)
    assert run("query", news, "--key", "seven", "--int").code == 2


def test_query_input_prints_a_set_for_each_row(run: Run, news: str, rows_file: str) -> None:
    found = matches_of(run("query", news, "--input", rows_file, "--json"))
    assert [line["query"] for line in found] == ["fox", "fox too", 7]
    assert found[2] == {
        "query": 7,
        "matches": [same(7)],
        "truncated": False,
    }
    result = run("query", news, "--input", rows_file, "--threshold", 1)
    assert [line.split() for line in result.out.splitlines()] == [
        ["query", "key", "similarity", "distance"],
        ["fox", "fox", "1.000", "0"],
        ["fox", "too", "fox", "too", "1.000", "0"],
        ["7", "7", "1.000", "0"],
    ]


def test_query_input_tells_rows_without_a_match_and_takes_other_fields(run: Run, news: str) -> None:
    rows = json_lines([{"n": 1, "body": "nothing like it"}, {"n": 2, "body": SHIP}])
    result = run("query", news, "--input", "-", "--id-field", "n", "--text-field", "body", stdin=rows)
    assert (result.code, result.err) == (0, "simindex: no match for 1 of 2 rows\n")


def test_query_input_ends_at_a_bad_row_after_the_rows_before_it(run: Run, news: str) -> None:
    result = run("query", news, "--input", "-", "--json", stdin=json_lines(ROWS) + b"{}\n")
    assert result.code == 1
    assert len(result.out.splitlines()) == 3
    assert result.err == "simindex: stdin:4: expected a field 'text', found []; --text-field names another\n"


def test_query_input_ends_where_it_cannot_be_read_on(run: Run, news: str, tmp_path: Path) -> None:
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(json_lines(ROWS))[:-6])
    result = run("query", news, "--input", "cut.jsonl.gz", "--json")
    assert (result.code, len(result.out.splitlines())) == (1, 3)
    assert result.err.startswith("simindex: cut.jsonl.gz: cannot be read beyond line 3")


def test_query_without_a_match_says_so(run: Run, news: str) -> None:
    result = run("query", news, "nothing like it")
    assert (result.code, result.out, result.err) == (0, "", "simindex: no match\n")
    result = run("query", news, "nothing like it", "--json")
    assert (result.code, result.out, result.err) == (0, "", "simindex: no match\n")


def test_query_without_a_match_says_why(run: Run, news: str, tmp_path: Path) -> None:
    def said(*arguments: object) -> str:
        result = run("query", *arguments)
        assert (result.code, result.out) == (0, "")
        return result.err.removeprefix("simindex: no match")

    words = " ".join(FOX.split()[:6])
    best = matches_of(run("query", news, words, "--nearest", 1, "--json"))[0]["similarity"]
    assert said(news, words) == (
        f" of 0.8 or more; the most similar document found has {best:.3f}: "
        "--threshold asks for less, --nearest for those\n"
    )
    assert said(news, "--key", 7, "--int", "--threshold", 0.9) == "\n"  # nothing is like it at all
    (tmp_path / "page.txt").write_text("... --- ...")
    for options in (["... --- ..."], ["--file", "page.txt"], ["...", "--simhash"], ["...", "--nearest", 2]):
        assert said(news, *options).startswith(": the text has no shingles")
    assert said(news, "nothing like it", "--simhash") == " within 3 bits of its fingerprint\n"
    assert said(news, "nothing like it", "--simhash", "--max-distance", 1).startswith(" within 1 bit ")
    with simindex.open("empty"):
        pass
    assert said("empty", FOX) == said("empty", FOX, "--nearest", 3) == ": the index holds no documents\n"


def test_query_limit_nearest_and_recall(run: Run, news: str) -> None:
    assert len(matches_of(run("query", news, FOX, "--threshold", 0.4, "--limit", 1, "--json"))) == 1
    options = ["--nearest", 2, "--recall", 0.9, "--json"]
    assert [match["key"] for match in matches_of(run("query", news, FOX, *options))] == ["fox", "fox too"]
    for threshold, found in ((0.999, ["fox"]), (0.1, ["fox", "fox too"])):
        options = ["--nearest", 2, "--threshold", threshold, "--json"]
        assert [match["key"] for match in matches_of(run("query", news, FOX, *options))] == found
    options = ["--threshold", 0.5, "--recall", 0.999, "--json"]
    assert len(matches_of(run("query", news, FOX, *options))) == 2
    assert run("query", news, FOX, "--recall", 2).code == 2


def test_query_exact_gives_the_true_similarity(run: Run, news: str, rows_file: str) -> None:
    assert run("insert", "kept", rows_file, "--keep-shingles", 1000).code == 0
    found = matches_of(run("query", "kept", FOX, "--exact", "--threshold", 0.5, "--json"))
    shingles = [
        set(zip(words, words[1:], words[2:], strict=False)) for words in (FOX.split(), FOX_TOO.split())
    ]
    exact = len(shingles[0] & shingles[1]) / len(shingles[0] | shingles[1])
    assert found[1]["similarity"] == pytest.approx(exact)
    result = run("query", news, FOX, "--exact")
    told = "--exact compares kept shingle hashes, and this index keeps none; build it with --keep-shingles N"
    assert (result.code, result.err) == (1, f"simindex: {told}\n")


def test_query_simhash_finds_by_distance(run: Run, news: str, rows_file: str) -> None:
    found = matches_of(run("query", news, FOX, "--simhash", "--max-distance", 0, "--json"))
    assert [(match["key"], match["distance"]) for match in found] == [("fox", 0)]
    assert (
        matches_of(run("query", news, "--key", "fox", "--simhash", "--limit", 1, "--max-distance", 0)) == []
    )
    result = run("query", news, FOX, "--simhash", "--max-distance", 4)
    assert (result.code, "'--max-distance': expected 0..3" in result.err) == (2, True)
    assert run("insert", "minhash", rows_file, "--no-simhash").code == 0
    result = run("query", "minhash", FOX, "--simhash")
    told = "simindex: this needs SimHash, and this index was built with --no-simhash\n"
    assert (result.code, result.err) == (1, told)
    assert matches_of(run("query", "minhash", FOX, "--json"))[0]["distance"] is None
    assert run("insert", "simhash", rows_file, "--no-minhash").code == 0
    assert matches_of(run("query", "simhash", FOX, "--simhash", "--json"))[0]["similarity"] is None
    assert run("query", "simhash", FOX, "--simhash", "--max-distance", 0).out.split()[3:] == ["fox", "-", "0"]
    assert [m["key"] for m in matches_of(run("query", "simhash", FOX, "--nearest", 1, "--json"))] == ["fox"]
    assert run("query", "simhash", "of other words", "--nearest", 1).err == "simindex: no match\n"
    result = run("query", "simhash", FOX)
    assert (result.code, "built with --no-minhash, for --simhash or --by simhash only" in result.err) == (
        1,
        True,
    )


def test_query_warms_the_index_where_it_is_told_to(
    run: Run, news: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed = broken_off(monkeypatch, "warm the tables")
    expected = run("query", news, FOX, "--json").out
    assert (run("query", news, FOX, "--json", "--warm").out, len(warmed)) == (expected, 1)


def test_query_tells_that_it_was_truncated(run: Run, news: str, rows_file: str) -> None:
    options = ["--threshold", 0.3, "--max-candidates", 1]
    result = run("query", news, FOX, *options, "--json")
    assert json.loads(result.out.splitlines()[0])["truncated"] is True
    assert "simindex: truncated: " in result.err
    result = run("query", news, "--input", rows_file, *options, "--json")
    with simindex.open(news, "r", max_candidates=1) as index:
        expected = [matches.truncated for matches in index.query_many([FOX, FOX_TOO, SHIP], 0.3)]
    assert [json.loads(line)["truncated"] for line in result.out.splitlines()] == expected
    assert f"simindex: truncated, {sum(expected)} of 3 rows: " in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["text", "--file", "page.txt"],
        ["--file", "page.txt", "--key", "a"],
        ["--input", "a.jsonl", "text"],
        ["text", "--int"],
        ["text", "--nearest", 3, "--limit", 5],
        ["text", "--nearest", 3, "--exact"],
        ["text", "--simhash", "--nearest", 3, "--limit", 2],
        ["text", "--simhash", "--nearest", 3, "--threshold", 0.5],
        ["text", "--simhash", "--threshold", 0.5],
        ["text", "--simhash", "--recall", 0],
        ["text", "--simhash", "--exact"],
        ["text", "--max-distance", 2],
        ["text", "--limit", 0],
        ["text", "--nearest", 0],
        ["text", "--threshold", "high"],
        ["text", "--no-such-option"],
    ],
    ids=str,
)
def test_query_refuses_wrong_combinations(run: Run, news: str, arguments: list[object]) -> None:
    result = run("query", news, *arguments)
    assert (result.code, result.out) == (2, "")
    assert "Usage: simindex query" in result.err


def test_query_reports_a_missing_file_or_a_wrong_value(run: Run, news: str) -> None:
    result = run("query", news, "--file", "page.txt")
    assert (result.code, result.err) == (1, "simindex: page.txt: No such file or directory\n")
    result = run("query", news, FOX, "--threshold", 1.5)
    assert (result.code, "'--threshold': expected a number in (0, 1], found 1.5" in result.err) == (2, True)


def test_query_json_gives_bytes_keys_in_base64(run: Run) -> None:
    with simindex.open("bytes") as index:
        index.insert(b"\x00\xff", FOX)
    assert matches_of(run("query", "bytes", FOX, "--json"))[0]["key"] == {"bytes": "AP8="}
    assert "b'\\x00\\xff'" in run("query", "bytes", FOX).out
