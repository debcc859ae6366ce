"""Header and manifest: they come back, and what a version does not know is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import numbers, uint64s

from simindex import Config, FormatError, Layout, SimHashConfig, WordShingles
from simindex.config import config_from_dict, config_to_dict
from simindex.format.layout import SegmentEntry
from simindex.format.manifest import Manifest, decode_header, decode_manifest, encode_header, encode_manifest

counts = st.integers(0, 2**32)

entries = st.builds(SegmentEntry, *[counts] * 8, st.integers(0, 1))

layouts = st.builds(Layout, st.integers(2, 100), st.integers(1, 2**20), st.integers(1, 2**30))


@given(st.builds(Manifest, numbers, numbers, numbers, numbers, st.lists(entries, max_size=5).map(tuple)))
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
