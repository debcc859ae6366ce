"""The bytes on disk: encoding and decoding, damage, and indexes that earlier versions wrote."""

import json
import random
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import lmdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import uint64s

import simindex
from simindex import Config, CorruptIndexError, FormatError, Layout, SimHashConfig, WordShingles
from simindex.config import config_from_dict, config_to_dict
from simindex.format.chunks import encode_chunk, encode_sketch_chunk, table_key
from simindex.format.keys import (
    WHOLE_SEGMENT,
    encode_key,
    encode_keys,
    key_hashes,
    number_key,
    number_of,
    segment_key,
    segment_of,
    segment_prefix,
    whole_segment_key,
)
from simindex.format.layout import COPY_TABLE, FILTERS, KEY_TABLE, Column, SegmentEntry
from simindex.format.manifest import (
    MANIFEST_KEY,
    Manifest,
    decode_header,
    decode_manifest,
    encode_header,
    encode_manifest,
)
from simindex.format.records import (
    NIL,
    decode_kept,
    decode_record,
    decode_small,
    encode_kept,
    encode_records,
    encode_rest,
    encode_small,
    flags_unverified,
)
from simindex.format.seals import pack, seal, unpack, unseal

DATABASES = ("meta", "documents", "segments", "removed", "groups")
GOLDEN = Path(__file__).parent / "golden"
DUMP_INDEX = Path(__file__).parents[1] / "tools" / "dump_index"

# ---- encode and decode ----

keys = st.text(max_size=40) | st.binary(max_size=40) | st.integers(-(2**63), 2**64 - 1)
metadata = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
numbers = st.integers(0, 2**63)
counts = st.integers(0, 2**32)
shapes = st.builds(SegmentEntry, *[counts] * 8, st.integers(0, 1))
layouts = st.builds(Layout, st.integers(2, 100), st.integers(1, 2**20), st.integers(1, 2**30))


def equal(a, b):
    """Equality in which a NaN equals itself."""
    return pack(a) == pack(b)


@settings(max_examples=60)
@given(metadata)
def test_value_comes_back_as_it_was_packed(value):
    assert equal(unpack(pack(value)), value)


@given(st.lists(keys, max_size=20))
def test_encoded_keys_tell_kinds_and_values_apart(some):
    encoded = encode_keys(some)
    assert encoded == [encode_key(key) for key in some]
    assert [unpack(key) for key in encoded] == some
    assert len(set(encoded)) == len({(type(key), key) for key in some})
    assert key_hashes(encoded).dtype == np.uint64


@settings(max_examples=60)
@given(
    numbers,
    keys,
    metadata,
    st.integers(2**32, 2**63),
    st.integers(0, 3),
    st.none() | numbers,
    st.none() | st.binary(),
)
def test_record_comes_back_as_it_was_encoded(number, key, value, inserted_at, present, leader, kept):
    rest = encode_rest(inserted_at, present, leader, kept)
    ((database_key, sealed),) = encode_records(number, [encode_key(key)], [pack(value)], [rest])
    assert database_key == number_key(number) == number.to_bytes(8, "big")
    record = decode_record(number, sealed)
    assert (type(record.key), record.key) == (type(key), key)
    assert equal(record.metadata, value)
    assert (record.inserted_at, record.present, record.leader, record.kept) == (
        inserted_at,
        present,
        leader,
        kept,
    )
    with pytest.raises(
        CorruptIndexError, match=f"document {number + 1}: expected a value that fits its seal"
    ):
        decode_record(number + 1, sealed)


@given(st.binary(max_size=40), st.binary(max_size=200), st.data())
def test_sealed_value_is_refused_when_any_bit_of_it_or_its_key_is_flipped(key, content, data):
    sealed = seal(key, content)
    assert bytes(unseal(key, sealed, "test")) == content
    place = data.draw(st.integers(0, 8 * (len(key) + len(sealed)) - 1))
    both = bytearray(key + sealed)
    both[place // 8] ^= 1 << place % 8
    with pytest.raises(CorruptIndexError, match="test: expected a value that fits its seal") as raised:
        unseal(bytes(both[: len(key)]), bytes(both[len(key) :]), "test")
    assert raised.value.key == both[: len(key)]


@given(st.binary(max_size=40), st.binary(max_size=200), st.integers(1, 20))
def test_sealed_value_is_refused_when_it_is_cut_short(key, content, cut):
    sealed = seal(key, content)
    with pytest.raises(CorruptIndexError):
        unseal(key, sealed[: max(0, len(sealed) - cut)], "test")


@given(numbers, uint64s)
def test_small_value_comes_back_as_it_was_encoded(number, value):
    assert decode_small(number, encode_small(number, value), "test") == value
    with pytest.raises(CorruptIndexError):
        decode_small(number + 1, encode_small(number, value), "test")


@given(numbers)
def test_number_comes_back_from_its_key(number):
    assert number_of(number_key(number)) == number


@given(numbers, st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1))
def test_keys_of_a_segment_begin_with_its_prefix(segment, table, chunk):
    key = segment_key(segment, table, chunk)
    assert key.startswith(segment_prefix(segment))
    assert segment_of(key) == segment
    assert whole_segment_key(segment) == segment_key(segment, WHOLE_SEGMENT, 0)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20))
def test_kept_shingles_come_back_as_they_were_encoded(hashes):
    packed = encode_kept(np.array(hashes, dtype=np.uint32))
    assert packed == b"".join(value.to_bytes(4, "little") for value in hashes)
    assert decode_kept(packed).tolist() == hashes


@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_unverified_flags_are_those_that_were_encoded(flags):
    value = encode_small(5, flags)
    assert flags_unverified(value) == flags_unverified(memoryview(value)) == flags
    assert flags_unverified(b"") == 0


def test_nil_is_the_packed_none():
    assert pack(None) == NIL


@given(uint64s)
def test_table_key_is_what_an_array_of_it_holds(value):
    assert table_key(value) == np.array([value], dtype="<u8").tobytes()


@given(st.builds(Manifest, numbers, numbers, numbers, numbers, st.lists(shapes, max_size=5).map(tuple)))
def test_manifest_comes_back_as_it_was_encoded(manifest):
    assert decode_manifest(encode_manifest(manifest)) == manifest


@given(layouts, st.integers(0, 14), st.integers(0, 128), st.none() | st.integers(0, 8), uint64s)
def test_header_comes_back_as_it_was_encoded(layout, blocks, bands, distance, seed):
    simhash = None if distance is None and bands else SimHashConfig(distance or 0)
    config = Config(WordShingles(2, ()), 8 * bands, simhash, 5 if bands else 0, seed)
    header = encode_header(config_to_dict(config), layout, blocks)
    found_config, found_layout, found_blocks = decode_header(header, "test")
    assert config_from_dict(found_config) == config
    assert (found_layout, found_blocks) == (layout, blocks)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stemming": "porter"}, r"unknown fields \['stemming'\]"),
        ({"hashing": 2}, "hashing contract: expected version 1, found 2"),
        ({"num_perm": "x"}, "expected known fields"),
        ({"simhash": {"max_distance": 3, "depth": 1}}, "expected known fields"),
    ],
)
def test_configuration_of_a_later_version_is_refused(change, message):
    """What is not known may change what a sketch means."""
    with pytest.raises(FormatError, match=message):
        config_from_dict(config_to_dict(Config()) | change)


@given(st.binary(max_size=60))
def test_other_bytes_are_no_header(data):
    with pytest.raises(FormatError, match="expected a simindex header, found other data"):
        decode_header(data, "test")


@given(st.integers(0, 300), st.sampled_from([None, 0, 1, 16]))
def test_chunk_has_the_length_that_its_count_gives(count, bands):
    key = segment_key(1, 2, 3)
    column = Column(2, count, 300, (8, 0, 4) if bands is None else (8 * bands, 8, 4))
    some, some_numbers = np.arange(count, dtype=np.uint64), np.arange(count, dtype=np.uint32)
    if bands is None:
        chunk = encode_chunk(key, some, some_numbers)
    else:
        words = np.arange(count * bands, dtype=np.uint64).reshape(count, bands)
        chunk = encode_sketch_chunk(key, words, some, some_numbers)
    assert len(chunk) == column.chunk_bytes(count)
    assert segment_of(key) == 1


# ---- damage ----

DAMAGED = Config(num_perm=32, simhash=SimHashConfig(3, 4))
SKETCHES = 2 + 4 + 4  # keys, copies, band tables, permutation tables; then the sketch column
LAYOUTS = {"whole": Layout(), "chunked": Layout(2, 16, 600)}
FAMILY = [
    " ".join(["one two three four five six seven eight nine ten", *"abcdefgh"[:size]]) for size in range(8)
]


def documents():
    """key -> text: a family of near duplicates, strangers, and copies."""
    texts = {f"near {n}": text for n, text in enumerate(FAMILY)}
    texts |= {n: f"stranger {n} knows word {n * 7} and word {n * 11} of the book {n * 13}" for n in range(30)}
    return texts | {b"copy": FAMILY[3], b"other copy": "stranger 5 knows word 35 and word 55 of the book 65"}


@pytest.fixture(scope="module", params=LAYOUTS)
def closed_index(request, tmp_path_factory):
    """(path, answers) of an index with several segments, copies and removed documents; not to be changed."""
    path = tmp_path_factory.mktemp("damage") / "i"
    with simindex.open(path, "x", DAMAGED, layout=LAYOUTS[request.param], map_bytes=1 << 20) as index:
        index.insert_many(documents().items(), batch_size=9)
        index.remove_many(["near 2", 3, b"other copy"])
    with simindex.open(path) as index:  # removes what an unfinished merge has left: nobody would read it
        return path, answers(index)


def answers(index):
    """Everything that an index can be asked, touching every kind of stored value."""
    texts = list(documents().values())
    return {
        "size": len(index),
        "keys": list(index),
        "held": [key in index for key in documents()],
        "records": [(key, index[key].metadata, index[key].sketch) for key in index],
        "queries": [list(matches) for matches in index.query_many(texts, 0.3)],
        "nearest": [list(index.nearest(text, 3)) for text in texts[::7]],
        "simhash": [sorted(matches, key=repr) for matches in index.query_simhash_many(texts)],
    }


def stored_values(path):
    """List of (database, key, value)."""
    with lmdb.open(str(path), max_dbs=16, readonly=True, lib_version=0) as env:
        handles = {name: env.open_db(name.encode(), create=False) for name in DATABASES}
        with env.begin() as txn:
            return [(name, key, value) for name in DATABASES for key, value in txn.cursor(db=handles[name])]


def store_values(path, changes):
    """Store (database, key, value) each, past simindex; a value of None deletes the key."""
    with lmdb.open(str(path), max_dbs=16, map_size=1 << 24, lib_version=0) as env:
        handles = {name: env.open_db(name.encode()) for name in DATABASES}
        with env.begin(write=True) as txn:
            for name, key, value in changes:
                if value is None:
                    txn.delete(key, db=handles[name])
                else:
                    txn.put(key, value, db=handles[name])


def outcome(path):
    """What the index answers, or the error that it raises."""
    try:
        with simindex.open(path, "r") as index:
            return answers(index)
    except (CorruptIndexError, FormatError) as error:
        return error


def kind_of(name, key):
    """A name for the kind of a stored value."""
    if name == "meta":
        return key.decode()
    if name != "segments":
        return name
    table = int.from_bytes(key[8:10], "big")
    return {
        WHOLE_SEGMENT: "segment",
        KEY_TABLE: "key table",
        COPY_TABLE: "copy table",
    }.get(table, "sketches" if table == SKETCHES else "filter" if table >= FILTERS else "table")


def flipped(value, bit):
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_flipped_bit_is_an_error_or_of_no_consequence(tmp_path, closed_index):
    """Never a wrong match, never an empty result: what is touched and damaged raises.

    A flipped bit in blocks that no question reads changes nothing; everything else is an error.
    """
    path, clean = closed_index
    chance = random.Random("flips")
    detected, harmless = {}, {}
    for name, key, value in stored_values(path):
        kind = kind_of(name, key)
        for bit in {0, 8 * len(value) - 1, *(chance.randrange(8 * len(value)) for _ in range(2))}:
            copy = shutil.copytree(path, tmp_path / "damaged")
            store_values(copy, [(name, key, flipped(value, bit))])
            found = outcome(copy)
            if isinstance(found, Exception):
                detected[kind] = detected.get(kind, 0) + 1
                assert ("seal" in str(found)) or ("not an index" in str(found))
            else:
                assert found == clean, (kind, key.hex(), bit)
                harmless[kind] = harmless.get(kind, 0) + 1
            shutil.rmtree(copy)
    kinds = {kind_of(name, key) for name, key, _ in stored_values(path)}
    assert {"config", "manifest", "documents"} <= detected.keys()
    assert not {"config", "manifest", "documents", "segment", "key table", "sketches"} & harmless.keys()
    # Sizes of groups are read by removals only.
    assert kinds - detected.keys() <= {"groups", "removed"}


def test_missing_value_is_an_error(tmp_path, closed_index):
    path, clean = closed_index
    for name, key, _ in stored_values(path):
        copy = shutil.copytree(path, tmp_path / "damaged")
        store_values(copy, [(name, key, None)])
        found = outcome(copy)
        if isinstance(found, Exception):
            assert re.search("expected|not a simindex index", str(found))
        else:
            assert name in ("removed", "groups"), (name, key.hex())
            assert found == clean
        shutil.rmtree(copy)


@pytest.mark.parametrize("cut", ["empty", "shorter", "longer"])
def test_value_of_another_length_is_an_error(tmp_path, closed_index, cut):
    path, clean = closed_index
    lengths = {
        "empty": lambda value: value[:0],
        "shorter": lambda value: value[:-1],
        "longer": lambda value: value + b"\0",
    }
    for name, key, value in stored_values(path)[::3]:
        copy = shutil.copytree(path, tmp_path / "damaged")
        store_values(copy, [(name, key, lengths[cut](value))])
        found = outcome(copy)
        assert isinstance(found, Exception) or (name in ("removed", "groups") and found == clean)
        shutil.rmtree(copy)


def test_damaged_numbers_of_the_sketch_column_hide_nothing(tmp_path):
    """In a segment with gaps a row is found by its number; those in between are not verified."""
    texts = [f"{n} {n * 7} {n * 11} {n * 13} words" for n in range(600)]
    config = Config(num_perm=16, simhash=None)
    with simindex.open(tmp_path / "i", "x", config, layout=Layout(8, 4096, 16_384)) as index:
        index.insert_many(enumerate(texts), batch_size=600)
        index.remove_many(range(0, 600, 9))
        index.compact()
    place = segment_key(1, 2 + 2, 0)
    values = {key: value for name, key, value in stored_values(tmp_path / "i") if name == "segments"}
    value = values[place]
    count = next(n for n in range(1, 600) if Column(4, n, 600, (16, 8, 4)).chunk_bytes(n) == len(value))
    numbers_at = 24 * count
    damaged = value[: numbers_at + 400] + bytes(400) + value[numbers_at + 800 :]
    store_values(tmp_path / "i", [("segments", place, damaged)])
    with simindex.open(tmp_path / "i", "r") as index:
        outcomes = []
        for n, text in enumerate(texts):
            if n % 9 == 0:
                continue
            try:
                outcomes.append(n in {match.key for match in index.query(text, 1.0)})
            except CorruptIndexError as error:
                outcomes.append(str(error))
    assert False not in outcomes
    assert all("table sketches" in outcome for outcome in outcomes if outcome is not True)
    assert outcomes.count(True) < len(outcomes) - 50
    assert outcomes.count(True) > 50


def test_values_that_changed_places_are_an_error(tmp_path, closed_index):
    """A seal binds a value to its key, so that an intact value in another's place is found out."""
    path, clean = closed_index
    values = stored_values(path)
    swapped = 0
    for (name, key, value), (other_name, other_key, other_value) in pairwise(values):
        if name != other_name or value == other_value or name == "groups":
            continue
        copy = shutil.copytree(path, tmp_path / "damaged")
        store_values(copy, [(name, key, other_value), (name, other_key, value)])
        found = outcome(copy)
        assert isinstance(found, Exception) or (name == "removed" and found == clean), (name, key.hex())
        swapped += 1
        shutil.rmtree(copy)
    assert swapped > 30


def test_damage_is_an_error_of_the_call_that_touches_it_and_of_no_other(tmp_path, closed_index):
    path, clean = closed_index
    copy = shutil.copytree(path, tmp_path / "damaged")
    number = documents().__len__() - 5  # a stranger
    value = next(
        v for name, key, v in stored_values(path) if (name, key) == ("documents", number_key(number))
    )
    store_values(copy, [("documents", number_key(number), flipped(value, 77))])
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


def test_older_manifest_put_back_is_found_out_by_the_next_insert(tmp_path):
    """As when a file is restored in part: numbers that are taken are not given again."""
    path = tmp_path / "i"
    with simindex.open(path) as index:
        index.insert("a", "the first of two documents")
    old = next(change for change in stored_values(path) if change[:2] == ("meta", MANIFEST_KEY))
    with simindex.open(path) as index:
        index.insert("b", "the second of two documents")
    store_values(path, [old])
    with simindex.open(path) as index:
        with pytest.raises(CorruptIndexError, match="stored numbers are ahead of the manifest"):
            index.insert("c", "one more")
        assert index.query("the first of two documents")[0].key == "a"


def test_damage_met_by_a_merge_is_an_error_and_the_index_stays_as_it_was(tmp_path):
    """A merge reads whole segments: it must not carry damaged entries into a sealed new one."""
    path = tmp_path / "i"

    def insert(path, numbers):
        with simindex.open(path, layout=Layout(4, 16, 600)) as index:
            for number in numbers:
                index.insert_many((f"{number}-{n}", f"text {n} of the batch {number}") for n in range(30))

    insert(path, range(3))
    # A merge does not read the filters of its sources: it makes the new one from the keys.
    chunks = [
        (name, key, value)
        for name, key, value in stored_values(path)
        if name == "segments" and kind_of(name, key) != "filter"
    ]
    assert len(chunks) > 60
    for name, key, value in random.Random("merge").sample(chunks, 20):
        copy = shutil.copytree(path, tmp_path / "damaged")
        store_values(copy, [(name, key, flipped(value, 4 * len(value)))])
        with pytest.raises(CorruptIndexError, match="seal"):
            insert(copy, range(3, 12))
        # No merge has replaced the damaged segment: with the chunk as it was, everything is there.
        store_values(copy, [(name, key, value)])
        with simindex.open(copy) as index:
            keys = list(index)
            assert keys == [f"{number}-{n}" for number in range(len(keys) // 30) for n in range(30)]
            assert len(keys) >= 90
            assert [m.key for m in index.query("text 7 of the batch 1", 0.9)] == ["1-7"]
        shutil.rmtree(copy)


# ---- golden indexes ----

GOLDEN_INDEXES = [
    (path, name) for path in sorted(GOLDEN.glob("*.json")) for name in json.loads(path.read_text())
]


def built_from(databases, path):
    """An LMDB environment with these databases (hex), as an earlier version has left it."""
    path.mkdir()
    changes = [
        (name, bytes.fromhex(key), bytes.fromhex(value))
        for name, items in databases.items()
        for key, value in items
    ]
    store_values(path, changes)
    return path


@pytest.mark.parametrize(("file", "name"), GOLDEN_INDEXES, ids=lambda value: getattr(value, "stem", value))
def test_golden_index_gives_its_answers(tmp_path, file, name):
    golden = json.loads(file.read_text(encoding="utf-8"))[name]
    path = built_from(golden["databases"], tmp_path / "i")
    with simindex.open(path, "r") as index:
        assert [
            [
                repr(key),
                repr(index[key].metadata),
                index[key].inserted_at.isoformat(),
                repr(index[key].sketch),
            ]
            for key in index
        ] == golden["records"]
        for document, call, arguments, expected in golden["queries"]:
            matches = getattr(index, call)(document, *arguments)
            found = sorted([match.distance, match.similarity, repr(match.key)] for match in matches)
            assert found == expected, (document, call, arguments)
    with simindex.open(path) as index:
        size = len(index)
        index.insert("new", "written by today's code into an older file")
        assert (
            index.query_simhash("written by today's code into an older file")
            if index.config.simhash
            else True
        )
        for number in range(20):
            index.insert(f"new {number}", f"and {number} more, so that old segments are merged")
        index.remove("new")
        assert len(index) == len(list(index)) == size + 20


def test_golden_indexes_hold_what_the_format_has():
    golden = json.loads((GOLDEN / "format-1.json").read_text(encoding="utf-8"))
    assert all(golden[name]["databases"][database] for name in ("chunked",) for database in DATABASES)
    tables = {bytes.fromhex(key)[8:10] for key, _ in golden["chunked"]["databases"]["segments"]}
    assert len(tables) > 5
    whole = {bytes.fromhex(key)[8:10] for key, _ in golden["whole"]["databases"]["segments"]}
    assert whole == {b"\xff\xff"}


def test_dump_index_prints_what_is_stored(tmp_path):
    golden = json.loads((GOLDEN / "format-1.json").read_text(encoding="utf-8"))["whole"]["databases"]
    path = built_from(golden, tmp_path / "i")
    done = subprocess.run(
        [sys.executable, str(DUMP_INDEX), str(path)], capture_output=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == golden
