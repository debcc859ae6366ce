"""The documents of several indexes into one, by their sketches."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.commands import Run
from support.faults import set_bound
from support.indexes import TINY, content_of, problems_of, texts

import simindex
from simindex import (
    Config,
    ConfigMismatchError,
    FormatError,
    KeyExistsError,
    Layout,
    SimHashConfig,
    SimIndexError,
    Sketch,
)

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
        assert set(both) == set(a) | set(b)
        for key in both:
            source = (b if key in b and (kept or key not in a) else a)[key]
            assert both[key] == source  # its times as well
        assert both.query(texts(65, 1)[0][1] + " 1", exact=True)[0].key == 65
    assert not problems_of(tmp_path / "both")
    assert [content_of(part) for part in parts] == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"a", "b", "both"}


def test_key_in_two_sources_is_an_error_and_makes_nothing(tmp_path: Path, parts: list[Path]) -> None:
    with pytest.raises(KeyExistsError, match="30"):
        simindex.merge(parts, tmp_path / "both")
    assert {entry.name for entry in tmp_path.iterdir()} == {"a", "b"}


def test_source_that_changes_meanwhile_is_one_state_or_an_error(
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

    with pytest.raises(SimIndexError, match="found a later one"):
        simindex.merge(parts[:1], tmp_path / "two", progress=compact)
    assert {entry.name for entry in tmp_path.iterdir()} == {"a", "b", "one"}


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


CONFIGS = {
    "rows": Config(num_perm=32),
    "both": Config(num_perm=16, simhash=SimHashConfig(max_distance=3)),
    "kept": Config(num_perm=32, keep_shingles=8),
    "prints": Config(num_perm=0, simhash=SimHashConfig(max_distance=3)),
}

WORDS = [f"word{n}" for n in range(7)]

few_words = st.lists(st.sampled_from(WORDS), min_size=0, max_size=8).map(
    " ".join
)  # so small that copies come
keys = st.integers(0, 12) | st.sampled_from(["a", "b", b"a"])
steps = st.one_of(
    st.tuples(
        st.just("insert"), st.lists(st.tuples(keys, few_words, st.none() | st.text(max_size=3)), max_size=9)
    ),
    st.tuples(st.just("remove"), st.lists(keys, max_size=4)),
    st.tuples(st.just("touch"), st.lists(keys, max_size=3)),
)
sources = st.lists(st.lists(steps, max_size=6), min_size=1, max_size=3)


def made(path: Path, config: Config, layout: Layout, changes: list[tuple[str, list[Any]]]) -> None:
    with simindex.open(path, "x", config, layout=layout) as index:
        for kind, what in changes:
            if kind == "insert":
                index.insert_many(what, on_conflict="replace")
            elif kind == "remove":
                for key in what:
                    if key in index:
                        index.remove(key)
            else:
                index.touch(*what)


def documents_of_all(paths: list[Path], on_conflict: str) -> dict[Any, Any] | None:
    """What a merge is to have, in its order; ``None`` where it is an error."""
    expected: dict[Any, Any] = {}
    for path in paths:
        with simindex.open(path, "r") as index:
            for key, record in index.items():
                if key in expected and on_conflict != "replace":
                    if on_conflict == "error":
                        return None
                    continue
                expected.pop(key, None)
                expected[key] = record
    return expected


def expired(path: Path) -> Iterator[set[Any]]:
    """The keys that are left as one time after the other passes."""
    with simindex.open(path) as index:
        for limit in sorted({record.seen_at for record in index.values()}):
            index.expire(limit)
            yield set(index)


@pytest.mark.parametrize("name", CONFIGS)
def test_merge_has_every_document_as_its_source_has_it(name: str) -> None:
    @settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
    @given(
        sources,
        st.sampled_from([TINY, Layout(), Layout(2, 339, 400)]),
        st.sampled_from(["skip", "replace", "error"]),
        st.sampled_from([3, 20_000]),
    )
    def compare(changes: list[Any], layout: Layout, on_conflict: Any, batch: int) -> None:
        with tempfile.TemporaryDirectory() as name_of_root, pytest.MonkeyPatch.context() as monkeypatch:
            root = Path(name_of_root)
            paths = [root / f"source {at}" for at in range(len(changes))]
            for path, of_source in zip(paths, changes, strict=True):
                made(path, CONFIGS[name], layout, of_source)
            before = [(path / "data.mdb").read_bytes() for path in paths]
            expected, target = documents_of_all(paths, on_conflict), root / "all"
            set_bound(monkeypatch, "documents of a commit of a new index", batch)
            if expected is None:
                with pytest.raises(KeyExistsError):
                    simindex.merge(paths, target, on_conflict)
                assert not target.exists()
                return
            simindex.merge(paths, target, on_conflict)
            assert [(path / "data.mdb").read_bytes() for path in paths] == before
            assert not problems_of(target)
            with simindex.open(target, "r") as index:
                assert list(index.items()) == list(expected.items())
            for left in expired(target):
                times = {record.seen_at for key, record in expected.items() if key in left}
                gone = {record.seen_at for key, record in expected.items() if key not in left}
                assert not times or not gone or max(gone) < min(times)

    compare()
