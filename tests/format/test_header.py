"""Header: it comes back, and what a version does not know is refused by its name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import uint64s

from simindex import Config, FormatError, Layout, SimHashConfig, WordShingles
from simindex.format.layout import Geometry
from simindex.format.meta import CONFIG_KEY, FORMAT_VERSION, MAGIC, Header, decode_header, encode_header
from simindex.format.seals import pack, seal, unpack, unseal

layouts = st.builds(Layout, st.integers(2, 100), st.integers(1, 2**20), st.integers(1, 2**28))

HEADER = Header(Layout(), 4, Geometry(16, 4, Layout()).kinds, Config().to_dict(), bytes(range(16)))


def changed(place: int, value: object) -> bytes:
    """A header with another field, sealed."""
    fields = unpack(unseal("meta", CONFIG_KEY, encode_header(HEADER), "header"))
    fields[place] = value
    return seal("meta", CONFIG_KEY, pack(fields))


@given(layouts, st.integers(0, 14), st.integers(0, 128), st.none() | st.integers(0, 8), uint64s)
def test_header_comes_back_as_it_was_encoded(
    layout: Layout, blocks: int, bands: int, distance: int | None, seed: int
) -> None:
    simhash = None if distance is None and bands else SimHashConfig(distance or 0)
    config = Config(WordShingles(2, ()), 8 * bands, simhash, 5 if bands else 0, seed)
    header = Header(layout, blocks, Geometry(bands, blocks, layout).kinds, config.to_dict(), bytes(16))
    found = decode_header(encode_header(header), "test")
    assert found == header
    assert Config.from_dict(found.config) == config


@given(st.binary(max_size=60))
def test_other_bytes_are_no_header(data: bytes) -> None:
    with pytest.raises(FormatError, match="expected a simindex header, found other data"):
        decode_header(data, "test")


@pytest.mark.parametrize(
    "fields", [MAGIC, {MAGIC: 1}, [MAGIC], [b"simindex", FORMAT_VERSION], [[MAGIC]], [1, MAGIC]], ids=repr
)
def test_sealed_value_that_only_names_simindex_is_no_header(fields: object) -> None:
    with pytest.raises(FormatError, match="expected a simindex header, found"):
        decode_header(seal("meta", CONFIG_KEY, pack(fields)), "test")


@pytest.mark.parametrize("version", [0, 1, 3, 2**64 - 1, "2", None, [2], 2.5])
def test_other_version_is_refused_whatever_comes_behind_it(version: object) -> None:
    with pytest.raises(FormatError, match="expected format version 2, found"):
        decode_header(seal("meta", CONFIG_KEY, pack([MAGIC, version, {}])), "test")


def test_unknown_feature_is_refused_by_its_name() -> None:
    value = changed(2, ["quantum"])
    with pytest.raises(FormatError, match=r"needs features that .* does not know: quantum; upgrade simindex"):
        decode_header(value, "test")
    # The fields behind may be of a later version's making: the name comes first.
    value = seal("meta", CONFIG_KEY, pack([MAGIC, FORMAT_VERSION, ["quantum"], "anything"]))
    with pytest.raises(FormatError, match="does not know: quantum"):
        decode_header(value, "test")


def test_unknown_kind_of_table_is_refused_by_its_name() -> None:
    kinds = [list(kind) for kind in HEADER.kinds]
    with pytest.raises(FormatError, match=r"needs kinds of tables that .* does not know: suffix; upgrade"):
        decode_header(changed(5, [*kinds, ["suffix", 99, 1, "fields of its own"]]), "test")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (2, None),
        (3, [0, 65_536, 1 << 20]),
        (3, [8, 0, 1 << 20]),
        (3, [8, 65_536, 0]),
        (3, [8, 2**40, 1 << 20]),
        (3, [8, 65_536, 2**60]),
        (3, [8.0, 65_536, 1 << 20]),
        (3, [8, 65_536]),
        (3, None),
        (4, "4"),
        (4, None),
        (5, None),
        (5, [1]),
        (5, [["key"]]),
        (5, [[]]),
        (6, None),
        (6, [1]),
        (7, None),
        (7, "sixteen letters."),
        (7, bytes(15)),
        (7, bytes(17)),
    ],
)
def test_header_of_other_fields_is_refused(place: int, value: object) -> None:
    with pytest.raises(FormatError, match=r"expected a header of format 2, found|expected features, found"):
        decode_header(changed(place, value), "test")


@pytest.mark.parametrize("length", [3, 4, 5, 6, 7, 9])
def test_header_of_another_length_is_refused(length: int) -> None:
    fields = [*unpack(unseal("meta", CONFIG_KEY, encode_header(HEADER), "header")), "more"]
    with pytest.raises(FormatError, match="expected a header of format 2"):
        decode_header(seal("meta", CONFIG_KEY, pack(fields[:length])), "test")
