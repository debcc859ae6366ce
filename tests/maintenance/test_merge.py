"""The documents of several indexes into one, by their sketches."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run
from support.faults import around, set_bound
from support.indexes import TINY, content_of, problems_of, texts

import simindex
from simindex import Config, ConfigMismatchError, FormatError, Sketch

KEPT = Config(num_perm=64, keep_shingles=20, seed=3)


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Two indexes; the keys 30 to 39 are in both, with other texts."""
    paths = [tmp_path / "a", tmp_path / "b"]
    for number, path in enumerate(paths):
        with simindex.open(path, config=KEPT, layout=TINY) as index:
            index.insert_many((key, f"{text} {number}", [number]) for key, text, _ in texts(30 * number, 40))
            index.remove(3 + 50 * number)
    return paths


@pytest.mark.parametrize(
    ("on_conflict", "counts", "kept"), [("skip", (68, 0, 10), 0), ("replace", (68, 10, 0), 1)]
)
def test_merged_index_has_the_documents_of_all(
    tmp_path: Path, parts: list[Path], on_conflict: str, counts: tuple[int, int, int], kept: int
) -> None:
    before = [content_of(part) for part in parts]
    report = simindex.merge(parts, tmp_path / "both", on_conflict)  # type: ignore[arg-type]
    assert tuple(report) == counts
    with (
        simindex.open(tmp_path / "both", "r") as both,
        simindex.open(parts[0], "r") as a,
        simindex.open(parts[1], "r") as b,
    ):
        assert both.config == KEPT
        twice = {*a} & {*b}
        assert list(both) == [key for key in a if not kept or key not in twice] + [
            key for key in b if kept or key not in twice
        ]
        for key in both:
            source = (b if key in b and (kept or key not in a) else a)[key]
            assert both[key] == source  # its times as well
        assert both.query(texts(65, 1)[0][1] + " 1", exact=True)[0].key == 65
    assert not problems_of(tmp_path / "both")
    assert [content_of(part) for part in parts] == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"a", "b", "both"}


@pytest.mark.parametrize("work", ["merge", "resketch", "repair"])
@pytest.mark.parametrize(("of_files", "of_folder"), [(0o600, 0o700), (0o640, 0o750), (0o644, 0o755)])
def test_index_made_of_others_has_the_rights_of_the_strictest_from_its_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str, of_files: int, of_folder: int
) -> None:
    a, b, made = tmp_path / "a", tmp_path / "b", tmp_path / "made"
    for path, permissions in ((a, of_files), (b, 0o644)):
        with simindex.open(path, permissions=permissions) as index:
            index.insert(path.name, "a text of a few words")
    seen = set[tuple[str, int]]()

    def looked_at(path: Path) -> set[tuple[str, int]]:
        found = {(entry.name, stat.S_IMODE(entry.stat().st_mode)) for entry in path.iterdir()}
        return found | {("folder", stat.S_IMODE(path.stat().st_mode))}

    def look(commit: Callable[..., Any], store: Any, *arguments: Any) -> Any:
        """Before each commit."""
        seen.update(looked_at(Path(store.path)))
        return commit(store, *arguments)

    around(monkeypatch, "commit", look)
    around(monkeypatch, "commit the first state", look)
    if work == "merge":
        simindex.merge([b, a], made)
    elif work == "resketch":
        simindex.resketch(a, made, num_perm=64)
    else:
        simindex.repair(a, made)  # in a process of its own
    seen |= looked_at(made)
    assert {name for name, _ in seen} >= {"folder", "data.mdb", "header", "writer.lock"}
    assert seen == {(name, of_folder if name == "folder" else of_files) for name, _ in seen}
    assert problems_of(made) == []


def test_source_that_changes_meanwhile_is_one_state(
    tmp_path: Path, parts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "documents of a commit of a new index", 8)

    def change(_: int) -> None:
        with simindex.open(parts[0]) as index:
            index.insert(f"new {len(index)}", "a text that came meanwhile")

    assert simindex.merge(parts[:1], tmp_path / "one", progress=change).inserted == 39
    set_bound(monkeypatch, "seconds between looks for a new file", 0)

    def compact(_: int) -> None:
        with simindex.open(parts[0]) as index:
            index.insert(f"newer {len(index)}", "a text that came meanwhile")
            index.compact()

    with simindex.open(parts[0], "r") as index:
        before = len(index)
    assert simindex.merge(parts[:1], tmp_path / "two", progress=compact).inserted == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"a", "b", "one", "two"}


def test_indexes_of_other_settings_are_refused_by_name(tmp_path: Path, parts: list[Path]) -> None:
    simindex.open(tmp_path / "c", config=Config(num_perm=64, keep_shingles=20, seed=4)).close()
    with pytest.raises(ConfigMismatchError, match="seed: 3 and 4") as caught:
        simindex.merge([parts[0], tmp_path / "c"], tmp_path / "both")
    assert caught.value.fields == {"seed": (3, 4)}
    with simindex.open(tmp_path / "rows", config=KEPT) as index:
        index.insert("row", Sketch.from_rows(range(64)))
    with pytest.raises(ConfigMismatchError):
        simindex.merge([parts[0], tmp_path / "rows"], tmp_path / "both")
    assert simindex.merge([tmp_path / "rows"], tmp_path / "alone").inserted == 1
    assert not (tmp_path / "both").exists()


def test_destination_and_sources_are_checked(tmp_path: Path, parts: list[Path]) -> None:
    with pytest.raises(FormatError, match="expected an empty folder or nothing"):
        simindex.merge([parts[0]], parts[1])
    with pytest.raises(FileNotFoundError):
        simindex.merge([parts[0], tmp_path / "none"], tmp_path / "both")
    with pytest.raises(ValueError, match="expected one index or more"):
        simindex.merge([], tmp_path / "both")
    with pytest.raises(TypeError, match="expected several folders, found one"):
        simindex.merge(str(parts[0]), tmp_path / "both")


def test_merge_command_says_what_it_did(run: Run, tmp_path: Path, parts: list[Path]) -> None:
    done = run("merge", *parts, tmp_path / "both", "--on-conflict", "skip", "--json")
    assert json.loads(done.out) == {"inserted": 68, "replaced": 0, "skipped": 10}
    refused = run("merge", *parts, tmp_path / "more")
    assert refused.code == 1
    assert "--on-conflict skip" in refused.err
    simindex.open(tmp_path / "other", "x", simindex.Config(seed="random")).close()
    other = run("merge", parts[0], tmp_path / "other", tmp_path / "more")
    assert other.code == 1
    assert "expected indexes of one configuration" in other.err
    assert "leave these options out" not in other.err
