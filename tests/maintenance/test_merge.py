"""The documents of several indexes into one: by their sketches, or by their segments."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.commands import process
from support.indexes import TINY, content_of, texts

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
from simindex.maintenance import merge

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
    assert simindex.check(tmp_path / "both").ok
    assert [content_of(part) for part in parts] == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"a", "b", "both"}


def test_source_that_is_copied_in_several_steps_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "FEW", 10)
    monkeypatch.setattr(merge, "BATCH", 1)
    paths = [tmp_path / "a", tmp_path / "b"]
    for number, path in enumerate(paths):
        with simindex.open(path, config=KEPT) as index:
            index.insert_many(texts(600 * number, 600))
            index.remove_many(range(600 * number, 600 * number + 300))
    assert simindex.merge(paths, tmp_path / "both").inserted == 600
    with simindex.open(tmp_path / "both", "r") as both:
        assert list(both) == [*range(300, 600), *range(900, 1_200)]
    assert simindex.check(tmp_path / "both").ok


def test_key_in_two_sources_is_an_error_and_makes_nothing(tmp_path: Path, parts: list[Path]) -> None:
    with pytest.raises(KeyExistsError, match="30"):
        simindex.merge(parts, tmp_path / "both")
    assert {entry.name for entry in tmp_path.iterdir()} == {"a", "b"}


def test_merged_documents_expire_as_they_would_have(tmp_path: Path, parts: list[Path]) -> None:
    with simindex.open(parts[0]) as index:
        index.touch(5, 6)
    simindex.merge(parts, tmp_path / "both", "skip")
    with simindex.open(tmp_path / "both") as both:
        times = {key: record.seen_at for key, record in both.items()}
        assert len(set(times.values())) == 3
        for limit in sorted(set(times.values())):
            both.expire(limit)
            assert set(both) == {key for key, time in times.items() if time >= limit}
        assert set(both) == {5, 6}


def test_merged_documents_that_were_touched_expire_step_by_step(tmp_path: Path, parts: list[Path]) -> None:
    with simindex.open(parts[0]) as index:
        index.touch(5)
        index.insert("young", "a text that came later")
        young = index["young"].inserted_at
    simindex.merge(parts[:1], tmp_path / "one")
    with simindex.open(tmp_path / "one") as one:
        one.expire(one[5].seen_at)
        assert set(one) == {5, "young"}
        one.expire(young)
        assert set(one) == {"young"}


def test_source_that_changes_meanwhile_is_one_state_or_an_error(
    tmp_path: Path, parts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simindex.maintenance.build_index.BATCH", 8)
    monkeypatch.setattr("simindex.maintenance.build_index._PART", 8)

    def change(_: int) -> None:
        with simindex.open(parts[0]) as index:
            index.insert(f"new {len(index)}", "a text that came meanwhile")

    assert simindex.merge(parts[:1], tmp_path / "one", progress=change).inserted == 39
    monkeypatch.setattr("simindex.storage.store._LOOK_AGAIN_SECONDS", 0)

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


def test_merge_command_says_what_it_did(tmp_path: Path, parts: list[Path]) -> None:
    done = process("merge", *parts, tmp_path / "both", "--on-conflict", "skip", "--json", text=True)
    assert json.loads(done.stdout) == {"inserted": 68, "replaced": 0, "skipped": 10}
    refused = process("merge", *parts, tmp_path / "more", text=True)
    assert refused.returncode == 1
    assert "--on-conflict skip" in refused.stderr
    simindex.open(tmp_path / "other", "x", simindex.Config(seed="random")).close()
    other = process("merge", parts[0], tmp_path / "other", tmp_path / "more", text=True)
    assert other.returncode == 1
    assert "expected indexes of one configuration" in other.stderr
    assert "leave these options out" not in other.stderr


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


def state(path: Path, questions: list[str]) -> dict[str, Any]:
    """What an index answers, in no order of what is equally good."""
    with simindex.open(path, "r") as index:
        answers = []
        ask = index.query if index.config.num_perm else index.query_simhash
        for question in questions:
            for limit in (1, 3, None):
                found = ask(question, limit=limit)
                figures = [(match.similarity, match.distance) for match in found]
                named = sorted((repr(match),) for match in found) if limit is None else None
                answers.append((sorted(figures, key=repr), named))
        return {"records": dict(index.items()), "order": list(index), "answers": answers}


def merged(
    paths: list[Path], target: Path, on_conflict: Any, few: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, ...] | str:
    monkeypatch.setattr(merge, "FEW", few)
    try:
        return tuple(simindex.merge(paths, target, on_conflict))
    except KeyExistsError as exc:
        assert not target.exists()
        return repr(exc.args)


def expired(path: Path) -> Iterator[set[Any]]:
    """The keys that are left as one time after the other passes."""
    with simindex.open(path) as index:
        for limit in sorted({record.seen_at for record in index.values()}):
            index.expire(limit)
            yield set(index)


@pytest.mark.parametrize("name", CONFIGS)
def test_merge_by_segments_gives_what_one_from_sketches_gives(name: str) -> None:
    @settings(max_examples=2, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
    @given(
        sources,
        st.sampled_from([TINY, Layout(), Layout(2, 339, 400)]),
        st.lists(few_words, max_size=2),
        st.sampled_from(["skip", "replace", "error"]),
    )
    def compare(changes: list[Any], layout: Layout, questions: list[str], on_conflict: str) -> None:
        with tempfile.TemporaryDirectory() as name_of_root, pytest.MonkeyPatch.context() as monkeypatch:
            root = Path(name_of_root)
            paths = [root / f"source {at}" for at in range(len(changes))]
            for path, of_source in zip(paths, changes, strict=True):
                made(path, CONFIGS[name], layout, of_source)
            before = [(path / "data.mdb").read_bytes() for path in paths]
            contents = [content_of(path) for path in paths]
            slow = merged(paths, root / "slow", on_conflict, 2**62, monkeypatch)
            fast = merged(paths, root / "fast", on_conflict, 0, monkeypatch)
            assert fast == slow
            assert [(path / "data.mdb").read_bytes() for path in paths] == before
            assert [content_of(path) for path in paths] == contents
            if isinstance(fast, str):
                return
            assert simindex.check(root / "fast").ok
            assert state(root / "fast", questions + WORDS[:2]) == state(root / "slow", questions + WORDS[:2])
            assert list(expired(root / "fast")) == list(expired(root / "slow"))

    compare()
