"""`simindex get`, `list` and `export`: what is stored of documents, and its way back."""

import fcntl
import json
import os
from pathlib import Path

import pytest
from support.commands import Run, matches_of, must_say, stored
from support.texts import FOX, ROWS, json_lines

import simindex

WITH_METADATA = [{"id": row["id"], "text": row["text"], "page": n} for n, row in enumerate(ROWS)]


@pytest.fixture
def pages(run: Run, tmp_path: Path) -> str:
    """An index of ROWS with metadata, and of a key of bytes."""
    (tmp_path / "pages.jsonl").write_bytes(json_lines(WITH_METADATA))
    assert run("insert", "pages", "pages.jsonl", "--metadata").code == 0
    with simindex.open("pages") as index:
        index.insert(b"\x00\xff", FOX, {"raw": b"\x01"})
    return "pages"


def test_integer_keys_have_no_underscores(run: Run, pages: str) -> None:
    result = run("get", pages, "1_0", "--int")
    assert (result.code, "expected an integer, found '1_0'" in result.err) == (2, True)
    assert (
        "expected an integer, found '1_0'" in run("get", pages, "--int", "--input", "-", stdin=b"1_0\n").err
    )


@pytest.mark.parametrize("name", ["n" * 255, "\U0001f600" * 63])
def test_export_writes_a_file_of_the_longest_name(run: Run, pages: str, name: str) -> None:
    assert run("export", pages, "-o", name).code == 0
    assert Path(name).stat().st_size


def test_get_shows_what_is_stored_and_reports_what_is_not(run: Run, pages: str) -> None:
    result = run("get", pages, "fox", "wolf")
    assert (result.code, result.err) == (1, "simindex: pages: key 'wolf' is not in the index\n")
    shown = {line[:11].strip(): line[13:] for line in result.out.splitlines()}
    with simindex.open(pages, "r") as index:
        record = index["fox"]
    line = json.loads(run("get", pages, "fox", "--json").out)
    assert line == {
        "id": "fox",
        "metadata": {"page": 0},
        "fingerprint": f"{record.sketch.fingerprint:016x}",
        "inserted_at": record.inserted_at.isoformat(),
        "seen_at": record.seen_at.isoformat(),
    }
    assert (shown["id"], shown["fingerprint"]) == ("fox", line["fingerprint"])
    assert shown["inserted at"] == f"{line['inserted_at'][:16]}Z"
    assert json.loads(shown["metadata"]) == {"page": 0}
    assert json.loads(run("get", pages, "7", "--int", "--json").out)["id"] == 7


def test_get_takes_keys_from_a_file_and_stdin(run: Run, pages: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("fox\nfox too\n")
    for arguments, stdin in ((["--input", "keys"], b""), (["-"], b"fox\nfox too\n")):
        lines = matches_of(run("get", pages, *arguments, "--json", stdin=stdin))
        assert [line["id"] for line in lines] == ["fox", "fox too"]


def test_list_prints_keys_that_remove_takes(run: Run, pages: str) -> None:
    result = run("list", pages)
    assert result.out == "fox\nfox too\n7\nb'\\x00\\xff'\n"
    assert run("list", pages, "--limit", 2).out == "fox\nfox too\n"
    lines = run("list", pages, "--json").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["fox", "fox too", 7, {"bytes": "AP8="}]
    assert run("remove", pages, "-", stdin=b"fox\nfox too\n").code == 0
    assert stored(pages) == [7, b"\x00\xff"]


KEYS = [
    *("a\nb", r"a\nb", "tab\there", r"C:\new", r"C:\Windows", "\\\\server\\x", "end\r", "\x1b[2J", "\u2028"),
    *(os.fsdecode(b"caf\xe9.txt"), "\U000e0001", r"\udce9", " two  spaces ", "\ud800"),
]


@pytest.mark.parametrize("command", ["get", "remove"])
def test_every_text_that_list_prints_is_found_again(run: Run, command: str) -> None:
    with simindex.open("news") as index:
        index.insert_many((key, f"text {number}") for number, key in enumerate(KEYS))
    lines = run("list", "news").out
    assert len(set(lines.split("\n"))) == len(KEYS) + 1
    result = run(command, "news", "-", *(["--json"] if command == "get" else []), stdin=lines.encode())
    assert result.code == 0, result.err
    if command == "get":
        shown = [key.encode("utf-8", "backslashreplace").decode() for key in KEYS]
        assert [json.loads(line)["id"] for line in result.out.split("\n")[:-1]] == shown
    else:
        assert stored("news") == []


def test_key_with_a_backslash_is_taken_as_it_is_typed(run: Run) -> None:
    with simindex.open("news") as index:
        index.insert(r"C:\new", FOX)
    assert run("get", "news", r"C:\new").code == 0
    assert run("remove", "news", "-", stdin=b"C:\\new\n").code == 0


def test_export_is_read_back_by_insert(run: Run, pages: str) -> None:
    result = run("export", pages)
    assert (result.code, result.err) == (0, "")
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert [line["id"] for line in lines] == ["fox", "fox too", 7, {"bytes": "AP8="}]
    assert [line["metadata"] for line in lines[2:]] == [
        {"page": 2},
        {"raw": {"bytes": "AQ=="}},
    ]
    result = run("export", pages, "-o", "pages.jsonl")
    assert (result.code, result.out, result.err) == (0, "", "pages.jsonl: 4 documents written\n")
    options = ["--fingerprint-field", "fingerprint", "--metadata-field", "metadata", "--no-minhash"]
    assert run("insert", "again", "pages.jsonl", *options).code == 0
    assert stored("again") == stored(pages)
    with simindex.open(pages, "r") as index, simindex.open("again", "r") as restored:
        for key in ("fox", "fox too", 7, b"\x00\xff"):
            assert restored[key].sketch.fingerprint == index[key].sketch.fingerprint
        assert restored["fox"].metadata == index["fox"].metadata


@pytest.mark.parametrize("output", ["data.mdb", "header", "new", "link"])
def test_export_to_a_file_of_the_index_leaves_it_as_it_is(run: Run, pages: str, output: str) -> None:
    Path("link").symlink_to(f"{pages}/data.mdb")
    named = output if output == "link" else f"{pages}/{output}"
    before = {path: path.read_bytes() for path in Path(pages).iterdir() if path.name != "data.mdb-lock"}
    result = run("export", pages, "-o", named)
    assert result.code == 2
    assert f"'--output': expected a file that belongs to no index, found {named}" in result.err
    assert {
        path: path.read_bytes() for path in Path(pages).iterdir() if path.name != "data.mdb-lock"
    } == before


def test_export_of_an_index_without_simhash_has_no_fingerprints(run: Run, rows_file: str) -> None:
    assert run("insert", "plain", rows_file, "--no-simhash").code == 0
    lines = matches_of(run("export", "plain", "-o", "-"))
    assert [line["fingerprint"] for line in lines] == [None] * 3


def test_metadata_too_deep_for_json_names_its_key(run: Run) -> None:
    deep: list[object] = []
    for _ in range(1_000):
        deep = [deep]
    with simindex.open("deep") as index:
        index.insert("x", FOX, deep)
    for command in (["get", "deep", "x", "--json"], ["export", "deep"], ["query", "deep", FOX, "--json"]):
        must_say(run(*command), "simindex: the metadata of key 'x' is nested deeper than JSON can be written")


def test_export_that_breaks_off_leaves_the_file_as_it_was(run: Run, pages: str, tmp_path: Path) -> None:
    deep: list[object] = []
    for _ in range(1_000):
        deep = [deep]
    (tmp_path / "out.jsonl").write_text("as before\n")
    Path("link").symlink_to("out.jsonl")
    assert run("export", pages, "-o", "link").code == 0
    whole = (tmp_path / "out.jsonl").read_bytes()
    assert (Path("link").is_symlink(), whole.count(b"\n")) == (True, 4)
    with simindex.open(pages) as index:
        index.insert("x", FOX, deep)
    before = set(tmp_path.iterdir())
    assert run("export", pages, "-o", "out.jsonl").code == 1
    assert run("export", pages, "-o", "new.jsonl").code == 1
    assert ((tmp_path / "out.jsonl").read_bytes(), set(tmp_path.iterdir())) == (whole, before)
    must_say(run("export", pages, "-o", "nowhere/a.jsonl"), "nowhere/a.jsonl: No such file or directory")


def test_a_page_goes_into_a_pipe_as_it_is(run: Run, rows_file: str) -> None:
    (news_text := Path("news.txt")).write_text(FOX)
    os.mkfifo("page.html")
    pipe = os.open("page.html", os.O_RDWR)
    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1 << 20)
    assert run("insert", "found", rows_file, "--containment", 1).code == 0
    options = ["--texts", rows_file, "--output", "page.html"]
    assert run("passages", "found", "--file", news_text, *options).code == 0
    assert Path("page.html").is_fifo()
    os.set_blocking(pipe, False)
    assert os.read(pipe, 1 << 20).rstrip().endswith(b"</html>")
    os.close(pipe)
