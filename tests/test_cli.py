"""The command line: every option once, every error once with its exit code and message.

Most tests run the app in this process. Those about a process of its own (pipes, terminals, a missing extra)
start `python -m simindex.cli`.
"""

import base64
import csv
import gzip
import importlib.util
import io
import json
import os
import pty
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

import simindex
from simindex import CharShingles, Config, SimHashConfig, WordShingles
from simindex.cli import app, main
from simindex.cli.output import print_json, print_table, shown_key
from simindex.inputs import Inputs

FOX = "the quick brown fox jumps over the lazy dog near the river bank in the early morning"
FOX_TOO = "the quick brown fox jumps over the lazy dog near the river bank in the early evening"
SHIP = "a ship left the harbour at dawn with forty sailors and a cargo of salt for the islands"
ROWS = [{"id": "fox", "text": FOX}, {"id": "fox too", "text": FOX_TOO}, {"id": 7, "text": SHIP}]


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    """Run the app in this process and in an empty folder; returns its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit_:
            app(list(map(str, arguments)), prog_name="simindex")
        captured = capfd.readouterr()
        return SimpleNamespace(code=exit_.value.code or 0, out=captured.out, err=captured.err)

    return run


def json_lines(rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def process(*arguments, **options):
    command = [sys.executable, "-m", "simindex.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, **options)


@pytest.fixture
def rows_file(tmp_path):
    path = tmp_path / "articles.jsonl"
    path.write_bytes(json_lines(ROWS))
    return path.name


@pytest.fixture
def news(run, rows_file):
    """An index of ROWS."""
    assert run("insert", "news", rows_file).code == 0
    return "news"


def stored(path):
    with simindex.open(path, "r") as index:
        return list(index)


def config_of(path):
    with simindex.open(path, "r") as index:
        return index.config


# ---- insert: inputs ----


def test_insert_stores_json_lines_and_sums_up_on_stderr(run, rows_file):
    result = run("insert", "news", rows_file)
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("3 documents inserted, 0 replaced, 0 skipped, 0 bad rows; ")
    assert result.err.rstrip().endswith("documents/s")
    assert stored("news") == ["fox", "fox too", 7]


def test_insert_json_prints_the_summary_as_one_line(run, rows_file):
    result = run("insert", "news", rows_file, "--json")
    summary = json.loads(result.out)
    assert {name: summary[name] for name in ("inserted", "replaced", "skipped", "bad")} == {
        "inserted": 3,
        "replaced": 0,
        "skipped": 0,
        "bad": 0,
    }
    assert summary["seconds"] >= 0
    assert summary["documents_per_second"] > 0
    assert result.err == ""


def test_insert_reads_stdin(run):
    assert run("insert", "news", "-", stdin=json_lines(ROWS)).code == 0
    assert stored("news") == ["fox", "fox too", 7]


def test_insert_reads_gzip_and_several_inputs_in_order(run, rows_file):
    with gzip.open("more.jsonl.gz", "wb") as file:
        file.write(json_lines([{"id": "first", "text": FOX}]))
    assert run("insert", "news", "more.jsonl.gz", rows_file).code == 0
    assert stored("news") == ["first", "fox", "fox too", 7]


def test_insert_gives_a_row_without_id_its_place(run, tmp_path):
    rows = [{"text": FOX}, {"id": None, "text": SHIP}]
    (tmp_path / "a.jsonl").write_bytes(
        b"\xef\xbb\xbf" + json_lines(rows[:1]) + b" \n\n" + json_lines(rows[1:])
    )
    assert run("insert", "news", "a.jsonl").code == 0
    assert stored("news") == ["a.jsonl:1", "a.jsonl:4"]
    assert run("insert", "piped", "-", stdin=json_lines(rows)).code == 0
    assert stored("piped") == ["stdin:1", "stdin:2"]


def test_insert_takes_other_fields_and_keeps_the_rest_as_metadata(run):
    row = json_lines([{"n": 5, "body": FOX, "year": 1984, "tags": ["x"]}])
    options = ("--id-field", "n", "--text-field", "body")
    assert run("insert", "with", "-", *options, "--metadata", stdin=row).code == 0
    assert run("insert", "without", "-", *options, stdin=row).code == 0
    with simindex.open("with", "r") as index:
        assert index[5].metadata == {"year": 1984, "tags": ["x"]}
    with simindex.open("without", "r") as index:
        assert index[5].metadata is None


def test_insert_takes_lists_as_ready_shingles(run):
    rows = [{"id": "u1", "movies": [1, 2, "3"]}, {"id": "u2", "movies": ["1", "2", "3"]}]
    assert run("insert", "users", "-", "--text-field", "movies", stdin=json_lines(rows)).code == 0
    with simindex.open("users", "r") as index:
        assert [match.key for match in index.query({"1", "2", "3"}, 1.0)] == ["u1", "u2"]


def test_insert_reads_csv(run, tmp_path):
    with open(tmp_path / "a.csv", "w", newline="", encoding="utf-8-sig") as file:
        rows = [["id", "text", "year"], ["x", f'{FOX},\n"quoted"', "1984"], ["", SHIP, "1999"]]
        csv.writer(file).writerows(rows)
    assert run("insert", "news", "a.csv", "--metadata").code == 0
    assert stored("news") == ["x", "a.csv:4"]
    with simindex.open("news", "r") as index:
        assert index["x"].metadata == {"year": "1984"}
        assert index["x"].sketch.jaccard(simindex.Sketcher(Config()).sketch(FOX + " quoted")) == 1.0


def test_insert_keys_a_text_file_by_its_path_and_reads_wrong_bytes_as_u_fffd(run, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "page.txt").write_bytes(b"caf\xe9 au lait")
    assert run("insert", "news", "sub/page.txt").code == 0
    with simindex.open("news", "r") as index:
        sketch = simindex.Sketcher(Config()).sketch("caf\ufffd au lait")
        assert index["sub/page.txt"].sketch.jaccard(sketch) == 1.0


def make_folder(root):
    for name in ("b/z.py", "b/a.py", "a.txt", "c.py", "b.d/e.py"):
        path = root / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} {SHIP}")
    (root / "tree" / "loop").symlink_to(root / "tree", target_is_directory=True)
    (root / "tree" / "link.py").symlink_to(root / "tree" / "c.py")
    (root / "tree" / "broken").symlink_to(root / "nowhere")


def test_insert_walks_a_folder_in_order_and_follows_no_linked_folder(run, tmp_path):
    make_folder(tmp_path)
    assert run("insert", "news", "tree").code == 0
    assert stored("news") == ["a.txt", "b/a.py", "b/z.py", "b.d/e.py", "c.py", "link.py"]


@pytest.mark.parametrize(
    ("patterns", "keys"),
    [
        (["*.txt"], ["a.txt"]),
        (["a.*"], ["a.txt", "b/a.py"]),
        (["b/*", "c*"], ["b/a.py", "b/z.py", "c.py"]),
    ],
)
def test_insert_glob_chooses_files_by_name_or_path(run, tmp_path, patterns, keys):
    make_folder(tmp_path)
    assert run("insert", "news", "tree", *(f"--glob={pattern}" for pattern in patterns)).code == 0
    assert stored("news") == keys


def test_insert_leaves_the_index_itself_out_of_a_folder(run, tmp_path):
    (tmp_path / "page").write_text(SHIP)
    assert run("insert", "news", ".").code == 0
    assert stored("news") == ["page"]


def test_insert_keeps_file_names_that_are_not_utf_8(run, tmp_path):
    name = os.fsdecode(b"\xff.txt")
    (tmp_path / "tree").mkdir()
    try:
        (tmp_path / "tree" / name).write_text(SHIP)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert run("insert", "news", "tree").code == 0
    assert json.loads(run("query", "news", SHIP, "--json").out)["key"] == name
    assert "\\udcff.txt" in run("query", "news", SHIP).out
    assert run("remove", "news", "--input", "-", stdin=b"\xff.txt\n").code == 0


def has(package):
    return importlib.util.find_spec(package) is not None


@pytest.mark.parametrize(("name", "package"), [("a.jsonl.zst", "zstandard"), ("a.parquet", "pyarrow")])
def test_insert_names_the_package_that_an_input_needs(run, tmp_path, monkeypatch, name, package):
    (tmp_path / name).write_bytes(b"")
    for module in (package, f"{package}.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    result = run("insert", "news", name)
    message = f"simindex: {name}: reading .{name.split('.')[-1]} needs {package}; install it with: "
    assert (result.code, result.err) == (1, f"{message}pip install {package}\n")
    assert not (tmp_path / "news").exists()


@pytest.mark.skipif(not has("zstandard"), reason="zstandard is not installed")
def test_insert_reads_every_frame_of_zstd_and_refuses_a_cut_file(run, tmp_path):
    import zstandard

    packed = b"".join(zstandard.compress(json_lines([row])) for row in ROWS)
    (tmp_path / "a.jsonl.zst").write_bytes(packed)
    assert run("insert", "news", "a.jsonl.zst").code == 0
    assert len(stored("news")) == 3
    (tmp_path / "cut.jsonl.zst").write_bytes(packed[:-9])
    result = run("insert", "cut", "cut.jsonl.zst", "--batch-size", 1)
    assert result.code == 1
    assert "cut.jsonl.zst: cannot be read beyond line 2: " in result.err
    assert len(stored("cut")) == 2


@pytest.mark.skipif(not has("pyarrow"), reason="pyarrow is not installed")
def test_insert_reads_parquet(run):
    import pyarrow
    import pyarrow.parquet

    rows = [{"id": 1, "text": FOX, "year": 1984}, {"id": None, "text": None}, {"id": None, "text": SHIP}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), "a.parquet")
    result = run("insert", "news", "a.parquet", "--metadata", "--skip-bad-rows")
    assert result.code == 0
    assert "a.parquet:2: text: expected a string" in result.err
    assert stored("news") == [1, "a.parquet:3"]
    with simindex.open("news", "r") as index:
        assert index[1].metadata == {"year": 1984}
    result = run("insert", "news", "a.parquet", "--text-field", "body")
    assert (result.code, "expected a column 'body'" in result.err) == (1, True)


# ---- insert: bad rows and other ends ----

BAD_ROWS = [
    (b"{oops\n", "expected a JSON object, found no JSON"),
    (b"[1]\n", "expected a JSON object, found list"),
    (b'{"id": "x", "text": "\xff"}\n', "expected a JSON object, found no JSON"),
    (b'{"id": "x"}\n', "expected a field 'text', found ['id']"),
    (b'{"id": "x", "text": null}\n', "text: expected a string or a list of strings, found null"),
    (b'{"id": "x", "text": {"a": 1}}\n', "text: expected a string or a list of strings, found dict"),
    (b'{"id": "x", "text": ["a", true]}\n', "text: expected a list of strings and integers only"),
    (b'{"id": true, "text": "a"}\n', "id: expected a string or an integer of 64 bits, found bool"),
    (b'{"id": 1.5, "text": "a"}\n', "id: expected a string or an integer of 64 bits, found float"),
    (b'{"id": ["x"], "text": "a"}\n', "id: expected a string or an integer of 64 bits, found list"),
    (b'{"id": 36893488147419103232, "text": "a"}\n', "id: expected a"),
    (b'{"id": "' + b"x" * 70_000 + b'", "text": "a"}\n', "id: key: expected at most"),
]


@pytest.mark.parametrize(("line", "reason"), BAD_ROWS, ids=[reason for _, reason in BAD_ROWS])
def test_insert_names_the_place_of_a_bad_row(run, tmp_path, line, reason):
    (tmp_path / "a.jsonl").write_bytes(json_lines(ROWS) + line)
    result = run("insert", "news", "a.jsonl")
    assert result.code == 1
    assert result.err.startswith(f"simindex: a.jsonl:4: {reason}")
    assert result.err.endswith("; nothing of the input is stored\n")


@pytest.mark.parametrize("workers", [1, 3])
def test_insert_keeps_the_batches_before_a_bad_row(run, tmp_path, workers):
    rows = [{"id": number, "text": f"{number} {SHIP}"} for number in range(25)]
    (tmp_path / "a.jsonl").write_bytes(json_lines(rows) + b"{}\n" + json_lines(ROWS))
    result = run("insert", "news", "a.jsonl", "--batch-size", 10, "--workers", workers)
    assert result.code == 1
    assert "simindex: a.jsonl:26: " in result.err
    assert result.err.endswith("; the first 20 documents of the input are stored, none after them\n")
    assert stored("news") == list(range(20))


def test_insert_skip_bad_rows_reports_the_first_and_counts_all(run, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(json_lines(ROWS) + b"{}\n" * 23 + json_lines([{"id": 8, "text": FOX}]))
    result = run("insert", "news", "a.jsonl", "--skip-bad-rows", "--batch-size", 2)
    assert result.code == 0
    assert result.err.count("; skipped\n") == 20
    assert "simindex: a.jsonl:4: expected a field 'text', found []; skipped\n" in result.err
    assert "simindex: ... and 3 more (23 bad rows in all)\n" in result.err
    assert "4 documents inserted, 0 replaced, 0 skipped, 23 bad rows" in result.err
    assert stored("news") == ["fox", "fox too", 7, 8]


def test_insert_names_the_place_of_a_bad_csv_row(run, tmp_path):
    lines = ["id,text", "a,b,c", 'x,"y"z', "x", "ok,fine"]
    (tmp_path / "a.csv").write_bytes("\n".join(lines).encode() + b"\nq,\xff\n")
    result = run("insert", "news", "a.csv", "--skip-bad-rows")
    assert result.code == 0
    reports = result.err.splitlines()
    assert reports[0] == "simindex: a.csv:2: expected 2 columns, found 3; skipped"
    assert reports[1].startswith("simindex: a.csv:3: ")
    assert reports[2] == "simindex: a.csv:4: expected 2 columns, found 1; skipped"
    assert reports[3] == "simindex: a.csv:6: expected UTF-8, found other bytes; skipped"
    assert stored("news") == ["ok"]
    result = run("insert", "news", "a.csv", "--text-field", "body")
    assert (result.code, "a.csv:1: expected a column 'body'" in result.err) == (1, True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_insert_reports_a_file_that_it_may_not_read(run, tmp_path):
    make_folder(tmp_path)
    (tmp_path / "tree" / "a.txt").chmod(0)
    (tmp_path / "tree" / "b").chmod(0)
    result = run("insert", "news", "tree", "--skip-bad-rows")
    assert result.code == 0
    assert "simindex: tree/a.txt: Permission denied; skipped" in result.err
    assert "simindex: tree/b: Permission denied; skipped" in result.err
    (tmp_path / "tree" / "b").chmod(0o700)


def test_reader_reports_files_and_folders_that_vanish(tmp_path, monkeypatch):
    make_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    rows = iter(Inputs(["tree"]))
    assert next(rows).key == "a.txt"
    for name in ("b/a.py", "b/z.py", "c.py", "link.py"):
        (tmp_path / "tree" / name).unlink()
    (tmp_path / "tree" / "b").rmdir()
    assert [str(row) for row in rows if isinstance(row, ValueError)] == [
        "tree/b: No such file or directory",
        "tree/c.py: No such file or directory",
        "tree/link.py: No such file or directory",
    ]


def test_insert_refuses_a_cut_gzip_file_and_keeps_the_batches_before(run, tmp_path):
    rows = [{"id": number, "text": base64.b64encode(os.urandom(900)).decode()} for number in range(300)]
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(json_lines(rows))[:-20_000])
    result = run("insert", "news", "a.jsonl.gz", "--batch-size", 10)
    assert result.code == 1
    assert "simindex: a.jsonl.gz: cannot be read beyond line " in result.err
    assert 100 < len(stored("news")) < 300
    assert len(stored("news")) % 10 == 0


def test_insert_on_conflict_errs_skips_or_replaces(run, news, rows_file):
    result = run("insert", news, rows_file)
    assert result.code == 1
    assert result.err.startswith("simindex: key 'fox' is in the index already, or twice in the input; ")
    assert "--on-conflict skip" in result.err
    result = run("insert", news, rows_file, "--on-conflict", "skip")
    assert (result.code, "0 documents inserted, 0 replaced, 3 skipped" in result.err) == (0, True)
    result = run("insert", news, rows_file, "--on-conflict", "replace")
    assert (result.code, "0 documents inserted, 3 replaced, 0 skipped" in result.err) == (0, True)
    assert run("insert", news, rows_file, "--on-conflict", "merge").code == 2


def test_insert_interrupted_says_what_is_stored(run, monkeypatch):
    class Interrupting(io.BytesIO):
        def __next__(self):
            line = super().__next__()
            if json.loads(line)["id"] == 33:
                signal.raise_signal(signal.SIGINT)
            return line

    rows = [{"id": number, "text": f"{number} {SHIP}"} for number in range(50)]
    monkeypatch.setattr(io, "BytesIO", Interrupting)
    result = run("insert", "news", "-", "--batch-size", 10, "--workers", 1, stdin=json_lines(rows))
    assert result.code == 130
    assert result.err == "simindex: interrupted; at least the first 30 documents of the input are stored\n"
    assert stored("news") == list(range(30))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.jsonl", "missing.jsonl: no such file or folder"),
        (
            "a.doc",
            "a.doc: expected .jsonl, .csv (each also with .gz or .zst), .parquet, .txt, a folder, or -",
        ),
    ],
)
def test_insert_looks_at_the_inputs_before_it_creates_an_index(run, tmp_path, rows_file, name, message):
    (tmp_path / "a.doc").write_text(FOX)
    result = run("insert", "news", rows_file, name)
    assert result.code == 1
    assert result.err.startswith(f"simindex: {message}")
    assert not (tmp_path / "news").exists()


def test_insert_reports_what_is_no_index(run, tmp_path, rows_file):
    result = run("insert", rows_file, rows_file)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "expected a folder with an index, found a file" in result.err
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thing").write_text("x")
    result = run("insert", "other", rows_file)
    assert (result.code, result.err.count("\n")) == (1, 1)


def test_insert_reports_another_writer(run, news, rows_file):
    with simindex.open(news, "a"):
        result = run("insert", news, rows_file)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert result.err.startswith("simindex: ")


def test_insert_without_input_is_wrong_usage(run):
    assert run("insert", "news").code == 2
    assert run("insert", "news", "-", "--batch-size", 0).code == 2
    assert run("insert", "news", "-", "--workers", 0).code == 2


# ---- insert: creation options ----


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ([], Config()),
        (["--words", 5], Config(shingles=WordShingles(5))),
        (["--chars", 7], Config(shingles=CharShingles(7))),
        (["--num-perm", 64, "--seed", 9], Config(num_perm=64, seed=9)),
        (["--keep-shingles", 100], Config(keep_shingles=100)),
        (["--max-distance", 2], Config(simhash=SimHashConfig(2))),
        (["--no-simhash"], Config(simhash=None)),
        (["--no-minhash"], Config(num_perm=0)),
        (
            ["--normalize", "nfkc,whitespace"],
            Config(
                shingles=WordShingles(3, ("nfkc", "whitespace")),
                simhash=SimHashConfig(shingles=WordShingles(1, ("nfkc", "whitespace"))),
            ),
        ),
        (
            ["--chars", 4, "--normalize", "none"],
            Config(shingles=CharShingles(4, ()), simhash=SimHashConfig(shingles=WordShingles(1, ()))),
        ),
    ],
    ids=str,
)
def test_insert_creates_an_index_as_the_options_say(run, rows_file, options, config):
    assert run("insert", "news", rows_file, *options).code == 0
    assert config_of("news") == config
    assert run("insert", "news", rows_file, *options, "--on-conflict", "skip").code == 0


def test_insert_compares_only_the_options_that_were_given(run, rows_file):
    assert run("insert", "news", rows_file, "--words", 4, "--num-perm", 64, "--no-simhash").code == 0
    assert run("insert", "news", rows_file, "--num-perm", 64, "--on-conflict", "skip").code == 0
    assert run("insert", "news", rows_file, "--on-conflict", "skip").code == 0
    for options, difference in (
        (["--words", 3], "shingles: stored "),
        (["--num-perm", 128], "num_perm: stored 64, asked for 128)"),
        (["--max-distance", 3], "simhash: stored None, asked for "),
        (["--seed", 0], "seed: stored 1, asked for 0)"),
        (["--keep-shingles", 9, "--num-perm", 64], "keep_shingles: stored 0, asked for 9)"),
    ):
        result = run("insert", "news", rows_file, *options)
        assert result.code == 1
        assert f"the index has another configuration ({difference}" in result.err


def test_insert_reports_a_setting_out_of_range(run, rows_file, tmp_path):
    result = run("insert", "news", rows_file, "--num-perm", 100)
    assert (result.code, result.err) == (
        1,
        "simindex: num_perm: expected a multiple of 8 in 0..1024, found 100\n",
    )
    assert run("insert", "news", rows_file, "--normalize", "upper").code == 1
    assert not (tmp_path / "news").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--words", 3, "--chars", 9],
        ["--no-simhash", "--max-distance", 0],
        ["--no-minhash", "--num-perm", 64],
        ["--no-minhash", "--keep-shingles", 10],
        ["--no-minhash", "--no-simhash"],
    ],
    ids=str,
)
def test_insert_refuses_options_that_exclude_each_other(run, rows_file, options):
    result = run("insert", "news", rows_file, *options)
    assert result.code == 2
    assert "exclude each other" in result.err


# ---- query ----


def test_query_prints_a_plain_table_where_stdout_is_no_terminal(run, news):
    result = run("query", news, FOX, "--threshold", 0.5)
    assert (result.code, result.err) == (0, "")
    lines = [line.rsplit(maxsplit=2) for line in result.out.splitlines()]
    assert lines[0] == ["key", "similarity", "distance"]
    assert lines[1] == ["fox", "1.000", "0"]
    assert lines[2][0] == "fox too"


def test_query_table_is_never_cut_off(run):
    key = "k" * 500 + " [bold]\x1b[2J\n"
    assert run("insert", "news", "-", stdin=json_lines([{"id": key, "text": FOX}])).code == 0
    result = run("query", "news", FOX)
    assert "k" * 500 + " [bold]\\x1b[2J\\n" in result.out
    assert len(result.out.splitlines()) == 2


def matches_of(result):
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def test_query_json_prints_a_line_for_each_match(run, news):
    found = matches_of(run("query", news, FOX, "--threshold", 0.5, "--json"))
    assert found[0] == {"key": "fox", "similarity": 1.0, "distance": 0, "truncated": False}
    assert [match["key"] for match in found] == ["fox", "fox too"]
    assert 0.5 < found[1]["similarity"] < 1


def test_query_reads_a_file_or_stdin(run, news, tmp_path):
    (tmp_path / "page.txt").write_text(FOX)
    from_file = matches_of(run("query", news, "--file", "page.txt", "--json"))
    assert from_file == matches_of(run("query", news, "--file", "-", "--json", stdin=FOX.encode()))
    assert from_file == matches_of(run("query", news, FOX, "--json"))


def test_query_key_leaves_the_document_itself_out(run, news):
    for options in (["--threshold", 0.5], ["--nearest", 1], ["--nearest", 2]):
        keys = [match["key"] for match in matches_of(run("query", news, "--key", "fox", "--json", *options))]
        assert keys[:1] == ["fox too"]
        assert "fox" not in keys
    assert matches_of(run("query", news, "--key", "7", "--int", "--json")) == []
    result = run("query", news, "--key", "7")
    assert (result.code, result.err) == (1, "simindex: news: key '7' is not in the index\n")
    assert run("query", news, "--key", "seven", "--int").code == 2


def test_query_input_prints_a_set_for_each_row(run, news, rows_file):
    found = matches_of(run("query", news, "--input", rows_file, "--json"))
    assert [line["query"] for line in found] == ["fox", "fox too", 7]
    assert found[2] == {
        "query": 7,
        "matches": [{"key": 7, "similarity": 1.0, "distance": 0}],
        "truncated": False,
    }
    result = run("query", news, "--input", rows_file, "--threshold", 1)
    assert [line.split() for line in result.out.splitlines()] == [
        ["query", "key", "similarity", "distance"],
        ["fox", "fox", "1.000", "0"],
        ["fox", "too", "fox", "too", "1.000", "0"],
        ["7", "7", "1.000", "0"],
    ]


def test_query_input_tells_rows_without_a_match_and_takes_other_fields(run, news):
    rows = json_lines([{"n": 1, "body": "nothing like it"}, {"n": 2, "body": SHIP}])
    result = run("query", news, "--input", "-", "--id-field", "n", "--text-field", "body", stdin=rows)
    assert (result.code, result.err) == (0, "simindex: no match for 1 of 2 rows\n")


def test_query_input_ends_at_a_bad_row_after_the_rows_before_it(run, news):
    result = run("query", news, "--input", "-", "--json", stdin=json_lines(ROWS) + b"{}\n")
    assert result.code == 1
    assert len(result.out.splitlines()) == 3
    assert result.err == "simindex: stdin:4: expected a field 'text', found []\n"


def test_query_without_a_match_says_so(run, news):
    result = run("query", news, "nothing like it")
    assert (result.code, result.out, result.err) == (0, "", "simindex: no match\n")
    result = run("query", news, "nothing like it", "--json")
    assert (result.code, result.out, result.err) == (0, "", "simindex: no match\n")


def test_query_limit_nearest_and_recall(run, news):
    assert len(matches_of(run("query", news, FOX, "--threshold", 0.4, "--limit", 1, "--json"))) == 1
    options = ["--nearest", 2, "--recall", 0.9, "--json"]
    assert [match["key"] for match in matches_of(run("query", news, FOX, *options))] == ["fox", "fox too"]
    options = ["--threshold", 0.5, "--recall", 0.999, "--json"]
    assert len(matches_of(run("query", news, FOX, *options))) == 2
    assert run("query", news, FOX, "--recall", 2).code == 1


def test_query_exact_gives_the_true_similarity(run, news, rows_file):
    assert run("insert", "kept", rows_file, "--keep-shingles", 1000).code == 0
    found = matches_of(run("query", "kept", FOX, "--exact", "--threshold", 0.5, "--json"))
    shingles = [
        set(zip(words, words[1:], words[2:], strict=False)) for words in (FOX.split(), FOX_TOO.split())
    ]
    exact = len(shingles[0] & shingles[1]) / len(shingles[0] | shingles[1])
    assert found[1]["similarity"] == pytest.approx(exact)
    result = run("query", news, FOX, "--exact")
    assert (result.code, result.err) == (
        1,
        "simindex: news: --exact needs an index built with --keep-shingles\n",
    )


def test_query_simhash_finds_by_distance(run, news, rows_file):
    found = matches_of(run("query", news, FOX, "--simhash", "--max-distance", 0, "--json"))
    assert [(match["key"], match["distance"]) for match in found] == [("fox", 0)]
    assert (
        matches_of(run("query", news, "--key", "fox", "--simhash", "--limit", 1, "--max-distance", 0)) == []
    )
    result = run("query", news, FOX, "--simhash", "--max-distance", 4)
    assert (result.code, "max_distance: expected 0..3" in result.err) == (1, True)
    assert run("insert", "minhash", rows_file, "--no-simhash").code == 0
    result = run("query", "minhash", FOX, "--simhash")
    assert (result.code, "--simhash needs an index" in result.err) == (1, True)
    assert matches_of(run("query", "minhash", FOX, "--json"))[0]["distance"] is None
    assert run("insert", "simhash", rows_file, "--no-minhash").code == 0
    assert matches_of(run("query", "simhash", FOX, "--simhash", "--json"))[0]["similarity"] is None
    assert run("query", "simhash", FOX, "--simhash", "--max-distance", 0).out.split()[3:] == ["fox", "-", "0"]
    result = run("query", "simhash", FOX)
    assert (result.code, "it can be queried with --simhash only" in result.err) == (1, True)


def test_query_tells_that_it_was_truncated(run, news, rows_file):
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
        ["text", "--nearest", 3, "--threshold", 0.5],
        ["text", "--nearest", 3, "--limit", 5],
        ["text", "--nearest", 3, "--exact"],
        ["text", "--simhash", "--nearest", 3],
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
def test_query_refuses_wrong_combinations(run, news, arguments):
    result = run("query", news, *arguments)
    assert (result.code, result.out) == (2, "")
    assert "Usage: simindex query" in result.err


def test_query_reports_a_missing_index_file_or_value(run, news, tmp_path):
    result = run("query", "nowhere", FOX)
    assert (result.code, result.err) == (1, "simindex: nowhere: no simindex index\n")
    assert not (tmp_path / "nowhere").exists()
    result = run("query", news, "--file", "page.txt")
    assert (result.code, result.err) == (1, "simindex: page.txt: No such file or directory\n")
    result = run("query", news, FOX, "--threshold", 1.5)
    assert (result.code, result.err) == (1, "simindex: threshold: expected a number in (0, 1], found 1.5\n")


def test_query_json_gives_bytes_keys_in_base64(run):
    with simindex.open("bytes") as index:
        index.insert(b"\x00\xff", FOX)
    assert matches_of(run("query", "bytes", FOX, "--json"))[0]["key"] == {"bytes": "AP8="}
    assert "b'\\x00\\xff'" in run("query", "bytes", FOX).out


# ---- remove ----


def test_remove_takes_keys_away(run, news):
    result = run("remove", news, "fox", "fox too", "fox")
    assert (result.code, result.err) == (0, "2 documents removed, 0 keys missing\n")
    assert stored(news) == [7]


def test_remove_int_takes_integers(run, news):
    assert run("remove", news, "7").code == 1
    assert run("remove", news, "7", "--int").code == 0
    assert stored(news) == ["fox", "fox too"]
    assert run("remove", news, "seven", "--int").code == 2


def test_remove_reads_keys_from_a_file_or_stdin(run, news, tmp_path):
    (tmp_path / "keys").write_bytes(b"fox\r\n\nfox too\n")
    assert run("remove", news, "--input", "keys").code == 0
    assert run("remove", news, "--int", "--input", "-", stdin=b"7\n").code == 0
    assert stored(news) == []
    result = run("remove", news, "--int", "--input", "keys")
    assert (result.code, result.err) == (1, "simindex: keys:1: expected an integer, found 'fox'\n")


def test_remove_reports_missing_keys_and_removes_the_others(run, news):
    result = run("remove", news, "wolf", "fox")
    assert result.code == 1
    assert result.err.splitlines() == [
        "simindex: news: key 'wolf' is not in the index",
        "1 document removed, 1 key missing",
    ]
    assert stored(news) == ["fox too", 7]
    result = run("remove", news, *range(25), "--int", "--json")
    assert (result.code, json.loads(result.out)["removed"], len(json.loads(result.out)["missing"])) == (
        1,
        1,
        24,
    )
    assert "simindex: ... and 4 more (24 missing keys in all)" in result.err


def test_remove_reports_a_missing_index_and_wrong_usage(run, tmp_path, news):
    result = run("remove", "nowhere", "a")
    assert (result.code, result.err) == (1, "simindex: nowhere: no simindex index\n")
    assert not (tmp_path / "nowhere").exists()
    assert run("remove", news).code == 2


# ---- stats ----


def test_stats_shows_what_the_index_holds_and_gives(run, news):
    result = run("stats", news)
    assert (result.code, result.err) == (0, "")
    for part in ("documents", "segments", "bytes in use/document", "permutation tables", "3 words"):
        assert part in result.out
    recalls = [line.split()[0] for line in result.out.splitlines() if line.startswith("0.")]
    assert recalls == ["0.5", "0.6", "0.7", "0.8", "0.9"]


def test_stats_json_is_one_object(run, news):
    stats = json.loads(run("stats", news, "--json").out)
    assert stats["documents"] == 3
    assert stats["config"]["shingles"] == {
        "kind": "words",
        "size": 3,
        "normalize": ["casefold", "whitespace"],
    }
    assert set(stats["recall"]) == {"0.5", "0.6", "0.7", "0.8", "0.9"}
    assert stats["table_bytes"]["bands"] > 0


@pytest.mark.parametrize("option", ["--no-minhash", "--no-simhash"])
def test_stats_shows_an_index_of_one_method(run, rows_file, option):
    assert run("insert", "news", rows_file, option).code == 0
    result = run("stats", "news")
    assert result.code == 0
    assert ("threshold" in result.out) == (option == "--no-simhash")
    assert ("SimHash search" in result.out) == (option == "--no-minhash")


def test_stats_reports_a_missing_index(run):
    result = run("stats", "nowhere", "--json")
    assert (result.code, result.out, result.err) == (1, "", "simindex: nowhere: no simindex index\n")


# ---- curve ----


def test_curve_shows_the_rows_of_a_threshold(run):
    lines = run("curve").out.splitlines()
    assert lines[0].startswith("similarity  found with 16 bands, 7 rows")
    assert len(lines) == 22
    options = ["--num-perm", 256, "--threshold", 0.5, "--recall", 0.9]
    assert f"32 bands, {simindex.tuning.rows_for(0.5, 32, 0.9)} rows" in run("curve", *options).out


def test_curve_json_follows_the_formula(run):
    lines = [json.loads(line) for line in run("curve", "--bands", 20, "--rows", 5, "--json").out.splitlines()]
    assert lines[16] == {
        "similarity": 0.8,
        "probability": simindex.tuning.candidate_probability(0.8, 20, 5),
        "bands": 20,
        "rows": 5,
    }


def test_curve_png_needs_matplotlib(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("curve", "--png", "curve.png")
    assert (result.code, result.out) == (1, "")
    assert result.err == "simindex: --png needs matplotlib; install it with: pip install matplotlib\n"


@pytest.mark.skipif(not has("matplotlib"), reason="matplotlib is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_curve_png_is_a_picture(run, tmp_path):
    assert run("curve", "--png", "curve.png").code == 0
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "options",
    [
        ["--rows", 3, "--threshold", 0.5],
        ["--rows", 3, "--recall", 0.5],
        ["--bands", 3, "--num-perm", 64],
        ["--num-perm", 100],
        ["--rows", 0],
    ],
    ids=str,
)
def test_curve_refuses_wrong_combinations(run, options):
    assert run("curve", *options).code == 2


def test_curve_reports_a_threshold_out_of_range(run):
    result = run("curve", "--threshold", 0)
    assert (result.code, result.err.startswith("simindex: threshold: ")) == (1, True)


# ---- the process ----


def test_main_runs_the_arguments_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["anything", "--version"])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"simindex {simindex.__version__}\n"


def test_main_knows_its_commands_only(run):
    result = run("--help")
    assert result.code == 0
    for command in ("insert", "query", "remove", "stats", "curve"):
        assert f"\n  {command} " in result.out
    assert run("frobnicate").code == 2


def test_cli_without_its_extra_says_what_to_install():
    for name in ("typer", "rich", "orjson"):
        code = f"import sys; sys.modules[{name!r}] = None; import simindex.cli"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        message = f"simindex: the command line needs {name}; install it with: pip install 'simindex[cli]'"
        assert done.stderr == message + "\n"


def test_cli_import_leaves_rich_and_the_readers_alone():
    lazy = {"rich", "orjson", "zstandard", "pyarrow", "matplotlib"}
    code = f"import sys, simindex.cli; print(*{lazy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_process_ends_quietly_when_its_reader_has_gone(tmp_path):
    rows = [{"id": number, "text": FOX} for number in range(5_000)]
    (tmp_path / "many.jsonl").write_bytes(json_lines(rows))
    assert process("insert", "many", "many.jsonl", cwd=tmp_path).returncode == 0
    for options in ([], ["--json"]):
        command = [sys.executable, "-m", "simindex.cli", "query", "many", FOX, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as child:
            child.stdout.read(10)
            child.stdout.close()
            assert child.stderr.read() == b""
        assert child.returncode == 0


def test_process_shows_what_its_encoding_lacks(tmp_path):
    row = json_lines([{"id": "Ж", "text": FOX}])
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    assert process("insert", "news", "-", input=row, cwd=tmp_path).returncode == 0
    done = process("query", "news", FOX, cwd=tmp_path, env=environment)
    assert (done.returncode, b"\\u0416" in done.stdout) == (0, True)
    done = process("query", "news", FOX, "--json", cwd=tmp_path, env=environment)
    assert json.loads(done.stdout)["key"] == "Ж"


def on_terminal(arguments, cwd, stream):
    """Run a process with one of its streams on a pseudo-terminal; returns what it wrote there."""
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "simindex.cli", *arguments]
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: theirs}
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
        with subprocess.Popen(
            command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, **streams
        ) as child:
            os.close(theirs)
            written = b""
            try:
                while chunk := os.read(ours, 65_536):
                    written += chunk
            except OSError:  # how Linux tells that the other side is closed
                pass
        assert child.returncode == 0
    finally:
        os.close(ours)
    return written.decode()


def test_insert_shows_a_progress_bar_on_a_terminal_only(tmp_path, rows_file):
    shown = on_terminal(["insert", "news", rows_file, "--batch-size", "1"], tmp_path, "stderr")
    for part in ("3 documents", "documents/s", "━", "remaining", "3 documents inserted"):
        assert part in shown
    done = process("insert", "other", rows_file, cwd=tmp_path)
    assert done.stderr.count(b"\n") == 1
    assert b"\x1b" not in done.stderr


def test_query_table_on_a_terminal_shows_keys_as_they_are(tmp_path):
    row = json_lines([{"id": "[bold]a[/bold]", "text": FOX}])
    assert process("insert", "news", "-", input=row, cwd=tmp_path).returncode == 0
    assert "[bold]a[/bold]" in on_terminal(["query", "news", FOX], tmp_path, "stdout")


def test_output_escapes_keys_and_aligns_columns(capsys):
    assert shown_key("a\tb") == "a\\tb"
    assert shown_key(-5) == "-5"
    print_table(("name", "n"), [("a", "10"), ("long name", "7")])
    assert capsys.readouterr().out == "name        n\na          10\nlong name   7\n"


def test_output_json_escapes_lone_surrogates(capsysbinary):
    print_json({"key": "\udcff"})
    assert capsysbinary.readouterr().out == b'{"key": "\\udcff"}\n'


def test_compact_makes_one_segment_and_says_what_it_gave_back(tmp_path):
    index = tmp_path / "i"
    with simindex.open(index, layout=simindex.Layout(2, 8, 256)) as stored:
        stored.insert_many(((i, f"document number {i} of some") for i in range(100)), batch_size=7)
    done = subprocess.run(
        [sys.executable, "-m", "simindex.cli", "compact", str(index)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    assert " bytes before, " in done.stderr
    with simindex.open(index, "r") as stored:
        assert stored.stats().segments == 1
        assert len(stored) == 100


def test_compact_of_nothing_creates_nothing(tmp_path):
    command = [sys.executable, "-m", "simindex.cli", "compact", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("simindex: ")
    assert not (tmp_path / "none").exists()
