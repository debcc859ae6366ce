"""How a command reads its inputs: answers to their rows, and keys.

`simindex.inputs` reads them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import numpy as np
from click import BadParameter

from simindex.batching import bytes_of_item, in_parts
from simindex.cli.command import argument, flag, option
from simindex.cli.options import FileOptions, parse_int, parse_key
from simindex.cli.output import Advance, counted, note
from simindex.config import FEW_SHINGLES, WordShingles
from simindex.format.keys import Key
from simindex.inputs import BadRowError, Fields, InputError, Inputs, Row, Source, rows, sound
from simindex.sketching.shingles import shingle_hashes_of
from simindex.sketching.sketch import Sketch

_LOOKED_AT = 1_000


def parse_fingerprint(text: str, base: int) -> Sketch:
    """Return the fingerprint that was written on the command line as a Sketch; BadParameter where it is
    none."""
    try:
        return Sketch.from_fingerprint(rows.parse_fingerprint(text, base))
    except ValueError as exc:
        raise BadParameter(f"--fingerprint: {exc}") from None


def require_ids(paths: Sequence[str], reads: FileOptions) -> None:
    """Raise BadParameter where an --id-field was given that none of the first 1,000 rows of the first file
    has: it would go unnoticed. Folders and standard input are not looked at."""
    files = [path for path in paths if os.path.isfile(path)]
    if reads.id_field == Fields.id or not files:
        return
    bad = list[BadRowError]()

    def take(row: BadRowError) -> None:
        bad.append(row)
        if len(bad) == _LOOKED_AT:
            raise row

    with suppress(InputError, OSError):  # which is said when it is read
        if next(iter(reads.inputs(files[:1], on_bad_row=take)), None) is not None:
            return
    if bad and bad[0].reason.startswith("expected a key in the field"):
        reason = bad[0].reason.partition(";")[0]
        raise BadParameter(f"--id-field: {reason}, and none of the first {_LOOKED_AT:,} rows has it")


_SHORT_LEAST = 20
"""The fewest texts that say anything."""


def note_short_texts(inputs: Inputs) -> None:
    """Print a note where half of the texts that were read first, 20 at least, are short for the default
    shingles."""
    texts = inputs.first_texts
    if len(texts) < _SHORT_LEAST:
        return
    _, counts = shingle_hashes_of(texts, WordShingles(), 0)
    median = int(np.median(counts))
    if median < FEW_SHINGLES:
        note(
            f"half of the first {len(texts)} texts have at most {counted(median, 'shingle')} of three words, "
            "so that near copies are missed; --short-texts has settings for such texts"
        )


Answer = TypeVar("Answer")

_ROWS_A_TIME = 256


def answers(
    inputs: Inputs, ask: Callable[[list[Row]], Iterable[Answer]], advance: Advance | None = None
) -> Iterator[list[tuple[Key, Answer]]]:
    """Yield lists of (key of a row, its answer), in order; `ask` gets up to 256 rows and returns an answer
    for each. Where the rows end in an error, those before it are answered first. `advance` gets the rows and
    bytes done."""
    done = 0
    for part in in_parts(inputs, _ROWS_A_TIME, bytes_of_item, keeps_rest=True):
        yield list(zip([row.key for row in part.values], ask(part.values), strict=True))
        done += len(part.values)
        if advance is not None:
            advance(done, inputs.bytes_read)


keys_argument = argument("keys", "KEY...", "Keys; - reads them from stdin, one per line.", nargs=-1)
keys_file = option("--input", "input_", metavar="FILE", help="A file with one key per line; - for stdin.")
int_keys = flag("--int", "int_keys", help="Keys are integers.")


def given_keys(keys: Sequence[str], file: str | None, int_keys: bool) -> list[Key]:
    """Return the keys that were asked for, by arguments and then by the lines of a file, each once, in order.
    Raises BadParameter where there is neither, or an argument is no integer, with `int_keys`, and InputError
    for such a line."""
    if not keys and file is None:
        raise BadParameter("expected KEY... or --input")
    wanted: list[Key] = []
    for key in keys:
        wanted += _lines_of("-", int_keys) if key == "-" else [parse_key(key, int_keys)]
    if file is not None:
        wanted += _lines_of(file, int_keys)
    return list(dict.fromkeys(wanted))


def _lines_of(path: str, int_keys: bool) -> list[Key]:
    """Return the keys of a file, or of standard input for "-": a line each, without empty ones. Raises
    InputError for a line that is no integer, with `int_keys`."""
    keys: list[Key] = []
    source = Source(path)
    with source.lines() as lines:
        for line in sound(lines):
            # Bytes that are not UTF-8 come out as they do in a file name, and so in a key made of one.
            text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
            if lines.number == 1:
                text = text.removeprefix("\ufeff")  # a byte order mark, as editors of Windows write it
            if not text:
                continue
            try:
                keys.append(parse_int(text) if int_keys else text)
            except ValueError:
                origin = f"{source.name}:{lines.number}"
                raise InputError(origin, f"expected an integer, found {text!r:.80}") from None
    return keys
