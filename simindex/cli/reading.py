"""How a command reads its inputs: the options for it, rows in batches, and keys.

`simindex.inputs` reads them.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, ClassVar, TypeVar

import typer

from simindex.batching import bytes_of_item, in_parts
from simindex.cli.command import word
from simindex.cli.options import AtLeast1, MaxRow, parse_key
from simindex.cli.output import Advance, counted, note
from simindex.format.keys import Key
from simindex.inputs import (
    FORMATS,
    BadRowError,
    Fields,
    InputError,
    Inputs,
    KeyFrom,
    Limits,
    Reading,
    Row,
    Source,
    Tally,
    rows,
    sound,
)
from simindex.sketching.sketch import Sketch

_LOOKED_AT = 1_000


def parse_encoding(text: str) -> str:
    """Return the name of a text encoding."""
    try:
        "".encode(text)
        codecs.getincrementaldecoder(text)
    except (LookupError, ValueError):  # ValueError: a zero byte in the name
        raise typer.BadParameter(f"expected an encoding, like latin-1 or utf-16, found {text!r}") from None
    return text


def parse_delimiter(text: str) -> str:
    """Return a delimiter: one character, or the word tab."""
    delimiter = "\t" if text in ("tab", "\\t") else text
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise typer.BadParameter(f"expected one character, like ';', or tab; found {text!r}")
    return delimiter


def parse_base(text: str) -> int:
    """Return the base of digits, 16 or 10."""
    if text not in ("10", "16"):
        raise typer.BadParameter(f"expected 16 or 10, found {text!r}")
    return int(text)


def parse_fingerprint(text: str, base: int) -> Sketch:
    """Return the fingerprint that was written on the command line."""
    try:
        return Sketch.from_fingerprint(rows.parse_fingerprint(text, base))
    except ValueError as exc:
        raise typer.BadParameter(f"--fingerprint: {exc}") from None


Encoding = Annotated[
    str,
    typer.Option(metavar="NAME", parser=parse_encoding, help="Encoding of text, CSV and JSON, like latin-1."),
]

_FIELDS = {
    "id_field": "id",
    "text_field": "text",
    "key_from": "key_from",
    "fingerprint_field": "fingerprint",
    "fingerprint_base": "fingerprint_base",
    "metadata": "metadata",
    "metadata_field": "metadata_from",
}
"""The fields of `Fields` by the options that set them."""


@dataclass(frozen=True)
class FileOptions:
    """How the rows of files are read.

    Options:
        id_field NAME: The field or column of a row's key.
        text_field NAME: The field or column of its text, or of a list of ready shingles.
        format_: Format of the inputs (default: by suffix; stdin: jsonl).
        delimiter CHAR: Delimiter of CSV cells, like ';' (default comma; .tsv: tab).
        glob PATTERN: In folders, read only files of this name, like '*.py'. May be repeated.
        hidden: In folders, also read hidden files and folders, except .git.
        max_ratio N: Refuse a row over a quarter of --max-row that unpacks to more than N times its compressed
            size.
    """

    heading: ClassVar = "Inputs"

    id_field: str = "id"
    text_field: str = "text"
    format_: Annotated[str, word(tuple(FORMATS))] | None = None
    encoding: Encoding = "utf-8"
    delimiter: Annotated[str, typer.Option(parser=parse_delimiter)] | None = None
    glob: list[str] | None = None
    hidden: bool = False
    max_row: MaxRow = Limits.row
    max_ratio: AtLeast1 = Limits.ratio

    @property
    def limits(self) -> Limits:
        """How much of them may be held in memory."""
        return Limits(self.max_row, self.max_ratio)

    def inputs(self, paths: Sequence[str], leave_out: str | None = None, **fields: Any) -> Inputs:
        """Return the inputs at some paths; `fields` are of `Fields`, in place of what the options say."""
        reading = Reading(self.format_, self.encoding, self.delimiter, tuple(self.glob or ()), self.hidden)
        given = {_FIELDS[option]: value for option, value in vars(self).items() if option in _FIELDS}
        return Inputs(
            paths, Fields(**given | fields), reading=reading, limits=self.limits, leave_out=leave_out
        )


@dataclass(frozen=True)
class KeyOptions(FileOptions):
    """Also what stands for a missing key, or for a text.

    Options:
        key_from: Make a key for rows without one: from the content, so that equal rows are one document; or
            from the line, as FILE:LINE.
        fingerprint_field NAME: Read a 64-bit SimHash fingerprint from this field or column instead of a text:
            an integer, signed or not, or its digits.
        fingerprint_base 16|10: Base of fingerprints that are written as digits.
    """

    key_from: KeyFrom | None = None
    fingerprint_field: str | None = None
    fingerprint_base: Annotated[int, typer.Option(parser=parse_base)] = 16


@dataclass(frozen=True)
class ComparedOptions(KeyOptions):
    """The same of rows that are looked up: one without a key has its place."""

    key_from: KeyFrom | None = "line"


@dataclass(frozen=True)
class InsertOptions(KeyOptions):
    """Also what is kept of a row beside its text.

    Options:
        metadata: Keep the other fields of a row as its metadata.
        metadata_field NAME: Keep the value of this field as a row's metadata.
    """

    metadata: bool = False
    metadata_field: str | None = None


def require_ids(paths: Sequence[str], reads: FileOptions) -> None:
    """Refuse an --id-field that no row at the beginning of the first file has: it would go unnoticed."""
    files = [path for path in paths if os.path.isfile(path)]
    if reads.id_field == Fields.id or not files:
        return
    first: BadRowError | None = None
    for row in islice(reads.inputs(files[:1]), _LOOKED_AT):
        if not isinstance(row, BadRowError):
            return
        first = first or row
    if first is not None and first.reason.startswith("expected a key in the field"):
        reason = first.reason.partition(";")[0]
        raise typer.BadParameter(f"--id-field: {reason}, and none of the first {_LOOKED_AT:,} rows has it")


def note_tally(tally: Tally, encoding: str) -> None:
    """Say what was passed over in folders, and which text is not as it was."""
    passed_over = [counted(tally.binary, "binary file")] if tally.binary else []
    if tally.hidden:
        hidden = counted(tally.hidden, "hidden file or folder", "hidden files or folders")
        passed_over.append(f"{hidden}; --hidden takes {'it' if tally.hidden == 1 else 'them'}")
    if passed_over:
        note(f"simindex: left out of folders: {', '.join(passed_over)}")
    if tally.tables:
        files = counted(tally.tables, "file")
        note(
            f"simindex: {files} of folders named as tables or JSON, each read as one text; --format, or a "
            "pattern like 'FOLDER/*.jsonl.gz', reads their rows"
        )
    if tally.records:
        records = counted(tally.records, "record")
        note(f"simindex: left out of web archives: {records} without a page of status 2xx and text")
    if tally.mended:
        what = counted(tally.mended, "text file has", "text files have")
        known = "UTF-8" if encoding == "utf-8" else encoding
        note(f"simindex: {what} bytes that are not {known}, read as U+FFFD; --encoding names another")


Answer = TypeVar("Answer")

_ROWS_A_TIME = 256


def answers(
    inputs: Inputs, ask: Callable[[list[Row]], Iterable[Answer]], advance: Advance | None = None
) -> Iterator[list[tuple[Key, Answer]]]:
    """Yield the keys of rows with what `ask` returns, some at a time; then raise what ended the rows."""
    done = 0
    for part in in_parts(sound(inputs), _ROWS_A_TIME, bytes_of_item, keeps_rest=True):
        yield list(zip([row.key for row in part.values], ask(part.values), strict=True))
        done += len(part.values)
        if advance is not None:
            advance(done, inputs.bytes_read)


Keys = Annotated[
    list[str] | None, typer.Argument(metavar="KEY...", help="Keys; - reads them from stdin, one per line.")
]
KeysFile = Annotated[
    str | None, typer.Option("--input", metavar="FILE", help="A file with one key per line; - for stdin.")
]
IntKeys = Annotated[bool, typer.Option("--int", help="Keys are integers.")]


def given_keys(keys: Sequence[str] | None, file: str | None, int_keys: bool, limits: Limits) -> list[Key]:
    """Return the keys that were asked for, by arguments and by the lines of a file, each once, in order."""
    if not keys and file is None:
        raise typer.BadParameter("expected KEY... or --input")
    wanted: list[Key] = []
    for key in keys or ():
        wanted += _lines_of("-", int_keys, limits) if key == "-" else [parse_key(key, int_keys)]
    if file is not None:
        wanted += _lines_of(file, int_keys, limits)
    return list(dict.fromkeys(wanted))


def _lines_of(path: str, int_keys: bool, limits: Limits) -> list[Key]:
    """Return the keys of a file, a line each; empty lines are passed over."""
    keys: list[Key] = []
    source = Source(path, limits)
    with source.lines() as lines:
        for line in sound(lines):
            # Bytes that are not UTF-8 come out as they do in a file name, and so in a key made of one.
            text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
            if not text:
                continue
            try:
                keys.append(int(text) if int_keys else text)
            except ValueError:
                place = f"{source.name}:{lines.number}"
                raise InputError(place, f"expected an integer, found {text!r:.80}") from None
    return keys
