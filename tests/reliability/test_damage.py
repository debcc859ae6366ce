"""Damaged indexes: never a wrong match, never an empty result."""

import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from support.faults import bound
from support.indexes import Answers, chunk_key, outcome
from support.samples import sample_of
from support.stored import flipped, kind_of, names_value, record_key, sketch_page, store_values, stored_values

import simindex
from simindex import Config, CorruptIndexError, Index, Key, Layout, Pair, SimHashConfig

DAMAGED = Config(num_perm=32, simhash=SimHashConfig(3, 4), keep_shingles=40)

TABLES = [
    "keys",
    "copies",
    *(f"{kind} {n}" for kind in ("band", "permutation") for n in range(1, 5)),
    "sketches",
]
SKETCHES = len(TABLES) - 1

LAYOUTS = {"whole": Layout(), "chunked": Layout(2, 16, 600)}

FAMILY = [
    " ".join(["one two three four five six seven eight nine ten", *"abcdefgh"[:size]]) for size in range(8)
]


ClosedIndex = tuple[Path, Answers]


def documents() -> dict[Key, str]:
    """key -> text: a family of near duplicates, strangers, and copies."""
    texts: dict[Key, str] = {f"near {n}": text for n, text in enumerate(FAMILY)}
    texts |= {n: f"stranger {n} knows word {n * 7} and word {n * 11} of the book {n * 13}" for n in range(30)}
    return texts | {b"copy": FAMILY[3], b"other copy": "stranger 5 knows word 35 and word 55 of the book 65"}


@pytest.fixture(scope="module", params=LAYOUTS)
def closed_index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ClosedIndex:
    """(path, answers) of an index with several segments, copies and removed documents; not to be changed."""
    path = tmp_path_factory.mktemp("damage") / "i"
    at_once = bound("changes of a commit that wait", 0)
    with simindex.open(path, "x", DAMAGED, layout=LAYOUTS[request.param]) as index, at_once:
        index.insert_many(documents().items(), batch_size=9)
        index.remove_many(["near 2", 3, b"other copy"])
        index.touch("near 5", 7, 8, b"copy")
    with simindex.open(path) as index:  # removes what an unfinished merge has left: nobody would read it
        clean = answers(index)
        assert len(clean["pairs"]) > 20
        return path, clean


handed_out: list[Pair] = []
"""Pairs that came before the damage was met."""


def answers(index: Index) -> Answers:
    """Everything that an index can be asked, touching every kind of stored value."""
    texts = list(documents().values())
    handed_out.clear()
    for pair in index.pairs(0.4):
        handed_out.append(pair)
    return {
        "pairs": list(handed_out),
        "exact pairs": list(index.pairs(0.4, exact=True)),
        "pairs of firsts": list(index.pairs(0.4, copies="first")),
        "pairs by fingerprint": list(index.pairs(by="simhash")),
        "clusters": [list(index.clusters(0.4, linkage)) for linkage in ("components", "star")],
        "cluster": index.cluster_of("near 1", 0.4),
        "size": len(index),
        "keys": list(index),
        "held": [key in index for key in documents()],
        "records": [(key, index[key].metadata, index[key].seen_at, index[key].sketch) for key in index],
        "queries": [list(matches) for matches in index.query_many(texts, 0.3)],
        "nearest": [list(index.nearest(text, 3)) for text in texts[::7]],
        "simhash": [sorted(matches, key=repr) for matches in index.query_simhash_many(texts)],
    }


Stored = list[tuple[str, bytes, bytes]]
Changes = Sequence[tuple[str, bytes, bytes | None]]

UNREAD = {"groups", "removed", "ages"}
"""Sizes of groups are read by removals only, runs of ages by expiry (tests/changes/test_expiry.py)."""


def flips(values: Stored, bits: int = 1) -> Iterator[Changes]:
    chance = random.Random("flips")
    for name, key, value in values:
        size = 8 * len(value)
        for bit in {*[chance.randrange(size), 0, size - 1, chance.randrange(size)][:bits]}:
            yield [(name, key, flipped(value, bit))]


def swaps(values: Stored) -> Iterator[Changes]:
    """A seal binds a value to its key, so that an intact value in another's place is found out."""
    for (name, key, value), (other_name, other_key, other_value) in pairwise(values):
        if name == other_name != "groups" and value != other_value:
            yield [(name, key, other_value), (name, other_key, value)]


DAMAGE: dict[str, Callable[[Stored], Iterable[Changes]]] = {
    "a bit": flips,
    "four bits": partial(flips, bits=4),
    "places": swaps,
    "missing": lambda values: ([(name, key, None)] for name, key, _ in values),
    "empty": lambda values: ([(name, key, b"")] for name, key, _ in values),
    "shorter": lambda values: ([(name, key, value[:-1])] for name, key, value in values),
    "longer": lambda values: ([(name, key, value + b"\0")] for name, key, value in values),
}


@pytest.mark.parametrize("damage", sample_of([name for name in DAMAGE if name != "four bits"], ["four bits"]))
def test_damaged_value_is_an_error_or_of_no_consequence(
    tmp_path: Path, closed_index: ClosedIndex, damage: str
) -> None:
    """Never a wrong match, never an empty result: what is touched and damaged raises, and blocks that no
    question reads change nothing."""
    path, clean = closed_index
    values = stored_values(path)
    detected, harmless = set[str](), set[str]()
    for changes in DAMAGE[damage](values):
        copy = shutil.copytree(path, tmp_path / "damaged")
        store_values(copy, changes)
        found = outcome(copy, answers)
        shutil.rmtree(copy)
        assert set(clean["pairs"]).issuperset(handed_out)
        kinds = {kind_of(name, key, SKETCHES) for name, key, _ in changes}
        if not isinstance(found, Exception):
            assert found == clean, changes
            harmless |= kinds
            continue
        detected |= kinds
        # What repairs an index goes by attributes, not by the text of a message.
        name, key, _ = changes[0]
        assert name != "segments" or len(changes) > 1 or names_value(found, key, TABLES), vars(found)
        assert "bit" not in damage or "seal" in str(found) or "not an index" in str(found)
    unread = UNREAD if damage in ("missing", "places") else UNREAD | {"config"}  # it has a second copy
    assert "documents" in detected
    assert "manifest" in detected or damage == "places"  # it lies alone
    if "bit" not in damage:
        assert harmless <= unread
    else:  # blocks of tables, of filters and fences that no question reads
        assert "config" in harmless - detected
        assert not {"manifest", "documents", "segment", "key table", "sketches"} & harmless
        assert {kind_of(name, key, SKETCHES) for name, key, _ in values} - detected <= unread


def test_damaged_numbers_of_the_sketch_column_hide_nothing(tmp_path: Path) -> None:
    """In a segment with gaps a row is found by its number; those in between are not verified."""
    texts = [f"{n} {n * 7} {n * 11} {n * 13} words" for n in range(600)]
    config = Config(num_perm=16, simhash=None)
    with simindex.open(tmp_path / "i", "x", config, layout=Layout(8, 4096, 16_384)) as index:
        index.insert_many(enumerate(texts), batch_size=600)
        index.remove_many(range(0, 600, 9))
        index.compact()
    chunk = chunk_key(1, 2 + 2, 0)
    values = {key: value for name, key, value in stored_values(tmp_path / "i") if name == "segments"}
    value = values[chunk]
    rows, page_bytes = sketch_page(2)
    assert len(value) > 3 * page_bytes
    doc_ids_at = page_bytes + 24 * rows  # of the second page
    damaged = value[: doc_ids_at + 100] + bytes(400) + value[doc_ids_at + 500 :]
    store_values(tmp_path / "i", [("segments", chunk, damaged)])
    with simindex.open(tmp_path / "i", "r") as index:
        outcomes: list[bool | str] = []
        for n, text in enumerate(texts):
            if n % 9 == 0:
                continue
            try:
                outcomes.append(n in {match.key for match in index.query(text, 1.0)})
            except CorruptIndexError as error:
                outcomes.append(str(error))
    assert False not in outcomes
    assert all("table sketches" in outcome for outcome in outcomes if isinstance(outcome, str))
    assert outcomes.count(True) < len(outcomes) - 50
    assert outcomes.count(True) > 50


def test_damage_is_an_error_of_the_call_that_touches_it_and_of_no_other(
    tmp_path: Path, closed_index: ClosedIndex
) -> None:
    path, clean = closed_index
    copy = shutil.copytree(path, tmp_path / "damaged")
    number = documents().__len__() - 5  # a stranger
    value = next(
        v for name, key, v in stored_values(path) if (name, key) == ("documents", record_key(number))
    )
    store_values(copy, [("documents", record_key(number), flipped(value, 77))])
    key = list(documents())[number]
    with simindex.open(copy) as index:
        message = f"document {number}: expected a value that fits its seal, found {len(value)} damaged bytes"
        for call in (
            lambda: index[key],
            lambda: key in index,
            lambda: index.query(documents()[key]),
            lambda: index.query_simhash(documents()[key]),
            lambda: index.query_key(key),
            lambda: list(index),
            lambda: index.insert(key, "anything"),
            lambda: index.remove(key),
        ):
            with pytest.raises(CorruptIndexError, match=message):
                call()
        assert len(index) == clean["size"]
        assert index["near 0"].key == "near 0"
        assert [m.key for m in index.query(documents()[7])] == [7]
        index.insert("new", "goes on as before")
        assert index.query("goes on as before")[0].key == "new"


def test_removed_copy_whose_group_is_missing_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "i"
    with simindex.open(path) as index:
        index.insert_many((number, "one text that three documents have") for number in range(3))
    groups = [(name, key, None) for name, key, _ in stored_values(path) if name == "groups"]
    assert groups
    store_values(path, groups)
    with simindex.open(path) as index:
        with pytest.raises(CorruptIndexError, match="expected a group of copies under the doc id 0"):
            index.remove(2)
        assert list(index) == [0, 1, 2]


@pytest.mark.parametrize("removed", [[0], [0, 1], [1, 2]], ids=["missing", "older", "older, leader lives"])
def test_sketch_that_a_document_has_is_not_given_up_for_a_group_that_counts_too_few(
    tmp_path: Path, removed: list[int]
) -> None:
    path, text = tmp_path / "i", "one text that three documents have"
    with simindex.open(path, config=Config(num_perm=16)) as index:
        index.insert_many((number, text) for number in range(2))
    groups = [(name, key, value) for name, key, value in stored_values(path) if name == "groups"]
    with simindex.open(path) as index:
        index.insert(2, text)
    store_values(path, groups if len(removed) > 1 else [(name, key, None) for name, key, _ in groups])
    with simindex.open(path) as index:
        with pytest.raises(CorruptIndexError, match=r"document \d: expected a group .* under the doc id 0"):
            index.remove_many(removed)
        index.compact()
        assert [match.key for match in index.query(text)] == list(index) == [0, 1, 2]
        assert [(pair.a, pair.b) for pair in index.pairs()] == [(0, 1), (0, 2), (1, 2)]


def test_group_that_counts_removed_copies_is_an_error(tmp_path: Path) -> None:
    """As an older page has it: the sketch stays when the last of its documents goes."""
    path = tmp_path / "i"
    with simindex.open(path, config=Config(num_perm=16)) as index:
        index.insert_many((number, "one text that three documents have") for number in range(3))
        index.insert("other", "another text that a single document has")
    groups = [change for change in stored_values(path) if change[0] == "groups"]
    with simindex.open(path) as index:
        index.remove(1)
    store_values(path, groups)
    with simindex.open(path) as index:
        index.remove_many([0, 2])
        assert [match.key for match in index.query("one text that three documents have")] == []
        for pairs in (index.pairs(copies="first"), index.clusters()):
            with pytest.raises(CorruptIndexError, match="document 0: expected a live copy"):
                list(pairs)
