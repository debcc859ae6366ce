"""What the settings of an index come to, and which stored ones are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from support.faults import around
from support.indexes import FOX, READING_AND_ADDING
from support.stored import CONFIG_KEY, rewrite_header, store_values
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
    WordShingles,
)


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
        (lambda c: c | {"hashing": 4}, "hashing contract: expected version 6, found 4"),
        (lambda c: c | {"shingles": c["shingles"] | {"kind": "sentences"}}, "expected known fields"),
        (lambda c: c | {"num_perm": 100}, "expected known fields"),
        (lambda c: c | {"num_perm": "x"}, "expected known fields"),
        (lambda c: c | {"shingles": [1]}, "expected known fields"),
        (lambda c: c | {"shingles": {"kind": [1]}}, "expected known fields"),
        (lambda c: c | {"simhash": [1]}, "expected known fields"),
        (lambda c: c | {"stemming": "porter"}, r"unknown fields \['stemming'\]"),
        (lambda c: c | {1: 2}, r"unknown fields \['1'\]"),
        (lambda c: c | {"simhash": c["simhash"] | {"colour": 1}}, "expected known fields"),
        (lambda c: {name: value for name, value in c.items() if name != "seed"}, "expected known fields"),
        (lambda c: {name: c[name] for name in c if name != "containment"}, "expected known fields"),
    ],
)
def test_settings_that_this_version_does_not_know_are_refused(
    tmp_path: Path, change: Callable[[Any], Any], message: str
) -> None:
    path = tmp_path / "i"
    simindex.open(path).close()
    rewrite_header(path, lambda fields: [*fields[:4], change(fields[4]), fields[5]])
    for mode in READING_AND_ADDING:
        with pytest.raises(FormatError, match=message):
            simindex.open(path, mode)


@pytest.mark.parametrize("mode", ["r", "a"])
def test_other_settings_are_refused_naming_each_field_with_both_values(
    tmp_path: Path, mode: Literal["r", "a"]
) -> None:
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
    one_string: Any = "fold whitespace"
    for config in (None, stored, Config(num_perm=64, shingles=CharShingles(5, one_string))):
        with simindex.open(tmp_path / "i", mode, config) as index:
            assert index.config == stored


def test_blocks_of_an_index_are_those_it_was_built_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with simindex.open(tmp_path / "i", "x", simhash_only(3)) as index:
        assert index.stats().permutation_tables == 4
        index.insert("a", Sketch.from_fingerprint(7))
    # Another release may choose otherwise.
    around(monkeypatch, "choose blocks of fingerprints", lambda *_: 6)
    with simindex.open(tmp_path / "other", "x", simhash_only(3)) as index:
        assert index.stats().permutation_tables == 20
    with simindex.open(tmp_path / "i") as index:
        assert index.stats().permutation_tables == 4
        index.insert("b", Sketch.from_fingerprint(6))
        assert_matches(index.query_simhash(Sketch.from_fingerprint(7)), {"a": 0, "b": 1})


def test_new_index_without_settings_gets_the_defaults_and_others_keep_theirs(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "plain") as index:
        assert index.config == Config()
        assert index._session.scheme.tables.layout == Layout()
    config, layout = Config(num_perm=64, simhash=SimHashConfig(3, 5)), Layout(4, 99, 1_000)
    simindex.open(tmp_path / "i", "x", config, layout=layout).close()
    header = (tmp_path / "i" / "header").read_bytes()
    for later in (None, Layout()):  # a layout that is asked for later changes nothing
        with simindex.open(tmp_path / "i", "a", layout=later) as index:
            assert (index.config, index._session.scheme.tables.layout) == (config, layout)
            assert index.stats().permutation_tables == 10
    assert (tmp_path / "i" / "header").read_bytes() == header


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (None, "an LMDB environment, but not a simindex index"),
        (b"header", "expected a simindex header, found other data"),
    ],
)
def test_file_without_a_header_is_no_index(tmp_path: Path, header: bytes | None, message: str) -> None:
    path = tmp_path / "i"
    simindex.open(path).close()
    (path / "header").unlink()
    store_values(path, [("meta", CONFIG_KEY, header)])
    with pytest.raises(FormatError, match=message):
        simindex.open(path)
