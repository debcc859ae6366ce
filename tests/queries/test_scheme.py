"""What the settings of an index come to, and which stored ones are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
from support.indexes import FOX, READING_AND_ADDING
from support.stored import bare_store, held
from support.truth import assert_matches, simhash_only

import simindex
from simindex import (
    CharShingles,
    Config,
    ConfigMismatchError,
    FormatError,
    Layout,
    SimHashConfig,
    Sketch,
    Sketcher,
    WordShingles,
)
from simindex.format.header import CONFIG_KEY
from simindex.format.manifest import MANIFEST_KEY, Manifest, decode_manifest
from simindex.format.seals import pack, seal, unpack, unseal
from simindex.queries.scheme import Scheme, scheme_of
from simindex.sketching import permutations
from simindex.sketching.permutations import make_plan, plan_for
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE
from simindex.storage.folder import Mode
from simindex.storage.store import Store


def rewrite_header(path: Path, change: Callable[[Any], Any]) -> None:
    """Store the header that `change` makes of the fields of the stored one, sealed."""
    with lmdb.open(str(path), max_dbs=16, lib_version=0) as env:
        meta = env.open_db(b"meta", create=False)
        with env.begin(write=True) as txn:
            key = CONFIG_KEY
            fields = unpack(unseal("meta", key, txn.get(key, db=meta) or b"", "header"))
            txn.put(key, seal("meta", key, pack(change(fields))), db=meta)


def test_index_of_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "i"
    with simindex.open(path) as index:
        index.insert("fox", FOX)
    rewrite_header(path, lambda fields: [fields[0], 7, *fields[2:], "a field of the future"])
    files = [path / "data.mdb", path / "header"]
    before = [file.read_bytes() for file in files]
    message = "expected format version 2, found 7; open it with the simindex version that wrote it"
    for mode in READING_AND_ADDING:
        with pytest.raises(FormatError, match=message):
            simindex.open(path, mode)
    assert [file.read_bytes() for file in files] == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c | {"hashing": 2}, "hashing contract: expected version 3, found 2"),
        (lambda c: c | {"shingles": c["shingles"] | {"kind": "sentences"}}, "expected known fields"),
        (lambda c: c | {"num_perm": 100}, "expected known fields"),
        (lambda c: c | {"simhash": c["simhash"] | {"colour": 1}}, "expected known fields"),
        (lambda c: {name: value for name, value in c.items() if name != "seed"}, "expected known fields"),
    ],
)
def test_settings_that_this_version_does_not_know_are_refused(
    tmp_path: Path, change: Callable[[Any], Any], message: str
) -> None:
    path = tmp_path / "i"
    simindex.open(path).close()
    rewrite_header(path, lambda fields: [*fields[:6], change(fields[6]), fields[7]])
    for mode in READING_AND_ADDING:
        with pytest.raises(FormatError, match=message):
            simindex.open(path, mode)


@pytest.mark.parametrize("mode", ["r", "a"])
def test_other_settings_are_refused_naming_each_field_with_both_values(tmp_path: Path, mode: Mode) -> None:
    stored = Config(num_perm=64, shingles=CharShingles(5))
    with simindex.open(tmp_path / "i", config=stored) as index:
        index.insert("fox", FOX)
    with pytest.raises(ConfigMismatchError) as caught:
        simindex.open(tmp_path / "i", mode, Config(num_perm=128, shingles=WordShingles(2), seed=1))
    message = str(caught.value)
    assert "num_perm: stored 64, asked for 128" in message
    assert f"shingles: stored {CharShingles(5)!r}, asked for {WordShingles(2)!r}" in message
    assert "seed" not in message
    assert "config=None" in message
    assert caught.value.fields == {
        "num_perm": (64, 128),
        "shingles": (CharShingles(5), WordShingles(2)),
    }
    assert isinstance(caught.value, ValueError)
    one_string: Any = "casefold whitespace"
    for config in (None, stored, Config(num_perm=64, shingles=CharShingles(5, one_string))):
        with simindex.open(tmp_path / "i", mode, config) as index:
            assert index.config == stored


def test_index_has_an_identity_of_its_own_that_it_keeps(tmp_path: Path) -> None:
    identities = []
    for name in ("one", "two", "one"):
        with simindex.open(tmp_path / name) as index:
            index.insert(len(index), FOX)
            identities.append(index._session.scheme.identity)
    assert identities[0] == identities[2] != identities[1]
    assert {len(identity) for identity in identities} == {16}


def test_blocks_of_an_index_are_those_it_was_built_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with simindex.open(tmp_path / "i", "x", simhash_only(3)) as index:
        assert index.stats().permutation_tables == 4
        index.insert("a", Sketch.from_fingerprint(7))
    # Another release may choose otherwise.
    monkeypatch.setattr(permutations, "choose_blocks", lambda *_: 6)
    plan = plan_for(SimHashConfig(3))
    assert plan is not None
    assert plan.num_tables == 20
    with simindex.open(tmp_path / "i") as index:
        assert index.stats().permutation_tables == 4
        index.insert("b", Sketch.from_fingerprint(6))
        assert_matches(index.query_simhash(Sketch.from_fingerprint(7)), {"a": 0, "b": 1})


# ---- by itself ----

BOTH_HALVES = HAS_SIGNATURE | HAS_FINGERPRINT


@pytest.mark.parametrize(
    ("config", "whole", "bands", "tables"),
    [
        (Config(num_perm=64), BOTH_HALVES, 8, 4),
        (Config(num_perm=64, simhash=None), HAS_SIGNATURE, 8, 0),
        (Config(num_perm=0), HAS_FINGERPRINT, 0, 4),
    ],
)
def test_whole_sketch_and_tables_follow_from_the_methods(
    config: Config, whole: int, bands: int, tables: int
) -> None:
    scheme = Scheme.of(config, Layout(), 4)
    assert scheme.whole_sketch == whole
    assert (scheme.tables.bands, scheme.tables.permutations, scheme.plan.num_tables) == (
        bands,
        tables,
        tables,
    )
    fingerprints = np.array([1, 2**63, 7], dtype=np.uint64)
    permuted = scheme.permute(fingerprints)
    assert permuted.shape == (tables, 3)
    assert permuted.dtype == np.dtype(np.uint64)
    if tables:
        assert permuted.tolist() == make_plan(4, 3).permute(fingerprints).tolist()


def test_origin_is_that_of_the_sketches_made_with_the_settings() -> None:
    for config in (Config(), Config(num_perm=64), Config(seed=2)):
        assert Scheme.of(config, Layout(), 4).origin == Sketcher(config).sketch("some words").origin
    assert Scheme.of(Config(), Layout(), 4).origin != Scheme.of(Config(seed=2), Layout(), 4).origin


def test_new_store_gets_its_header_and_an_old_one_keeps_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "i", "x")
    config, layout = Config(num_perm=64, simhash=SimHashConfig(3, 5)), Layout(4, 99, 1_000)
    created = scheme_of(store, config, layout)
    assert (created.config, created.tables.layout, created.plan) == (config, layout, make_plan(5, 3))
    assert not store.is_new
    assert decode_manifest(held(store, "meta")[MANIFEST_KEY]) == Manifest()
    before = held(store, "meta")
    # A layout that is asked for later changes nothing; a configuration is compared.
    assert scheme_of(store, None, Layout()) == scheme_of(store, config, None) == created
    with pytest.raises(ConfigMismatchError, match="num_perm: stored 64, asked for 128"):
        scheme_of(store, Config(simhash=SimHashConfig(3, 5)), None)
    assert held(store, "meta") == before
    store.close()


def test_new_store_without_settings_gets_the_defaults(tmp_path: Path) -> None:
    store = Store(tmp_path / "i", "x")
    scheme = scheme_of(store, None, None)
    assert (scheme.config, scheme.tables.layout) == (Config(), Layout())
    store.close()


def test_store_without_a_header_is_no_index(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i")
    with pytest.raises(FormatError, match="expected a simindex header, found other data"):
        scheme_of(store, None, None)
    store.commit(lambda txn: txn.delete("meta", CONFIG_KEY))
    with pytest.raises(FormatError, match="an LMDB environment, but not a simindex index"):
        scheme_of(store, None, None)
    store.close()
