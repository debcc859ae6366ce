"""Indexes from somebody who makes right seals: a typed error, or an index that can be read."""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.faults import bound
from support.indexes import problems_of
from support.stored import (
    CONFIG_KEY,
    changed_segment,
    fields_of,
    record_key,
    sealed,
    store_values,
    stored_values,
)

import simindex
from simindex import Config, ConfigMismatchError, CorruptIndexError, FormatError, Layout, SimHashConfig

CONFIG = Config(num_perm=16, simhash=SimHashConfig(3, 4), keep_shingles=4)

TEXTS = [f"the text {n} of the word {n * 7} and the word {n * 11}" for n in range(12)]

LAYOUTS = {"whole": Layout(), "chunked": Layout(4, 4, 200)}


@pytest.fixture(scope="module", params=LAYOUTS)
def closed_index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of two segments; what a test stores in it, the test takes back."""
    path = tmp_path_factory.mktemp("crafted") / "i"
    at_once = bound("changes of a commit that wait", 0)
    with simindex.open(path, "x", CONFIG, layout=LAYOUTS[request.param]) as index, at_once:
        index.insert_many(((n, text, {"n": n}) for n, text in enumerate(TEXTS)), batch_size=8)
        index.insert("copy", TEXTS[0])
        index.remove(3)
    (path / "header").unlink()  # or it would stand in for a crafted one
    return path


PLACES = {
    "header": ("meta", CONFIG_KEY),
    "manifest": ("main", b"manifest"),
    "record": ("documents", record_key(5)),
}


def stored_at(path: Path, what: str) -> bytes:
    database, key = PLACES[what]
    return next(bytes(v) for name, k, v in stored_values(path) if (name, k) == (database, key))


def read_everything(path: Path) -> None:
    with simindex.open(path, "r") as index:
        assert len(index) >= 0
        for key in index:
            # A record may have been given a key that the key table does not lead to.
            with contextlib.suppress(KeyError):
                assert isinstance(index[key].key, str | bytes | int)
        index.query_many(TEXTS, 0.3)
        index.query(TEXTS[0], 0.3, exact=index.config.keep_shingles > 0)
        index.query_simhash_many(TEXTS)
        index.nearest(TEXTS[0])
        index.stats()


def outcome(path: Path, what: str, fields: Any) -> Exception | None:
    """What comes of reading an index with these fields in a place, rightly sealed."""
    database, key = PLACES[what]
    whole = stored_at(path, what)
    store_values(path, [(database, key, sealed(database, key, fields))])
    try:
        read_everything(path)
    except (CorruptIndexError, FormatError) as error:
        return error
    except ValueError as error:
        if "this index was built with" not in str(error):  # a configuration that a call does not fit
            raise
    finally:
        store_values(path, [(database, key, whole)])
    return None


def fields_at(path: Path, what: str) -> Any:
    return fields_of(*PLACES[what], stored_at(path, what))


values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.binary(max_size=8)
    | st.sampled_from([0, 1, 2, 3, 4, 7, 2**16, 2**31, 2**32, 2**40, 2**62, 2**63, 2**64 - 1, -1, -5])
    | st.sampled_from(["simindex", "words", "key", "band"]),
    lambda inner: st.lists(inner, max_size=10) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@st.composite
def changes(draw: st.DrawFn) -> Callable[[Any], Any]:
    """A change of a value: another one, or one with some of its parts replaced, left out or doubled."""
    if draw(st.integers(0, 9)) == 0:
        other = draw(values)
        return lambda _: other
    steps, value = draw(st.lists(st.integers(0, 30), min_size=1, max_size=5)), draw(values)
    action = draw(st.sampled_from(["replace", "replace", "replace", "delete", "double"]))

    def change(found: Any) -> Any:
        return _changed(found, steps, action, value)

    return change


def _changed(found: Any, steps: list[int], action: str, value: Any) -> Any:
    if not steps or not isinstance(found, list | dict) or not found:
        return value
    index = steps[0] % len(found) if isinstance(found, list) else list(found)[steps[0] % len(found)]
    copy = found.copy()
    if len(steps) > 1 and isinstance(found[index], list | dict):
        copy[index] = _changed(found[index], steps[1:], action, value)
    elif action == "delete":
        del copy[index]
    elif action == "double" and isinstance(copy, list):
        copy.insert(int(index), copy[index])
    else:
        copy[index] = value
    return copy


@pytest.mark.parametrize("what", PLACES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(changes())
def test_anything_with_a_right_seal_is_a_typed_error_or_a_readable_index(
    closed_index: Path, what: str, change: Callable[[Any], Any]
) -> None:
    outcome(closed_index, what, change(fields_at(closed_index, what)))


def segment(**fields: object) -> Callable[[list[Any]], list[Any]]:
    """A change of the manifest's last segment."""

    def change(manifest: list[Any]) -> list[Any]:
        return [*manifest[:-1], [*manifest[-1][:-1], changed_segment(manifest[-1][-1], **fields)]]

    return change


def wide_segment(**fields: object) -> Callable[[list[Any]], list[Any]]:
    """A change of the manifest's last segment, with room for as many numbers as one can have."""
    return lambda manifest: segment(span=2**32 - 1, **fields)([2**40, *manifest[1:]])


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("manifest", segment(span=2**32 - 1, num_keys=2**32 - 1)),
        ("manifest", wide_segment(num_keys=2**32 - 1)),
        ("manifest", wide_segment(num_sketches=2**32 - 1)),
        ("manifest", wide_segment(num_keys=2**32 - 1, chunked=1, filters=bytes(6))),
        ("manifest", wide_segment(chunked=1, filters=b"\0\0\0\0\0\x23")),
        ("manifest", segment(filters=bytes([200, 0, 0, 0, 0, 0]))),
        ("manifest", segment(id="x")),
        ("manifest", segment(num_keys=-5)),
        ("manifest", segment(base=0)),
        ("manifest", lambda m: [*m[:-1], m[-1][::-1]]),
        ("manifest", lambda m: [m[0] - 1, *m[1:]]),
        ("manifest", lambda m: [*m[:2], m[2] - 1, *m[3:]]),
        ("header", lambda h: [*h[:2], [8, 0, 1], *h[3:]]),
        ("header", lambda h: [*h[:2], [8, 65_536, 2**62], *h[3:]]),
        ("header", lambda h: [*h[:2], [8, 2**62, 1 << 20], *h[3:]]),
        ("header", lambda h: h[:4]),
        ("header", lambda h: [*h[:3], 99, *h[4:]]),
        ("header", lambda h: [*h[:4], h[4] | {"num_perm": 1024}, h[5]]),
        ("header", lambda h: [*h[:5], 7]),
        ("record", lambda r: r[:2]),
        ("record", lambda r: [*r[:2], 2**63, *r[3:]]),
    ],
)  # fmt: skip
def test_nonsense_with_a_right_seal_is_a_typed_error(
    closed_index: Path, what: str, change: Callable[[Any], Any]
) -> None:
    assert outcome(closed_index, what, change(fields_at(closed_index, what))) is not None


def test_check_takes_no_memory_by_counts_that_the_file_has_no_room_for(closed_index: Path) -> None:
    whole = stored_at(closed_index, "manifest")
    forged = wide_segment(num_keys=2**20)(fields_at(closed_index, "manifest"))
    store_values(closed_index, [(*PLACES["manifest"], sealed(*PLACES["manifest"], forged))])
    try:
        (problem,) = simindex.check(closed_index).problems
    finally:
        store_values(closed_index, [(*PLACES["manifest"], whole)])
    assert problem.kind == "manifest"
    assert "found counts for" in problem.message


@pytest.mark.parametrize("length", [1, 7, 9, 13, 15])
@pytest.mark.parametrize("database", ["documents", "removed", "segments"])
@pytest.mark.parametrize("byte", [b"\0", b"\1", b"\xff"], ids=["low", "middle", "high"])
def test_database_key_of_another_length_is_damage(
    tmp_path: Path, closed_index: Path, database: str, length: int, byte: bytes
) -> None:
    """Of the databases that are walked; `groups` is only asked for whole numbers."""
    key = byte * length
    if database == "segments" and key.startswith(bytes(14)):
        key = record_key(99) + bytes(length - 8)  # among a live segment's values nobody walks
    path = shutil.copytree(closed_index, tmp_path / "i")
    value = next(value for name, _, value in stored_values(path) if name == database)
    store_values(path, [(database, key, value)])
    with pytest.raises(
        CorruptIndexError,
        match=r"expected a number of 8 bytes|in 14 bytes|of another time|expected a leaf page",
    ):
        list_with_writer(path)


def list_with_writer(path: Path) -> None:
    with simindex.open(path, "r+") as index:
        list(index)


def test_numbers_ahead_of_a_manifest_whose_count_fits_are_found_in_use(tmp_path: Path) -> None:
    """It is an older manifest of as many documents."""
    path = tmp_path / "i"
    at_once = bound("changes of a commit that wait", 0)
    with at_once, simindex.open(path, "x", CONFIG) as index:
        index.insert_many([("a", TEXTS[0]), ("b", TEXTS[1])])  # whose segment stays when one is removed
    old = next(change for change in stored_values(path) if change[:2] == PLACES["manifest"])
    with bound("changes of a commit that wait", 0), simindex.open(path) as index, index.transaction():
        index.remove("a")
        index.insert("c", TEXTS[2])
    store_values(path, [old])
    with simindex.open(path, "r+") as index:
        with pytest.raises(CorruptIndexError, match=r"expected doc ids below \d+; stored doc ids are ahead"):
            list(index)
        with (
            bound("changes of a commit that wait", 0),
            pytest.raises(CorruptIndexError, match="expected to append 1 new keys behind the stored ones"),
        ):
            index.insert("d", TEXTS[3])


def answers(path: Path) -> list[list[tuple[object, float | None, int | None]]]:
    with simindex.open(path, "r") as index:
        found = [*index.query_many(TEXTS, 0.3), *index.query_simhash_many(TEXTS)]
    return [[(match.key, match.similarity, match.distance) for match in matches] for matches in found]


@pytest.mark.parametrize("what", ["manifest", "record"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(changes())
def test_what_a_check_lets_pass_answers_as_before(
    closed_index: Path, what: str, change: Callable[[Any], Any]
) -> None:
    """What `untrusted=True` opens: the check runs here, for a process for each example would take minutes."""
    (database, key), whole, expected = PLACES[what], stored_at(closed_index, what), answers(closed_index)
    changed = change(fields_at(closed_index, what))
    store_values(closed_index, [(database, key, sealed(database, key, changed))])
    try:
        if not problems_of(closed_index):
            read_everything(closed_index)
            assert answers(closed_index) == expected
    except (ConfigMismatchError, FormatError):
        assert what == "manifest"  # whose sketches may be said to be of rows
    finally:
        store_values(closed_index, [(database, key, whole)])
