"""A table of inputs: each format, plain and packed, with each trouble that such files have; and an oracle
that reads them by the standard library and pyarrow alone, as `docs/command-line.md` says.
"""

import csv
import importlib
import io
import json
import lzma
import os
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from gzip import compress as gzip_compress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow
from pyarrow import parquet

_ZSTD: Any = importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip_compress,
    ".xz": lzma.compress,
    ".zst": _ZSTD.compress,
}
_UNPACKERS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(31),
    ".xz": lzma.LZMADecompressor,
    ".zst": _ZSTD.ZstdDecompressor,
}

_WORDS = [f"{first}{second}" for first in "bdfgklmnprst" for second in ("ano", "elu", "imo", "oke", "usa")]
_RANDOM = Random(1)
TEXTS = [" ".join(_RANDOM.choices(_WORDS, k=24)) for _ in range(6)]
"""Texts that have no three words in a row in common, or hardly."""


@dataclass(frozen=True)
class Kind:
    """An input of the table."""

    format: str
    packing: str
    trouble: str


class Read(NamedTuple):
    """What is in an input."""

    rows: list[tuple[str, str]]  # key and text
    bad: list[str]  # places of bad rows
    bad_files: list[str]


TABLES = ("csv", "tsv", "parquet")
LINES = ("jsonl", "json", "csv", "tsv")
FORMATS = (*LINES, "parquet", "txt", "folder", "warc")
TROUBLES = {
    "none": FORMATS,
    "empty": FORMATS,
    "header alone": ("jsonl", "json", *TABLES, "warc"),
    "one row": FORMATS,
    "one text": FORMATS,  # so that the first row alone stays
    "bad row first": FORMATS,
    "bad row in the middle": FORMATS,
    "bad row last": FORMATS,
    "bad rows alone": ("jsonl", "json", *TABLES, "txt", "folder", "warc"),
    "bad file among good ones": FORMATS,
    "column of texts twice": ("jsonl", "json", *TABLES),
    "column of texts twice, and a good file": TABLES,
    "other column twice": ("jsonl", "json", *TABLES),
    "wrong encoding": (*LINES, "parquet", "txt", "folder"),
    "mixed line ends": (*LINES, "txt", "folder"),
    "carriage returns alone": ("csv", "tsv", "jsonl"),
    "quote in the header": ("csv", "tsv"),
    "cut": FORMATS,
}
"""Troubles, and the formats that have them."""


def kinds() -> list[Kind]:
    """The whole table."""
    return [
        Kind(name, packing, trouble)
        for trouble, names in TROUBLES.items()
        for name in names
        for packing in ([""] if name == "parquet" else PACKERS)
    ]


# ---- the files ----


def make(kind: Kind, folder: Path) -> str:
    """Make the files of an input below a folder, `in`; returns its path, or a pattern."""
    below, suffix = folder / "in", "txt" if kind.format == "folder" else kind.format
    below.mkdir()
    pack, trouble = PACKERS[kind.packing], kind.trouble

    def put(name: str, content: bytes) -> str:
        packed = pack(content) if kind.format != "parquet" else content
        if trouble == "cut" and name == "a":
            packed = packed[: len(packed) * 2 // 3]
        (below / f"{name}.{suffix}{kind.packing}").write_bytes(packed)
        return f"in/{name}.{suffix}{kind.packing}"

    if trouble == "bad file among good ones":
        put("a", _content(kind.format, TEXTS[:2], "none"))
        os.symlink("self", below / f"self.{suffix}")
        put("z", _content(kind.format, TEXTS[2:4], "none", first=2))
        return "in" if kind.format == "folder" else "in/*"
    if kind.format in ("txt", "folder"):
        for index, content in enumerate(_texts(trouble)):
            if content is None:
                os.symlink("nowhere", below / f"{'abcdefg'[index]}.txt")
            else:
                put("abcdefg"[index], content)
        return "in" if kind.format == "folder" else "in/*"
    if trouble.endswith("and a good file"):
        put("z", _content(kind.format, TEXTS[4:6], "none", first=4))
    texts = {"one row": TEXTS[:1], "one text": TEXTS[:1] * 3, "empty": [], "header alone": []}
    path = put("a", _content(kind.format, texts.get(trouble, TEXTS[:4]), trouble))
    return "in/*" if trouble.endswith("and a good file") else path


def _texts(trouble: str) -> list[bytes | None]:
    """The contents of text files, ``None`` for a link that leads nowhere."""
    good = [text.encode() for text in TEXTS[:3]]
    made: dict[str, list[Any]] = {
        "empty": [b""],
        "one row": [*good[:1]],
        "one text": good[:1] * 3,
        "bad row first": [None, *good],
        "bad row in the middle": [good[0], None, *good[1:]],
        "bad row last": [*good, None],
        "bad rows alone": [None, None],
        "wrong encoding": [good[0], good[1].replace(b"a", b"\xe9", 1)],
        "mixed line ends": [good[0].replace(b" ", b"\r\n", 2).replace(b" ", b"\n", 2), good[1]],
    }
    return made.get(trouble, [*good])


def _content(form: str, texts: list[str], trouble: str, first: int = 0) -> bytes:
    """The bytes of a file with rows of some texts; `first`: the number of the first."""
    rows: list[Any] = [
        {"id": f"k{number}", "text": text, "n": "m"} for number, text in enumerate(texts, first)
    ]
    if trouble == "empty":
        return b""
    if form in ("txt", "folder"):
        return texts[0].encode()
    bad_at = {"bad row first": 0, "bad row in the middle": 2, "bad row last": len(rows)}.get(trouble)
    if bad_at is not None:
        rows.insert(bad_at, None)
    if trouble == "bad rows alone":
        rows = [None, None]
    made = {"parquet": _parquet, "warc": _warc, "json": _json}.get(form)
    if made is not None:
        content = made(rows, trouble)
    elif form == "jsonl":
        content = b"".join(_line(row, trouble) + b"\n" for row in rows) or b"\n \n"
    else:
        content = _csv(rows, trouble, "," if form == "csv" else "\t")
    if trouble == "wrong encoding" and form != "parquet":
        content = content.replace(texts[1].encode(), texts[1].encode().replace(b"a", b"\xe9", 1))
    if trouble == "mixed line ends":
        content = content.replace(b"\n", b"\r\n", 2)
    if trouble == "carriage returns alone":
        content = content.replace(b"\n", b"\r")
    return content


def _line(row: Any, trouble: str) -> bytes:
    if row is None:
        return b"{oops"
    line = json.dumps(row).encode()
    if trouble == "column of texts twice":
        return line.replace(b'"text"', b'"text": "first", "text"')
    return line.replace(b'"n"', b'"n": "l", "n"') if trouble == "other column twice" else line


def _json(rows: list[Any], trouble: str) -> bytes:
    return b"[" + b",\n".join(b"5" if row is None else _line(row, trouble) for row in rows) + b"]\n"


def _csv(rows: list[Any], trouble: str, delimiter: str) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    twice = {"column of texts twice": "text", "other column twice": "n"}
    own = twice.get(trouble.removesuffix(", and a good file"))
    writer.writerow(["id", "text", "n", *([own] if own else [])])
    for row in rows:
        cells = ["bad", "too", "many", "cells", "here"] if row is None else [*row.values()]
        writer.writerow([*cells, *(["more"] if own and row is not None else [])])
    content = text.getvalue().encode()
    return content.replace(b"id", b'"id', 1) if trouble == "quote in the header" else content


def _parquet(rows: list[Any], trouble: str) -> bytes:
    keys = pyarrow.array([row and row["id"] for row in rows], pyarrow.string())
    texts = pyarrow.array([row and row["text"] for row in rows], pyarrow.string())
    if trouble == "wrong encoding":
        parts = [row["text"].encode() for row in rows]
        parts[1] = parts[1].replace(b"a", b"\xe9", 1)
        ends = [0]
        for part in parts:
            ends.append(ends[-1] + len(part))
        buffers = [
            pyarrow.py_buffer(struct.pack(f"<{len(ends)}i", *ends)),
            pyarrow.py_buffer(b"".join(parts)),
        ]
        texts = pyarrow.StringArray.from_buffers(len(parts), *buffers)
    columns, names = [keys, texts, keys], ["id", "text", "n"]
    if trouble.startswith("column of texts twice"):
        columns, names = [*columns, texts], [*names, "text"]
    if trouble == "other column twice":
        columns, names = [*columns, texts], [*names, "n"]
    made = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=names), made)
    return made.getvalue()


def _warc(rows: list[Any], _: str) -> bytes:
    return b"".join([_record("warcinfo", "", b"software: none"), *map(_page, rows)])


def _page(row: Any) -> bytes:
    key, text = ("bad", "x") if row is None else (row["id"], row["text"])
    label = "; charset=iso-2022-kr" if row is None else ""  # which browsers refuse
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain{label}\r\n"
    return _record("response", f"https://a.example/{key}", f"{head}\r\n{text}".encode())


def _record(kind: str, url: str, content: bytes) -> bytes:
    to = f"WARC-Target-URI: {url}\r\n" if url else ""
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\n{to}WARC-Date: 2026-01-02T03:04:05Z\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content + b"\r\n\r\n"


# ---- the oracle ----


def read_plainly(kind: Kind) -> Read:
    """What is in the files of an input, which lie in the folder `in`."""
    found = Read([], [], [])
    read = _OF[kind.format]
    for entry in sorted(os.listdir("in")):
        path = f"in/{entry}"
        try:
            content, is_whole = _unpacked(path, kind.packing)
        except OSError:
            found.bad_files.append(path)
            continue
        read(path, content, is_whole, found)
    return found


def _unpacked(path: str, packing: str) -> tuple[bytes, bool]:
    content = Path(path).read_bytes()
    if not packing or not content:
        return content, True
    unpacker = _UNPACKERS[packing]()
    return unpacker.decompress(content), unpacker.eof


def _take(found: Read, origin: str, row: Any) -> None:
    """Take a row of JSON, Parquet or a table, where it is one."""
    if isinstance(row, dict) and isinstance(row.get("id"), str) and isinstance(row.get("text"), str):
        found.rows.append((row["id"], row["text"]))
    else:
        found.bad.append(origin)


def _read_jsonl(path: str, content: bytes, is_whole: bool, found: Read) -> None:
    lines = content.split(b"\n")
    for number, line in enumerate(lines if is_whole else lines[:-1], 1):
        if line.strip():
            try:
                _take(found, f"{path}:{number}", json.loads(line.decode()))
            except ValueError:
                found.bad.append(f"{path}:{number}")
    if not is_whole:
        found.bad_files.append(path)


def _read_json(path: str, content: bytes, is_whole: bool, found: Read) -> None:
    try:
        rows = json.loads(content.decode()) if is_whole else None
    except ValueError:
        rows = None
    if rows is None:
        found.bad_files.append(path)
    for number, row in enumerate(rows or (), 1):
        _take(found, f"{path}:{number}", row)


def _read_csv(path: str, content: bytes, is_whole: bool, found: Read) -> None:
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    delimiter = "," if ".csv" in path else "\t"
    rows: Iterator[list[str]] = csv.reader(
        (line + "\n" for line in (lines if is_whole else lines[:-1]) if line),
        delimiter=delimiter,
        strict=True,
    )
    try:
        header = next(rows, None)
    except csv.Error:
        header = []
    if header is not None and header.count("text") != 1:
        found.bad_files.append(path)
        return
    for number, cells in enumerate(rows, 2):
        is_row = header is not None and len(cells) == len(header) and _is_text("".join(cells))
        _take(found, f"{path}:{number}", dict(zip(header or (), cells, strict=True)) if is_row else None)
    if not is_whole:
        found.bad_files.append(path)


def _is_text(text: str) -> bool:
    return not any(0xD800 <= ord(character) < 0xE000 for character in text)


def _read_parquet(path: str, content: bytes, _: bool, found: Read) -> None:
    try:
        table = parquet.ParquetFile(io.BytesIO(content)).read()
        if table.column_names.count("text") != 1:
            raise ValueError(table.column_names)
    except (OSError, ValueError):
        found.bad_files.append(path)
        return
    for number in range(table.num_rows):
        try:
            (row,) = table.select(["id", "text"]).slice(number, 1).to_pylist()
        except UnicodeDecodeError:
            row = None
        _take(found, f"{path}:{number + 1}", row)


def _read_text(path: str, content: bytes, is_whole: bool, found: Read) -> None:
    if is_whole:
        found.rows.append((path, content.decode("utf-8", "replace")))
    else:
        found.bad_files.append(path)


def _read_warc(path: str, content: bytes, is_whole: bool, found: Read) -> None:
    """Read the records of `_warc`: the first is no page."""
    number, at = 0, 0
    while at < len(content):
        head, _, rest = content[at:].partition(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        size = int(fields.get(b"Content-Length", b"-1"))
        if not 0 <= size <= len(rest):
            is_whole = False
            break
        number, at = number + 1, at + len(head) + 4 + size + 4
        http, _, text = rest[:size].partition(b"\r\n\r\n")
        if b"iso-2022-kr" in http:
            found.bad.append(f"{path}:{number}")
        elif b"HTTP/1.1" in http:
            found.rows.append((fields[b"WARC-Target-URI"].decode(), text.decode()))
    if not is_whole:
        found.bad_files.append(path)


_OF: dict[str, Callable[[str, bytes, bool, Read], None]] = {
    "jsonl": _read_jsonl,
    "json": _read_json,
    "csv": _read_csv,
    "tsv": _read_csv,
    "parquet": _read_parquet,
    "txt": _read_text,
    "folder": _read_text,
    "warc": _read_warc,
}


def distinct(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The rows without those whose text came before."""
    found: dict[str, str] = {}
    for key, text in rows:
        found.setdefault(text, key)
    return [(key, text) for text, key in found.items()]
