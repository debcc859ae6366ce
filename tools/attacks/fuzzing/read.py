"""Fuzzing of the readers: any bytes in a file are rows or an `InputError`, `BadRowError` among them.

Needs the packages that read a format; a target whose package is missing cannot run.
"""

from __future__ import annotations

import atexit
import gzip
import io
import json
import lzma
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from simindex.inputs import Fields, InputError, Inputs, Row, pass_over
from simindex.inputs.source import Limits

_LIMITS = Limits(row=1 << 16)
_FIELDS = [Fields(key_from="line"), Fields(key_from="content", metadata=True), Fields()]
_FOLDER = tempfile.TemporaryDirectory(
    prefix="simindex-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None
)
atexit.register(_FOLDER.cleanup)


def read_file(suffix: str, data: bytes) -> None:
    """Read a file; the first byte chooses the fields."""
    path = os.path.join(_FOLDER.name, f"fuzzed.{suffix}")
    with open(path, "wb") as file:
        file.write(data[1:])
    with suppress(InputError):
        for row in Inputs([path], _FIELDS[data[0] % len(_FIELDS)], on_bad_row=pass_over, limits=_LIMITS):
            assert type(row) is Row


_ROWS = [{"id": "a", "text": "one text"}, {"id": 2, "text": "another one"}, {"text": ["x", "y"], "n": None}]
_JSONL = "".join(json.dumps(row) + "\n" for row in _ROWS).encode()
_CSV = b'id,text\na,"one ""quoted"" text"\r\nb,two\n\n'
_PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2c\r\n<html><body><p>The ferry leaves.</p></body>\r\n0\r\n\r\n"
)


def _warc() -> bytes:
    head = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://a.example/1\r\n"
        "WARC-Date: 2026-01-02T03:04:05Z\r\nContent-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(_PAGE)}\r\n\r\n"
    )
    return head.encode() + _PAGE + b"\r\n\r\n"


def _zst() -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.compress(_JSONL)


def _parquet() -> bytes:
    import pyarrow
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"id": ["a", "b"], "text": ["one", "two"]}), file)
    return file.getvalue()


_SEEDS: dict[str, Callable[[], bytes]] = {
    "jsonl": lambda: _JSONL,
    "json": lambda: json.dumps(_ROWS).encode(),
    "csv": lambda: _CSV,
    "tsv": lambda: _CSV.replace(b",", b"\t"),
    "txt": lambda: "a text ä\n".encode(),
    "warc": _warc,
    "warc.gz": lambda: gzip.compress(_warc(), mtime=0),
    "jsonl.gz": lambda: gzip.compress(_JSONL, mtime=0),
    "jsonl.xz": lambda: lzma.compress(_JSONL),
    "jsonl.zst": _zst,
    "parquet": _parquet,
}


def _seeds(make: Callable[[], bytes]) -> list[bytes]:
    return [bytes([choice]) + make() for choice in range(len(_FIELDS))]


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]] = {
    suffix: (partial(read_file, suffix), partial(_seeds, make)) for suffix, make in _SEEDS.items()
}
