"""Fuzzing of what is stored: any bytes under a right seal, or a wrong one, are decoded or a typed error.

A target gets bytes: the first chooses a decoder and whether the seal is right, the rest is the content.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from simindex import CharShingles, Config, CorruptIndexError, FormatError, Layout, SimHashConfig
from simindex.format.bulk import decode_records
from simindex.format.keys import doc_id_key, doc_id_of
from simindex.format.layout import SegmentEntry
from simindex.format.meta import (
    CONFIG_KEY,
    MANIFEST_KEY,
    Header,
    Manifest,
    decode_header,
    decode_manifest,
    encode_header,
    encode_manifest,
)
from simindex.format.recent import Recent
from simindex.format.records import (
    Run,
    decode_flags,
    decode_group_size,
    decode_kept,
    decode_record,
    decode_run,
    encode_kept,
    encode_run,
    run_key,
)
from simindex.format.seals import SEAL_BYTES, pack, seal, unpack

_NUMBER, _KEEP = 5, 8
_DOC_ID_KEY = doc_id_key(_NUMBER)
_RUN_KEY = run_key(7, 3)


def _value(choice: int, database: str, key: bytes, content: bytes) -> bytes:
    return content if choice % 8 == 7 else seal(database, key, content)


def decode_a_record(data: bytes) -> None:
    """A record, one by one and with others: the two ways say the same."""
    value = _value(data[0], "documents", _DOC_ID_KEY, data[1:])
    alone: Any = None
    with contextlib.suppress(CorruptIndexError):
        alone = decode_record(_NUMBER, value)
    if alone is not None and alone.kept is not None:
        with contextlib.suppress(CorruptIndexError):
            decode_kept(alone.kept)
    many = decode_records(np.array([_NUMBER], np.uint64), [value], _KEEP)
    assert len(many.keys) + len(many.errors) == 1
    if many.keys:
        assert alone is not None
        assert (many.keys[0], many.ages[0], many.present[0]) == (alone.key, alone.age_from, alone.present)
    else:
        # Alone it may be read where its key is packed otherwise, or it has more hashes than the index keeps.
        assert alone is None or alone.kept is not None or not value.startswith(pack(alone.key), 1)


def decode_counts(data: bytes) -> None:
    """Removal marks, sizes of groups, runs of ages, kept hashes, database keys."""
    choice, content = data[0], data[1:]
    with contextlib.suppress(CorruptIndexError):
        if choice % 5 == 0:
            assert decode_flags(_NUMBER, _value(choice, "removed", _DOC_ID_KEY, content)) in (1, 3)
        elif choice % 5 == 1:
            assert decode_group_size(_NUMBER, _value(choice, "groups", _DOC_ID_KEY, content)) >= 1
        elif choice % 5 == 2:
            key = content[8:] if choice % 2 else _RUN_KEY
            run = decode_run(key, _value(choice, "ages", key, content[:8]), 1 << 40)
            assert encode_run(run) == seal("ages", key, content[:8])
        elif choice % 5 == 3:
            hashes = decode_kept(content)
            assert np.array_equal(decode_kept(encode_kept(hashes)), hashes)
        else:
            assert doc_id_key(doc_id_of(content)) == content


def decode_meta(data: bytes) -> None:
    """A manifest, which is written again as it was read, or a header with its configuration."""
    if data[0] % 2:
        with contextlib.suppress(CorruptIndexError):
            manifest = decode_manifest(_value(data[0], "meta", MANIFEST_KEY, data[1:]))
            assert decode_manifest(encode_manifest(manifest)) == manifest
        return
    with contextlib.suppress(CorruptIndexError, FormatError):
        header = decode_header(_value(data[0], "meta", CONFIG_KEY, data[1:]), "fuzzed")
        Config.from_dict(header.config)


def decode_config(data: bytes) -> None:
    """A configuration out of JSON or msgpack is one that is written and read again as it is."""
    try:
        stored = unpack(data[1:]) if data[0] % 2 else json.loads(data[1:])
    except (CorruptIndexError, ValueError, RecursionError):
        return
    with contextlib.suppress(FormatError):
        config = Config.from_dict(stored)
        assert Config.from_dict(config.to_dict()) == config


_RECORDS: list[Any] = [
    ["key", {"n": [1, None, 2.5]}, 1_700_000_000_000_000, 3],
    [12, None, 7, 1],
    [b"bytes", "text", 7, 2, 4, encode_kept(np.array([1, 5, 9], np.uint64))],
    ["k", None, 7, 3, None, None, 99],
]


def _config_seeds() -> list[bytes]:
    configs = [Config(), Config(num_perm=0), Config(shingles=CharShingles(4), simhash=SimHashConfig(3, 5))]
    return [form for config in configs for form in _forms(config.to_dict())]


def _forms(stored: dict[str, Any]) -> list[bytes]:
    return [b"\0" + json.dumps(stored).encode(), b"\1" + pack(stored)]


def _meta_seeds() -> list[bytes]:
    segments = (SegmentEntry(1, 0, 12, 12, 1, 11, 11, 9),)
    recent = Recent({12: b"a record"}, {3: 1})
    manifests = Manifest(), Manifest(20, 3, 12, 1, 12, 7, 1, recent, segments)
    header = encode_header(Header(Layout(), 4, Config(num_perm=16).to_dict(), bytes(16)))
    return [
        b"\0" + header[:-SEAL_BYTES],
        *(b"\1" + encode_manifest(manifest)[:-SEAL_BYTES] for manifest in manifests),
    ]


def _count_seeds() -> list[bytes]:
    run = encode_run(Run(7, 3, 20))[:8]
    kept = encode_kept(np.array([3, 70, 500_000], np.uint64))
    mark = (3).to_bytes(8, "little")
    return [
        b"\0" + mark,
        b"\1" + mark,
        b"\2" + run,
        b"\x11" + run + _RUN_KEY,
        b"\3" + kept,
        b"\4" + _DOC_ID_KEY,
    ]


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]] = {
    "records": (decode_a_record, lambda: [b"\0" + pack(record) for record in _RECORDS]),
    "counts": (decode_counts, _count_seeds),
    "meta": (decode_meta, _meta_seeds),
    "config": (decode_config, _config_seeds),
}
