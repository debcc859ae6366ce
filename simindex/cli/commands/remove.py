"""`simindex remove`: remove documents from an index, by key."""

from __future__ import annotations

from typing import Annotated

import typer

from simindex.cli import options, reading
from simindex.cli.creation import open_for_change
from simindex.cli.failures import INTERRUPTED, CommandError
from simindex.cli.output import Reports, counted, note, print_json
from simindex.cli.progress import work_bar
from simindex.format.keys import Key
from simindex.inputs import sound
from simindex.jsonable import plain

_KEYS_A_COMMIT = 10_000

EXAMPLES = r"""
simindex remove news.simindex a
simindex list news.simindex | head -1 | simindex remove news.simindex -
simindex remove archive.simindex --rows news.jsonl --key-from content
"""


def run(
    index: options.IndexFolder,
    keys: reading.Keys = None,
    input_: reading.KeysFile = None,
    int_keys: reading.IntKeys = False,
    rows: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Remove the keys of these rows or files, as insert makes them."),
    ] = None,
    *,
    reads: reading.KeyOptions,
    wait: options.Wait = 0.0,
    as_json: options.JsonSummary = False,
) -> None:
    """Remove documents from an index.

    Keys that are not in the index are reported, and the exit code is 1; the others are removed.
    """
    wanted = (
        reading.given_keys(keys, input_, int_keys, reads.limits) if rows is None or keys or input_ else []
    )
    if rows is not None:
        wanted += [row.key for row in sound(reads.inputs([rows], keys_only=True))]
        wanted = list(dict.fromkeys(wanted))
    removed = 0
    missing: list[Key] = []
    reports = Reports("missing key")
    with open_for_change(index, wait) as target, work_bar("keys", len(wanted)) as advance:
        try:
            for first in range(0, len(wanted), _KEYS_A_COMMIT):
                some = wanted[first : first + _KEYS_A_COMMIT]
                absent = [key for key in some if key not in target]
                removed += target.remove_many(some)
                missing += absent
                for key in absent:
                    reports.add(options.missing_key(target, key))
                advance(first + len(some), first + len(some))
        except KeyboardInterrupt:
            raise CommandError(f"interrupted; {counted(removed, 'document')} removed", INTERRUPTED) from None
    reports.close()
    if as_json:
        print_json({"removed": removed, "missing": [plain(key) for key in missing]})
    else:
        note(f"{counted(removed, 'document')} removed, {counted(len(missing), 'key')} missing")
    if missing:
        raise typer.Exit(1)
