"""What `dedup` may write to: no file of the job is another one of its files, by whatever name."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run
from support.dedup_settings import dedup_arguments
from support.texts import FOX, SHIP, json_lines

import simindex
from simindex.corpus import DedupSettings, deduplicate


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_bytes(json_lines([{"id": 1, "text": FOX}, {"id": 2, "text": FOX}]))
    with simindex.open("seen", "x") as index:
        index.insert(1, SHIP)
    return tmp_path


def link(source: str, name: str) -> None:
    os.symlink(source, name)


def nothing() -> None:
    """Prepare nothing."""


CASES: list[tuple[Callable[[], object], dict[str, str]]] = [
    (nothing, {"sink": "x.jsonl", "removed": "x.jsonl"}),
    (nothing, {"sink": "x.jsonl", "removed": "./seen/../x.jsonl"}),
    (lambda: link("x.jsonl", "y.jsonl"), {"sink": "x.jsonl", "removed": "y.jsonl"}),
    (lambda: link(".", "here"), {"sink": "x.jsonl", "removed": "here/x.jsonl"}),
    (nothing, {"sink": "x.jsonl", "removed": ".x.jsonl.partial"}),
    (nothing, {"sink": "x.parquet", "removed": ".x.parquet.partial.parts"}),
    (nothing, {"sink": "a.jsonl"}),
    (nothing, {"sink": "x.jsonl", "removed": "a.jsonl"}),
    (lambda: os.link("a.jsonl", "b.jsonl"), {"sink": "b.jsonl"}),
    (lambda: link("a.jsonl", "b.jsonl"), {"sink": "x.jsonl", "removed": "b.jsonl"}),
    (nothing, {"sink": "x.jsonl", "removed": "seen/header"}),
    (nothing, {"sink": "x.jsonl", "removed": "seen/header", "into": "seen"}),
    (nothing, {"sink": "x.jsonl", "removed": "seen/data.mdb-lock", "against": "seen"}),
    (nothing, {"sink": "seen/x.jsonl", "into": "seen"}),
    (lambda: os.link("seen/data.mdb", "data"), {"sink": "x.jsonl", "removed": "data", "into": "seen"}),
    (lambda: link("seen/data.mdb", "data"), {"sink": "x.jsonl", "removed": "data"}),
    (nothing, {"sink": "x.jsonl", "removed": "seen"}),
    (lambda: os.mkfifo("x"), {"sink": "x.jsonl", "removed": "x"}),
    (lambda: link("/dev/null", "y"), {"sink": "x.jsonl", "removed": "y"}),
    (nothing, {"sink": "x.jsonl", "into": "x.jsonl"}),
    (nothing, {"sink": "x.jsonl", "into": "x.jsonl.dedup/new"}),
    (nothing, {"sink": "x.jsonl", "removed": "x.jsonl.dedup/journal.json"}),
    (nothing, {"sink": "x.jsonl", "removed": "x.jsonl.dedup"}),
    (nothing, {"sink": "removed.jsonl", "removed": "removed.jsonl", "mode": "annotate"}),
]


def name_of(case: object) -> str:
    return "-".join(case.values()).replace("/", "+") if isinstance(case, dict) else ""


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "data.mdb-lock"
    }


@pytest.mark.parametrize(("prepare", "job"), CASES, ids=name_of)
@pytest.mark.parametrize("source", ["a.jsonl", "-"])
def test_output_that_is_another_file_of_the_job_is_wrong_usage(
    run: Run, rows: Path, prepare: Callable[[], object], job: dict[str, Any], source: str
) -> None:
    prepare()
    before = content(rows)
    options = [text for name, value in job.items() if name != "sink" for text in (f"--{name}", value)]
    if source == "a.jsonl":
        for force in (False, True):
            with pytest.raises(ValueError, match=r"^(sink|removed|into|against): expected "):
                deduplicate(source, **dedup_arguments(**job, force=force))
    elif {"a.jsonl", "b.jsonl"} & set(job.values()):
        return  # standard input has no name
    if "removed" in job:
        return  # the command has its report in the journal
    for words in ([], ["--force"]):
        result = run("dedup", source, "-o", job["sink"], *options, *words, stdin=Path("a.jsonl").read_bytes())
        assert result.code == 2, result.err
        assert "expected" in result.err
    assert content(rows) == before


def test_journal_of_a_remote_output_in_an_input_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("some words")
    with pytest.raises(ValueError, match=r"^sources: expected inputs without the journal x\.jsonl\.dedup"):
        deduplicate(tmp_path, "memory://crawl/x.jsonl")
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt"}


@pytest.mark.usefixtures("rows")
def test_input_in_the_journal_is_not_removed_with_it(run: Run) -> None:
    deduplicate("a.jsonl", "x.jsonl")
    inside = Path("x.jsonl.dedup/removed.jsonl")
    before = inside.read_bytes()
    result = run("dedup", inside, "-o", "x.jsonl", "--text-field", "id", "--force")
    assert (result.code, inside.read_bytes()) == (1, before)
    assert "expected inputs outside of the journal x.jsonl.dedup" in result.err
    with pytest.raises(ValueError, match="sources: expected inputs outside of the journal"):
        deduplicate(inside, "x.jsonl", force=True)


@pytest.mark.usefixtures("rows")
def test_report_of_removed_rows_may_be_named_where_it_is_anyway() -> None:
    deduplicate("a.jsonl", "x.jsonl", settings=DedupSettings(removed="x.jsonl.dedup/removed.jsonl"))
    assert Path("x.jsonl.dedup/removed.jsonl").read_bytes().count(b"\n") == 1


@pytest.mark.usefixtures("rows")
def test_output_in_a_folder_that_is_read_is_refused(run: Run) -> None:
    Path("texts").mkdir()
    Path("texts/a.txt").write_text(FOX)
    result = run("dedup", "texts", "-o", "texts/x.jsonl")
    assert result.code == 2
    assert "expected a file outside of the input texts, found texts/x.jsonl" in result.err
    assert os.listdir("texts") == ["a.txt"]


@pytest.mark.parametrize("name", ["x.parquet", "x.csv"])
@pytest.mark.usefixtures("rows")
def test_row_that_does_not_fit_the_output_is_not_said_to_go_on(run: Run, name: str) -> None:
    other: dict[str, object] = {"id": 2, "text": SHIP, "more": 1}
    taken = "rows of any columns"
    if name == "x.parquet":
        other, taken = {"id": "two", "text": SHIP}, "ids of any type"
    Path("a.jsonl").write_bytes(json_lines([{"id": 1, "text": FOX}, other]))
    for _ in range(2):
        result = run("dedup", "a.jsonl", "-o", name)
        assert result.code == 1
        assert result.err.endswith(f"an output of .jsonl takes {taken}\n")
    assert not Path(name).exists()
    with pytest.raises(
        simindex.SimIndexError, match=rf"a\.jsonl:\d: expected .* an output of \.jsonl takes {taken}"
    ):
        deduplicate("a.jsonl", f"other-{name}")
