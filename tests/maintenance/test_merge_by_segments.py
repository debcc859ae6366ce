"""A merge that takes segments over as they are gives the index that one from stored sketches gives."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.indexes import TINY, content_of

import simindex
from simindex import Config, KeyExistsError, Layout, SimHashConfig
from simindex.maintenance import merge

CONFIGS = {
    "rows": Config(num_perm=32),
    "both": Config(num_perm=16, simhash=SimHashConfig(max_distance=3)),
    "kept": Config(num_perm=32, keep_shingles=8),
    "prints": Config(num_perm=0, simhash=SimHashConfig(max_distance=3)),
}

WORDS = [f"word{n}" for n in range(7)]

texts = st.lists(st.sampled_from(WORDS), min_size=0, max_size=8).map(" ".join)  # so small that copies come
keys = st.integers(0, 12) | st.sampled_from(["a", "b", b"a"])
steps = st.one_of(
    st.tuples(
        st.just("insert"), st.lists(st.tuples(keys, texts, st.none() | st.text(max_size=3)), max_size=9)
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
        st.lists(texts, max_size=2),
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
