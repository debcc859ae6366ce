"""Several indexes that are asked as one: the answers of one index of all documents."""

import os
import pickle
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pyarrow
import pytest
from support.stages import rows_of

import simindex
from simindex import Config, ConfigMismatchError, CorruptIndexError, Index, MissingObjectError, scaleout
from simindex.scaleout import Query, SeenBefore, merge_matches

restore: Any = sys.modules["simindex.maintenance.restore"]

CONFIG = Config(num_perm=64, seed=1, keep_shingles=64, containment=2)
RANDOM = Random(3)
ROWS = [row["text"] for row in rows_of(5, 400)]
KEYS: list[Any] = [RANDOM.choice([f"k{n}", n, b"%d" % n]) for n in range(400)]
ASKED = [*ROWS[::3], "quite other words than all of these", ""]


def dealt(parts: int) -> list[list[int]]:
    """The documents of so many parts in their order: some empty, some of one row, some of one kind of key."""
    if parts == 1:
        return [list(range(400))]
    lots: list[list[int]] = [[], [0]]
    rest = list(range(1, 400))
    if parts > 5:
        for kind in (str, int, bytes):
            own = [n for n in rest[:60] if type(KEYS[n]) is kind]
            lots.append(own)
        rest = rest[60:]
        lots += [[n] for n in rest[:10]] + [[]]
        rest = rest[10:]
    left = parts - len(lots)
    size = -(-len(rest) // left)
    return lots + [rest[at * size : (at + 1) * size] for at in range(left)]


@pytest.fixture(scope="module", params=[1, 5, 40])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[list[Index], Index]]:
    """The parts, and one index of all, stored in the order of the parts without copies across them."""
    folder = tmp_path_factory.mktemp("parts")
    lots = dealt(request.param)
    assert sorted(n for lot in lots for n in lot) == list(range(400))
    parts = []
    with simindex.open(folder / "one", config=CONFIG) as one:
        for number, lot in enumerate(lots):
            part = simindex.open(folder / f"{number:02}", config=CONFIG)
            items = [(KEYS[n], ROWS[n], {"n": n}) for n in lot]
            part.insert_many(items)
            one.insert_many(items)
            parts.append(part)
        yield parts, one
        for part in parts:
            part.close()


@pytest.mark.parametrize("limit", [None, 1, 3])
@pytest.mark.parametrize(
    "how",
    [
        {"threshold": 0.5},
        {"threshold": 0.8},
        {"threshold": 0.4, "recall": 0.99},
        {"threshold": 0.5, "exact": True},
    ],
    ids=repr,
)
def test_merged_answers_are_those_of_one_index(
    both: tuple[list[Index], Index], how: dict[str, Any], limit: int | None
) -> None:
    parts, one = both
    merged = merge_matches([part.query_many(ASKED, limit=limit, **how) for part in parts], limit)
    expected = one.query_many(ASKED, limit=limit, **how)
    require_equal_answers(merged, expected, one.query_many(ASKED, **how), limit)
    for text, wanted in zip(ASKED[:40], expected, strict=False):
        alone = merge_matches([part.query(text, limit=limit, **how) for part in parts], limit)
        assert [figures(match) for match in alone] == [figures(match) for match in wanted]
    assert sum(map(len, expected)) > 100


@pytest.mark.parametrize("limit", [None, 1, 3])
def test_merged_answers_by_simhash_are_those_of_one_index(
    both: tuple[list[Index], Index], limit: int | None
) -> None:
    parts, one = both
    merged = merge_matches(
        (part.query_simhash_many(ASKED, limit=limit) for part in parts), limit, by="simhash"
    )
    every = one.query_simhash_many(ASKED)
    require_equal_answers(merged, one.query_simhash_many(ASKED, limit=limit), every, limit)


def figures(match: Any) -> tuple[Any, ...]:
    return match.similarity, match.distance


def require_equal_answers(merged: Any, expected: Any, every: Any, limit: int | None) -> None:
    """The same figures in the same order, and the same documents but for which equal ones a limit leaves."""
    assert len(merged) == len(expected)
    for mine, wanted, all_of in zip(merged, expected, every, strict=True):
        assert [figures(match) for match in mine] == [figures(match) for match in wanted]
        assert mine.truncated == wanted.truncated
        whole = {repr(match) for match in all_of}
        assert {repr(match) for match in mine} <= whole
        assert len({repr(match) for match in mine}) == len(mine)
        if limit is None:
            assert {repr(match) for match in mine} == whole


@pytest.mark.parametrize("direction", ["either", "in_stored", "in_query"])
@pytest.mark.parametrize("limit", [None, 2])
def test_merged_containment_is_that_of_one_index(
    both: tuple[list[Index], Index], direction: Any, limit: int | None
) -> None:
    parts, one = both
    met = 0
    for text in ASKED[:90]:
        half = " ".join(text.split()[: max(8, len(text.split()) // 2)])
        given: dict[str, Any] = {"threshold": 0.6, "direction": direction, "limit": limit}
        answers = [part.query_containment(half, **given) for part in parts]
        found = merge_matches(answers, limit, direction=direction)
        wanted = one.query_containment(half, **given)
        assert found == wanted
        assert (found.num_shingles, found.expected_recall) == (wanted.num_shingles, wanted.expected_recall)
        met += len(wanted)
    assert met > 20


def test_what_cannot_be_merged_is_refused() -> None:
    with pytest.raises(ValueError, match="found: expected answers of one index or more"):
        merge_matches([])
    with pytest.raises(ValueError, match="equally many questions"):
        merge_matches([simindex.Answers([simindex.Matches()]), simindex.Answers()])
    with pytest.raises(ValueError, match="limit: expected 1 or more"):
        merge_matches([simindex.Matches()], 0)


# ---- callables ----


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / name for name in "abc"]
    for number, path in enumerate(paths):
        with simindex.open(path, config=CONFIG) as index:
            index.insert_many((f"k{n}", ROWS[n]) for n in range(number, 300, 3) if number)
    with simindex.open(tmp_path / "one", config=CONFIG) as one:
        for number in range(3):
            one.insert_many((f"k{n}", ROWS[n]) for n in range(number, 300, 3) if number)
    return paths


TABLE = pyarrow.table({"text": ROWS, "n": list(range(400))})


def test_callables_ask_folders_and_backups_as_one_index(folders: list[Path], tmp_path: Path) -> None:
    store, one = f"file://{tmp_path}/store", tmp_path / "one"
    with simindex.open(folders[2], "r") as index:
        index.backup(store)
    parts: list[str | Path] = [folders[0], folders[1], store]
    seen_before = pickle.loads(pickle.dumps(SeenBefore(parts, 0.6, folder=tmp_path / "f")))
    found = seen_before(TABLE)
    assert found == SeenBefore(one, 0.6)(TABLE)
    assert 100 < sum(found[found.column_names[-1]].to_pylist()) < 400

    def figures_in(answers: pyarrow.Table) -> list[list[tuple[Any, Any]]]:
        """The similarity and the distance of each match of each row."""
        return [[(m["similarity"], m["distance"]) for m in row] for row in answers["matches"].to_pylist()]

    query = pickle.loads(pickle.dumps(Query(parts, 0.4, 3, folder=tmp_path / "f")))
    assert figures_in(query(TABLE)) == figures_in(Query(one, 0.4, 3)(TABLE))
    own = tmp_path / "f" / f"simindex-parts-{os.getuid()}"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    (fetched,) = own.glob("*/*.simindex")  # once, by both
    with simindex.open(fetched, "r") as copy:
        assert len(copy) == 100


def test_older_copies_of_a_backup_go_when_none_asks_them(folders: list[Path], tmp_path: Path) -> None:
    store = f"file://{tmp_path}/store"

    def backed_up(key: str, text: str) -> None:
        with simindex.open(folders[1]) as index:
            index.insert(key, text)
            index.backup(store)

    def copies() -> list[str]:
        return sorted(str(path) for path in (tmp_path / "f").rglob("*.simindex"))

    def seen(asked: SeenBefore) -> list[bool]:
        found: list[bool]
        found = asked(pyarrow.table({"text": ["the first new text here", "the second one"]}))[1].to_pylist()
        return found

    backed_up("first", "the first new text here")
    early = SeenBefore(store, folder=tmp_path / "f")
    assert seen(early) == [True, False]
    backed_up("second", "the second one")
    late = SeenBefore(store, folder=tmp_path / "f")
    assert seen(late) == [True, True]
    (older, newer) = copies()
    unfinished = Path(older).with_name(f".{Path(older).name}.restore")  # as of a process that was killed
    unfinished.mkdir()
    assert seen(early) == [True, False]  # a process asks the same copy to its end
    del early
    assert seen(pickle.loads(pickle.dumps(late))) == [True, True]
    assert copies() == [newer]
    assert not unfinished.exists()


def test_a_backup_that_another_process_fetches_meanwhile_is_fetched_once(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"file://{tmp_path}/store"
    with simindex.open(folders[1], "r") as index:
        index.backup(store)
    read_manifest, others = restore.read_manifest, list[Thread]()
    found: list[pyarrow.Table] = []

    def read_behind_another(objects: Any) -> Any:
        if not others:
            others.append(
                Thread(target=lambda: found.append(SeenBefore(store, folder=tmp_path / "f")(TABLE)))
            )
            others[0].start()
            others[0].join(1)  # it is as far as it can get
        return read_manifest(objects)

    monkeypatch.setattr(restore, "read_manifest", read_behind_another)
    asked = SeenBefore(store, folder=tmp_path / "f")(TABLE)
    others[0].join()
    assert found == [asked]


def test_a_part_that_is_missing_or_damaged_is_named(folders: list[Path], tmp_path: Path) -> None:
    store = tmp_path / "store"
    with simindex.open(folders[1], "r") as index:
        index.backup(f"file://{store}")
    asked = SeenBefore([folders[0], f"file://{store}"], folder=tmp_path / "f")
    parts = sorted((store / "parts").iterdir())
    for file in parts:
        sound = file.read_bytes()
        file.unlink()
        with pytest.raises(MissingObjectError, match=file.name):
            asked(TABLE)
        other = parts[0] if file != parts[0] else parts[1]
        for content in (sound[:-9], sound + b"x", other.read_bytes()):
            file.write_bytes(content)
            with pytest.raises(CorruptIndexError, match=file.name):
                asked(TABLE)
        file.write_bytes(sound)
    assert asked(TABLE).num_rows == 400
    with pytest.raises(MissingObjectError, match="expected a backup, found none"):
        SeenBefore(f"file://{tmp_path}/none", folder=tmp_path / "f")(TABLE)
    shutil.rmtree(folders[2])
    with pytest.raises(FileNotFoundError, match="c"):
        SeenBefore(folders)(TABLE)
    simindex.open(folders[2], config=Config(num_perm=8)).close()
    with pytest.raises(ConfigMismatchError, match=r"/c: .*num_perm: stored 8, asked for 64"):
        Query(folders)(TABLE)
    with pytest.raises(ValueError, match="path: expected one index or more"):
        scaleout.Query([])
