"""`simindex remove`: documents out of an index, by key.

Owns the commits and the report of missing keys.
"""

from __future__ import annotations

import typer

from simindex.cli import keys as given
from simindex.cli import options
from simindex.cli.creation import open_for_change
from simindex.cli.failures import INTERRUPTED, CommandError
from simindex.cli.output import Reports, counted, json_key, note, print_json
from simindex.cli.progress import work_bar
from simindex.format.keys import Key

_KEYS_A_COMMIT = 10_000

EXAMPLES = r"""
simindex remove news.simindex a
simindex list news.simindex | head -1 | simindex remove news.simindex -
"""


def run(
    index: options.IndexFolder,
    keys: given.Keys = None,
    input_: given.KeysFile = None,
    int_keys: given.IntKeys = False,
    max_line: options.MaxLine = None,
    max_window: options.MaxWindow = None,
    max_ratio: options.MaxRatio = None,
    wait: options.Wait = 0.0,
    as_json: options.JsonSummary = False,
) -> None:
    """Remove documents from an index.

    Keys that are not in the index are reported, and the exit code is 1; the others are removed all the same.
    """
    limits = options.limits(locals())
    wanted = given.given_keys(keys, input_, int_keys, limits)
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
        print_json({"removed": removed, "missing": [json_key(key) for key in missing]})
    else:
        note(f"{counted(removed, 'document')} removed, {counted(len(missing), 'key')} missing")
    if missing:
        raise typer.Exit(1)
