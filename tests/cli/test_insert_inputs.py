"""`simindex insert` and others: every kind of input, through the command."""

import gzip
import json
import os
import sys
from pathlib import Path

import pytest
from support.commands import Run, must_say, stored
from support.faults import set_bound
from support.servers import in_memory
from support.texts import FOX, ROWS, SHIP, json_lines, make_folder, zstd

import simindex

FOX_ROW = [{"id": "fox", "text": FOX}]


def test_insert_reads_stdin_gzip_and_several_inputs_in_order(run: Run, rows_file: str) -> None:
    assert run("insert", "piped", "-", stdin=json_lines(ROWS)).code == 0
    assert stored("piped") == ["fox", "fox too", 7]
    Path("more.jsonl.gz").write_bytes(gzip.compress(json_lines([{"id": "first", "text": FOX}])))
    assert run("insert", "news", "more.jsonl.gz", rows_file).code == 0
    assert stored("news") == ["first", "fox", "fox too", 7]


def test_insert_takes_other_fields_and_keeps_the_rest_as_metadata(run: Run) -> None:
    row = json_lines([{"n": 5, "body": FOX, "year": 1984, "tags": ["x"]}])
    for options, metadata in ((["--metadata"], {"year": 1984, "tags": ["x"]}), ([], None)):
        how = ["--id-field", "n", "--text-field", "body", "--on-conflict", "replace", *options]
        assert run("insert", "news", "-", *how, stdin=row).code == 0
        with simindex.open("news", "r") as index:
            assert index[5].metadata == metadata


def test_insert_takes_lists_as_ready_shingles(run: Run) -> None:
    rows = [{"id": "u1", "movies": [1, 2, "3"]}, {"id": "u2", "movies": ["1", "2", "3"]}]
    assert run("insert", "users", "-", "--text-field", "movies", stdin=json_lines(rows)).code == 0
    with simindex.open("users", "r") as index:
        assert [match.key for match in index.query({"1", "2", "3"}, 1.0)] == ["u1", "u2"]


@pytest.mark.parametrize(
    ("inputs", "keys"),
    [
        (["tree"], ["a.txt", "b/a.py", "b/z.py", "b.d/e.py", "c.py", "link.py"]),
        (["tree/**/?.py", "tree/*.txt"], ["b.d/e.py", "b/a.py", "b/z.py", "c.py", "a.txt"]),
    ],
)
def test_insert_walks_a_folder_in_order_and_takes_patterns(
    run: Run, tmp_path: Path, inputs: list[str], keys: list[str]
) -> None:
    make_folder(tmp_path)
    (tmp_path / "tree/broken").unlink()
    assert run("insert", "news", *inputs).code == 0
    assert stored("news") == [f"tree/{key}" for key in keys]


def test_insert_leaves_indexes_out_of_a_folder_and_itself(run: Run) -> None:
    Path("pages").mkdir()
    Path("pages/a.txt").write_text(FOX)
    Path("pages/writer.lock").write_text(SHIP)
    for name in ("pages/of.simindex", "pages/of more.simindex"):
        with simindex.open(name) as index:
            index.insert("own", SHIP)
    result = run("insert", "news", ".")
    assert (result.code, stored("news")) == (0, ["pages/a.txt", "pages/writer.lock"])
    assert "left out" not in result.err


def test_insert_keeps_file_names_that_are_not_utf_8(run: Run, tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.txt")
    (tmp_path / "tree").mkdir()
    try:
        (tmp_path / "tree" / name).write_text(SHIP)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert run("insert", "news", "tree").code == 0
    assert json.loads(run("query", "news", SHIP, "--json").out)["key"] == r"tree/\udcff.txt"
    assert "\\udcff.txt" in run("query", "news", SHIP).out
    assert run("remove", "news", "--input", "-", stdin=b"tree/\xff.txt\n").code == 0


@pytest.mark.parametrize(("name", "package"), [("a.jsonl.zst", "backports.zstd"), ("a.parquet", "pyarrow")])
def test_insert_names_the_package_that_an_input_needs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    (tmp_path / name).write_bytes(b"")
    for module in (package, f"{package}.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    result = run("insert", "news", name)
    message = f"simindex: {name}: reading .{name.split('.')[-1]} needs {package}; install it with: "
    assert (result.code, result.err) == (1, f"{message}pip install {package}\n")
    assert not (tmp_path / "news").exists()


BAD_ROWS = [
    (b"{oops\n", "expected a JSON object, found no JSON"),
    (b"[1]\n", "expected a JSON object, found list"),
    (b'{"id": "x", "text": "\xff"}\n', "expected UTF-8, found other bytes; iconv makes UTF-8 of"),
    (b'{"id": "x"}\n', "expected a field 'text', found ['id']"),
    (b'{"id": "x", "text": null}\n', "text: expected a string or a list of strings, found null"),
    (b'{"id": "x", "text": {"a": 1}}\n', "text: expected a string or a list of strings, found dict"),
    (b'{"id": "x", "text": ["a", true]}\n', "text: expected a list of strings and integers only"),
    (b'{"id": true, "text": "a"}\n', "id: expected a string or an integer of 64 bits, found bool"),
    (b'{"id": 1.5, "text": "a"}\n', "id: expected a string or an integer of 64 bits, found float"),
    (
        b'{"id": null, "text": "a"}\n',
        "expected a key in the field 'id', found null; --id-field names another",
    ),
    (b'{"id": ["x"], "text": "a"}\n', "id: expected a string or an integer of 64 bits, found list"),
    (b'{"id": 36893488147419103232, "text": "a"}\n', "id: expected a"),
    (b'{"id": "' + b"x" * 70_000 + b'", "text": "a"}\n', "id: key: expected at most"),
]


@pytest.mark.parametrize(("line", "reason"), BAD_ROWS, ids=[reason for _, reason in BAD_ROWS])
def test_insert_names_the_place_of_a_bad_row(run: Run, tmp_path: Path, line: bytes, reason: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(ROWS) + line)
    result = run("insert", "news", "a.jsonl")
    must_say(result, f"simindex: a.jsonl:4: {reason}")
    assert result.err.endswith("; nothing of the input is stored\n")


@pytest.mark.parametrize(
    ("content", "format_", "remedy"),
    [
        ("The quick brown fox jumps over the dog.\n", "text", "--format text reads all of it as one text"),
        ('[{"id": 1, "text": "brown fox"}]', "json", "--format json takes an array of objects"),
    ],
)
def test_what_is_no_line_of_json_is_told_of_the_format_that_reads_it(
    run: Run, tmp_path: Path, content: str, format_: str, remedy: str
) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    must_say(run("insert", "news", "a.jsonl"), remedy)
    assert run("insert", "news", "a.jsonl", "--format", format_).code == 0


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_insert_rounds_no_integer_of_metadata_and_takes_halves_of_characters(run: Run, name: str) -> None:
    numbers = [1, -(1 << 63), (1 << 64) - 1, 1 << 64, [{"deep": -(1 << 63) - 1}], 1e300, "\ud83d"]
    rows = [{"id": position, "text": FOX, "number": number} for position, number in enumerate(numbers)]
    Path(name).write_bytes(json_lines(rows) if name == "a.jsonl" else json.dumps(rows).encode())
    result = run("insert", "news", name, "--metadata", "--skip-bad-rows")
    refused = (
        "metadata: expected a value that msgpack can hold, found an integer of more than 64 bits; skipped"
    )
    must_say(result, f"simindex: {name}:4: {refused}", f"simindex: {name}:5: {refused}", code=0)
    with simindex.open("news", "r") as index:
        metadata = [record.metadata for record in index.values()]
    assert metadata == [{"number": numbers[position]} for position in (0, 1, 2, 5, 6)]
    assert [type(value["number"]) for value in metadata] == [int, int, int, float, str]


def test_dedup_of_an_array_rounds_no_integer(run: Run) -> None:
    rows = [
        {"id": 1 << 70, "text": "\ud83d " + FOX, "n": [1 << 64]},
        {"id": 1, "text": "other words", "n": 1e30},
    ]
    Path("a.json").write_text(json.dumps(rows))
    assert run("dedup", "a.json", "-o", "b.jsonl").code == 1  # the id is none
    rows[0]["id"] = 7
    Path("a.json").write_text(json.dumps(rows))
    assert run("dedup", "a.json", "-o", "b.jsonl").code == 0
    assert [json.loads(line) for line in Path("b.jsonl").read_text().splitlines()] == rows


def test_insert_names_the_place_of_a_bad_csv_row(run: Run, tmp_path: Path) -> None:
    lines = ["id,text", "a,b,c", 'x,"y"z', "x", "ok,fine"]
    (tmp_path / "a.csv").write_bytes("\n".join(lines).encode() + b"\nq,\xff\n")
    result = run("insert", "news", "a.csv", "--skip-bad-rows")
    must_say(
        result,
        "simindex: a.csv:2: expected 2 columns, found 3; skipped",
        "simindex: a.csv:3: ",
        "simindex: a.csv:4: expected 2 columns, found 1; skipped",
        "simindex: a.csv:6: expected UTF-8, found other bytes; iconv makes UTF-8 of ",
        code=0,
    )
    assert stored("news") == ["ok"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_insert_reports_a_file_that_it_may_not_read(run: Run, tmp_path: Path) -> None:
    make_folder(tmp_path)
    (tmp_path / "tree" / "a.txt").chmod(0)
    (tmp_path / "tree" / "b").chmod(0)
    skipped = [f"simindex: tree/{name}: Permission denied; skipped" for name in ("a.txt", "b")]
    must_say(run("insert", "news", "tree", "--skip-bad-rows"), *skipped, code=0)
    (tmp_path / "tree" / "b").chmod(0o700)


def test_insert_stores_the_batches_before_a_line_over_the_limit(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = {"id": "long", "text": "x" * 2_000}
    (tmp_path / "a.jsonl").write_bytes(json_lines([*ROWS, long, {"id": "last", "text": SHIP}]))
    reason = "simindex: a.jsonl:4: expected a line of at most 1 KiB, found more"
    kept = "--skip-bad-rows skips it; "
    kept += "the first 2 documents of the input are stored, none after them"
    set_bound(monkeypatch, "bytes of a row", 1 << 10)
    result = run("insert", "news", "a.jsonl", "--batch-size", 2)
    assert (result.code, result.err) == (1, f"{reason}; {kept}\n")
    assert stored("news") == ["fox", "fox too"]
    must_say(run("insert", "rest", "a.jsonl", "--skip-bad-rows"), f"{reason}; skipped", code=0)
    assert stored("rest") == ["fox", "fox too", 7, "last"]


def test_insert_takes_a_window(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = zstd()
    packer = module.ZstdCompressor(options={module.CompressionParameter.window_log: 27})
    (tmp_path / "a.jsonl.zst").write_bytes(packer.compress(json_lines(ROWS)) + packer.flush())
    message = "a.jsonl.zst: cannot be read: expected a window of at most 64 MiB"
    with monkeypatch.context() as patched:
        set_bound(patched, "bytes of a row", 8 << 20)
        must_say(run("insert", "news", "a.jsonl.zst"), message)
    assert run("insert", "news", "a.jsonl.zst").code == 0


def test_insert_takes_a_row_with_too_deep_metadata_for_a_bad_one(run: Run, tmp_path: Path) -> None:
    """It would be stored, and then neither be read nor removed."""
    deepest, too_deep = ("[" * depth + "]" * depth for depth in (1022, 1023))
    lines = [f'{{"id":"{key}","text":"a b c {key}","m":{m}}}' for key, m in (("x", deepest), ("y", too_deep))]
    (tmp_path / "deep.jsonl").write_text("\n".join(lines))
    reason = "deep.jsonl:2: metadata: expected a value that msgpack can hold, found more than 1,023"
    must_say(run("insert", "news", "deep.jsonl", "--metadata"), reason)
    assert run("insert", "more", "deep.jsonl", "--metadata", "--skip-bad-rows").code == 0
    assert stored("more") == ["x"]
    assert run("query", "more", "a b c x").code == 0
    assert run("remove", "more", "x").code == 0
    assert run("insert", "plain", "deep.jsonl").code == 0


def test_insert_counts_what_it_leaves_out_of_a_folder(run: Run, tmp_path: Path) -> None:
    files = {"page": SHIP.encode(), "b.png": b"\x89PNG\0", ".git/HEAD": b"ref", ".env": b"x", "l": b"caf\xe9"}
    for name, content in files.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_bytes(content)
    result = run("insert", "ix", "tree")
    assert result.code == 0
    assert result.err.splitlines()[:2] == [
        "simindex: left out of folders: 1 binary file, 2 hidden files or folders",
        "simindex: 1 text file has bytes that are not UTF-8, read as U+FFFD",
    ]
    assert stored("ix") == ["tree/l", "tree/page"]
    assert run("insert", "ix", "tree/.env").code == 0  # what is named is read
    assert stored("ix")[-1] == "tree/.env"


def test_insert_says_which_files_of_a_folder_have_rows_that_it_does_not_read(run: Run) -> None:
    Path("tree").mkdir()
    Path("tree/rows.jsonl.gz").write_bytes(gzip.compress(json_lines(FOX_ROW)))
    Path("tree/page.txt").write_text(SHIP)
    result = run("insert", "ix", "tree")
    assert stored("ix") == ["tree/page.txt", "tree/rows.jsonl.gz"]
    assert result.err.splitlines()[0] == (
        "simindex: 1 file of folders named as tables or JSON, each read as one text; --format, or a pattern "
        "like 'FOLDER/*.jsonl.gz', reads their rows"
    )
    result = run("insert", "rows", "tree/*.jsonl.gz", "--json")
    assert (json.loads(result.out)["tables"], stored("rows")) == (0, ["fox"])


@pytest.mark.parametrize("is_pipe", [False, True], ids=["stdin", "pipe"])
@pytest.mark.parametrize(
    ("options", "content"),
    [
        (["--format", "jsonl"], json_lines(FOX_ROW)),
        (["--format", "csv"], f"id;text\nfox;{FOX}\n".encode()),
        (["--format", "csv"], f"id,text\r\nfox,{FOX}\r\n".encode()),
        (["--format", "tsv"], f"id\ttext\nfox\t{FOX}\n".encode()),
        (["--format", "csv"], f"id\ttext\nfox\t{FOX}\n".encode()),
        (["--format", "json"], json.dumps(FOX_ROW).encode()),
        (["--format", "text"], FOX.encode()),
    ],
    ids=str,
)
def test_insert_and_query_take_any_format_of_stdin_and_of_what_a_shell_substitutes(
    run: Run, options: list[str], content: bytes, is_pipe: bool
) -> None:
    def piped() -> str:
        """The name of a pipe, as <(command) gives it to a command."""
        read, write = os.pipe()
        os.write(write, content)
        os.close(write)
        return f"/dev/fd/{read}"

    assert run("insert", "ix", piped() if is_pipe else "-", *options, stdin=content).code == 0
    query = run("query", "ix", "--input", piped() if is_pipe else "-", "--json", *options, stdin=content)
    line = json.loads(query.out)
    assert (line["matches"][0]["key"], line["matches"][0]["similarity"]) == (stored("ix")[0], 1.0)


def test_query_file_takes_a_packing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "page.gz").write_bytes(gzip.compress("caf\xe9 au lait".encode()))
    assert run("insert", "ix", "page.gz").code == 0
    assert json.loads(run("query", "ix", "--file", "page.gz", "--json").out)["key"]
    with simindex.open("ix", "r") as index:
        assert index["page.gz"].sketch.jaccard(simindex.Sketcher().sketch("caf\xe9 au lait")) == 1.0


def test_insert_query_and_join_take_urls(run: Run) -> None:
    with in_memory(a__jsonl=json_lines(ROWS), b__jsonl=json_lines(ROWS[:1])) as url:
        assert run("insert", "ix", f"{url}/a*.jsonl").code == 0
        queried = run("query", "ix", "--input", f"{url}/b.jsonl", "--json")
        assert queried.code == 0
        assert f'"{ROWS[0]["id"]}"' in queried.out
        joined = run("join", "ix", f"{url}/b.jsonl", "--json")
        assert joined.code == 0
        assert ROWS[0]["id"] in {json.loads(line)["a"] for line in joined.out.splitlines()}
