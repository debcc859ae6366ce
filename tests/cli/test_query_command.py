"""`simindex query`: every search and source, and the form of the results."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run, matches_of
from support.texts import FOX, FOX_TOO, ROWS, SHIP, json_lines

import simindex


def same(key: str | int, metadata: object = None) -> dict[str, object]:
    """The match of a document with itself, in JSON."""
    with simindex.open("news", "r") as index:
        (match,) = (match for match in index.query(index[key].sketch) if match.key == key)
    assert (match.similarity, match.distance, match.exact, match.metadata) == (1.0, 0, False, metadata)
    return match.to_dict()


def keys_of(run: Run, *arguments: object) -> list[Any]:
    return [match["key"] for match in matches_of(run("query", *arguments, "--json"))]


def test_query_prints_a_plain_table_where_stdout_is_no_terminal(run: Run, news: str) -> None:
    result = run("query", news, FOX, "--threshold", 0.5)
    assert (result.code, result.err) == (0, "")
    lines = [line.rsplit(maxsplit=2) for line in result.out.splitlines()]
    assert lines[:2] == [["key", "similarity", "distance"], ["fox", "1.000", "0"]]
    assert lines[2][0] == "fox too"


def test_query_table_is_never_cut_off(run: Run) -> None:
    key = "k" * 500 + " [bold]\x1b[2J\n"
    assert run("insert", "news", "-", stdin=json_lines([{"id": key, "text": FOX}])).code == 0
    result = run("query", "news", FOX)
    assert "k" * 500 + " [bold]\\x1b[2J\\n" in result.out
    assert len(result.out.splitlines()) == 2


def test_query_json_prints_a_line_for_each_match_with_its_metadata(run: Run) -> None:
    rows = json_lines([{"id": "fox", "text": FOX, "page": 7}, {"id": "fox too", "text": FOX_TOO, "page": 8}])
    assert run("insert", "news", "-", "--metadata", stdin=rows).code == 0
    found = matches_of(run("query", "news", FOX, "--threshold", 0.5, "--json"))
    assert found[0] == same("fox", {"page": 7}) | {"truncated": False}
    assert [match["key"] for match in found] == ["fox", "fox too"]
    assert 0.5 < found[1]["similarity"] < 1
    asked = "query", "news", "--input", "-", "--json", "--threshold", 1
    line = json.loads(run(*asked, stdin=rows).out.splitlines()[0])
    assert line == {"query": "fox", "matches": [same("fox", {"page": 7})], "truncated": False}


def test_query_json_gives_bytes_keys_in_base64(run: Run) -> None:
    with simindex.open("bytes") as index:
        index.insert(b"\x00\xff", FOX)
    assert keys_of(run, "bytes", FOX) == [{"bytes": "AP8="}]
    assert "b'\\x00\\xff'" in run("query", "bytes", FOX).out


def test_query_others_leaves_the_file_itself_out(run: Run, tmp_path: Path) -> None:
    for name, text in (("a.txt", FOX), ("b.txt", FOX_TOO), ("c.txt", SHIP)):
        (tmp_path / "tree" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    assert run("insert", "news", "tree").code == 0
    options: list[object]
    for options in (["--threshold", 0.5], ["--threshold", 0.5, "--limit", 1], ["--nearest", 1]):
        lines = matches_of(run("query", "news", "--input", "./tree/", "--others", "--json", *options))
        found = {line["query"]: [m["key"] for m in line["matches"]] for line in lines}
        assert (found["tree/a.txt"], found["tree/b.txt"]) == (["tree/b.txt"], ["tree/a.txt"])
        assert "tree/c.txt" not in found["tree/c.txt"]
        assert keys_of(run, "news", "--file", "./tree/a.txt", "--others", *options) == ["tree/b.txt"]
    for line in matches_of(
        run("query", "news", "--input", "tree", "--others", "--simhash", "--limit", 1, "--json")
    ):
        assert line["query"] not in [match["key"] for match in line["matches"]]
    url = f"file://{tmp_path}/tree/a.txt"
    assert run("insert", "remote", url).code == 0
    assert keys_of(run, "remote", "--file", url) == [url]
    assert not run("query", "remote", "--file", url, "--others").out


def test_query_reads_a_file_or_stdin(run: Run, news: str, tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text(FOX)
    from_text = matches_of(run("query", news, FOX, "--json"))
    for source in (["--file", "page.txt"], ["--file", "-"], ["-"]):
        assert matches_of(run("query", news, *source, "--json", stdin=FOX.encode())) == from_text


def test_query_key_leaves_the_document_itself_out(run: Run, news: str) -> None:
    for options in (["--threshold", 0.5], ["--nearest", 1], ["--nearest", 2]):
        keys = keys_of(run, news, "--key", "fox", *options)
        assert keys[:1] == ["fox too"]
        assert "fox" not in keys
    assert keys_of(run, news, "--key", "7", "--int") == []


def test_query_input_prints_a_set_for_each_row(run: Run, news: str, rows_file: str) -> None:
    found = matches_of(run("query", news, "--input", rows_file, "--json"))
    assert [line["query"] for line in found] == ["fox", "fox too", 7]
    assert found[2] == {"query": 7, "matches": [same(7)], "truncated": False}
    result = run("query", news, "--input", rows_file, "--threshold", 1)
    assert [line.split() for line in result.out.splitlines()] == [
        ["query", "key", "similarity", "distance"],
        ["fox", "fox", "1.000", "0"],
        ["fox", "too", "fox", "too", "1.000", "0"],
        ["7", "7", "1.000", "0"],
    ]
    rows = json_lines([{"n": 1, "body": "nothing like it"}, {"n": 2, "body": SHIP}])
    result = run("query", news, "--input", "-", "--id-field", "n", "--text-field", "body", stdin=rows)
    assert (result.code, result.err) == (0, "simindex: no match for 1 of 2 rows\n")


def test_query_input_ends_at_a_bad_row_after_the_rows_before_it(run: Run, news: str, tmp_path: Path) -> None:
    result = run("query", news, "--input", "-", "--json", stdin=json_lines(ROWS) + b"{}\n")
    assert (result.code, len(result.out.splitlines())) == (1, 3)
    assert result.err == (
        "simindex: stdin:4: expected a field 'text', found []; --text-field names another; "
        "--skip-bad-rows skips it\n"
    )
    skipping = run("query", news, "--input", "-", "--skip-bad-rows", stdin=json_lines(ROWS) + b"{}\n")
    assert skipping.code == 0
    assert skipping.err.splitlines()[-1] == "simindex: skipped: 1 bad row"
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(json_lines(ROWS))[:-6])
    result = run("query", news, "--input", "cut.jsonl.gz", "--json")
    assert (result.code, len(result.out.splitlines())) == (1, 3)
    assert result.err.startswith("simindex: cut.jsonl.gz: cannot be read beyond line 3")


def test_query_without_a_match_says_why(run: Run, news: str, tmp_path: Path) -> None:
    def said(*arguments: object) -> str:
        result = run("query", *arguments)
        assert (result.code, result.out) == (0, "")
        assert run("query", *arguments, "--json") == result
        return result.err.removeprefix("simindex: no match")

    words = " ".join(FOX.split()[:6])
    best = matches_of(run("query", news, words, "--nearest", 1, "--json"))[0]["similarity"]
    assert said(news, words) == (
        f" of 0.8 or more; the most similar document found has {best:.3f}: "
        "--threshold asks for less, --nearest for those\n"
    )
    assert said(news, "nothing like it") == "\n"  # nothing is like it at all
    assert said(news, "--key", 7, "--int", "--threshold", 0.9) == "\n"
    (tmp_path / "page.txt").write_text("... --- ...")
    for options in (["... --- ..."], ["--file", "page.txt"], ["...", "--simhash"], ["...", "--nearest", 2]):
        assert said(news, *options).startswith(": the text has no shingles")
    assert said(news, "nothing like it", "--simhash") == " within 3 bits of its fingerprint\n"
    assert said(news, "nothing like it", "--simhash", "--max-distance", 1).startswith(" within 1 bit ")
    assert said(news, "nothing like it", "--max-distance", 2) == " of 0.8 or more within 2 bits\n"
    with simindex.open("empty"):
        pass
    assert said("empty", FOX) == said("empty", FOX, "--nearest", 3) == ": the index holds no documents\n"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("--threshold 0.4 --limit 1", ["fox"]),
        ("--nearest 2 --recall 0.9", ["fox", "fox too"]),
        ("--nearest 2 --threshold 0.999", ["fox"]),
        ("--nearest 2 --threshold 0.1", ["fox", "fox too"]),
        ("--threshold 0.5 --recall 0.999", ["fox", "fox too"]),
        ("--simhash --max-distance 0", ["fox"]),
        ("--threshold 0.4 --max-distance 0", ["fox"]),
        ("--threshold 0.4 --max-distance 63", ["fox", "fox too"]),
    ],
)
def test_query_limit_nearest_recall_and_distance(run: Run, news: str, options: str, found: list[str]) -> None:
    assert keys_of(run, news, FOX, *options.split()) == found


def test_query_exact_gives_the_true_similarity(run: Run, rows_file: str) -> None:
    assert run("insert", "kept", rows_file, "--keep-shingles", 1000).code == 0
    found = matches_of(run("query", "kept", FOX, "--exact", "--threshold", 0.5, "--json"))
    a, b = ({*zip(words, words[1:], words[2:], strict=False)} for words in (FOX.split(), FOX_TOO.split()))
    assert found[1]["similarity"] == pytest.approx(len(a & b) / len(a | b))


def test_query_of_an_index_of_one_method(run: Run, news: str, rows_file: str) -> None:
    assert keys_of(run, news, "--key", "fox", "--simhash", "--limit", 1, "--max-distance", 0) == []
    assert run("insert", "minhash", rows_file, "--no-simhash").code == 0
    assert matches_of(run("query", "minhash", FOX, "--json"))[0]["distance"] is None
    assert run("insert", "simhash", rows_file, "--no-minhash").code == 0
    assert matches_of(run("query", "simhash", FOX, "--simhash", "--json"))[0]["similarity"] is None
    assert run("query", "simhash", FOX, "--simhash", "--max-distance", 0).out.split()[3:] == ["fox", "-", "0"]
    assert keys_of(run, "simhash", FOX, "--nearest", 1) == ["fox"]
    assert run("query", "simhash", "of other words", "--nearest", 1).err == "simindex: no match\n"


def test_query_tells_that_it_was_truncated(run: Run, news: str, rows_file: str) -> None:
    options = ["--threshold", 0.3, "--max-candidates", 1]
    result = run("query", news, FOX, *options, "--json")
    assert (matches_of(result)[0]["truncated"], "simindex: truncated: " in result.err) == (True, True)
    result = run("query", news, "--input", rows_file, *options, "--json")
    with simindex.open(news, "r", max_candidates=1) as index:
        expected = [matches.truncated for matches in index.query_many([FOX, FOX_TOO, SHIP], 0.3)]
    assert [line["truncated"] for line in matches_of(result)] == expected
    assert f"simindex: truncated, {sum(expected)} of 3 rows: " in result.err


def test_where_leaves_documents_of_other_metadata_out_in_every_command(run: Run) -> None:
    found = [("a", "fr", 1), ("b", "de", 1), ("c", "fr", "2"), ("d", "fr", 3), ("e", "de", True)]
    rows = [{"id": key, "text": FOX, "lang": lang, "year": year} for key, lang, year in found]
    insert = "insert", "news", "-", "--metadata", "--containment", 1
    assert run(*insert, stdin=json_lines(rows)).code == 0
    french = "--where", "lang=fr"
    years = "--where", "year=1", "--where", "year=2"
    assert keys_of(run, "news", FOX, *french) == ["a", "c", "d"]
    assert keys_of(run, "news", FOX, *french, *years) == ["a", "c"]
    assert keys_of(run, "news", FOX, "--where", "year=true") == ["e"]
    assert keys_of(run, "news", FOX, *french, "--limit", 2) == ["a", "c"]
    assert keys_of(run, "news", FOX, *french, "--nearest", 2) == ["a", "c"]
    assert keys_of(run, "news", FOX, *french, "--simhash") == ["a", "c", "d"]
    assert keys_of(run, "news", "--key", "b", *french) == ["a", "c", "d"]
    inside = matches_of(run("find", "-", "--in", "news", *french, "--json", stdin=json_lines(rows[1:2])))
    assert [match["key"] for match in inside] == ["a", "c", "d"]
    pairs = matches_of(run("pairs", "news", *french, *years, "--json"))
    assert [(pair["a"], pair["b"]) for pair in pairs] == [("a", "c")]
    clusters = matches_of(run("clusters", "news", "--where", "lang=de", "--json"))
    assert [cluster["keys"] for cluster in clusters] == [["b", "e"]]
    new = json_lines([{"id": "f", "text": FOX, "lang": "it"}, {"id": "g", "text": FOX, "lang": "it"}])
    added = run("insert", "news", "-", "--metadata", "--if-new", "--where", "lang=it", "--json", stdin=new)
    assert json.loads(added.out.splitlines()[-1])["inserted"] == 1
