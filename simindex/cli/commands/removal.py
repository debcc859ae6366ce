"""`simindex remove` and `expire`: take documents out of an index, by key or by age."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from itertools import islice

from click import BadParameter
from click.exceptions import Exit

from simindex.cli import options, reading
from simindex.cli.command import Parsed, command, option, share, takes
from simindex.cli.failures import INTERRUPTED, CommandError
from simindex.cli.output import Reports, counted, print_summary, progress_bar, work_bar
from simindex.errors import RemovalLimitError
from simindex.format.keys import Key
from simindex.index import open as open_index
from simindex.jsonable import plain

_KEYS_A_COMMIT = 10_000


@command(
    "remove",
    """
simindex remove news.simindex a
simindex list news.simindex | head -1 | simindex remove news.simindex -
simindex remove archive.simindex --rows news.jsonl --key-from content
""",
)
@options.index_folder
@reading.keys_argument
@reading.keys_file
@reading.int_keys
@option("--rows", metavar="FILE", help="Remove the keys of these rows or files, as insert makes them.")
@takes("reads", options.KeyOptions)
@options.wait
@options.json_summary
def remove(
    index: str,
    keys: tuple[str, ...],
    input_: str | None,
    int_keys: bool,
    rows: str | None,
    reads: options.KeyOptions,
    wait: float,
    as_json: bool,
) -> None:
    """Remove documents from an index.

    Keys that are not in the index are reported, and the exit code is 1; the others are removed.
    """
    wanted: dict[Key, None] = {}
    if rows is None or keys or input_:
        wanted |= dict.fromkeys(reading.given_keys(keys, input_, int_keys))
    if rows is None:
        reads.require_defaults("--rows")
    else:
        wanted |= dict.fromkeys(row.key for row in reads.inputs([rows], keys_only=True))
    removed = done = 0
    missing: list[Key] = []
    reports, left = Reports("missing key"), iter(wanted)
    with open_index(index, "r+", timeout=wait) as target, work_bar("keys", len(wanted)) as advance:
        try:
            while some := [options.stored_key(target, key) for key in islice(left, _KEYS_A_COMMIT)]:
                absent = [key for key in some if key not in target]
                removed += target.remove_many(some)
                missing += absent
                for key in absent:
                    reports.add(options.missing_key(target, key))
                done += len(some)
                advance(done, done)
        except KeyboardInterrupt:
            raise CommandError(f"interrupted; {counted(removed, 'document')} removed", INTERRUPTED) from None
    reports.close()
    counts = {"removed": removed, "missing": [plain(key) for key in missing]}
    sentence = f"{counted(removed, 'document')} removed, {counted(len(missing), 'key')} missing"
    print_summary(counts, sentence, as_json)
    if missing:
        raise Exit(1)


_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


def parse_duration(text: str) -> timedelta:
    """Return the duration that was written on the command line, in w, d, h, m and s; BadParameter where it is
    none.

    >>> parse_duration("30d"), parse_duration("1d12h")
    (datetime.timedelta(days=30), datetime.timedelta(days=1, seconds=43200))
    """
    parts = re.findall(r"(\d{1,9})([wdhms])", text.strip().lower(), re.ASCII)
    if not parts or "".join(number + unit for number, unit in parts) != text.strip().lower():
        raise BadParameter(f"expected a duration, like 30d, 12h, 90m or 1d12h, found {text!r}")
    try:
        return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())
    except OverflowError:
        raise BadParameter(f"expected a duration below a million years, found {text!r}") from None


def time_before(text: str) -> datetime:
    """Return the time in UTC that lies so long ago as was written on the command line, as `parse_duration`
    reads it; BadParameter where that lies before the year 1."""
    try:
        return datetime.now(UTC) - parse_duration(text)
    except OverflowError:
        raise BadParameter(f"expected a time in the calendar, found {text!r}") from None


def parse_time(text: str) -> datetime:
    """Return the time, in the local zone, that was written on the command line in ISO 8601; without a zone it
    is taken as local. BadParameter where it is none."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError):
        raise BadParameter(f"expected a time, like 2026-11-01 or 2026-11-01T12:00Z, found {text!r}") from None


@command(
    "expire",
    """
simindex expire news.simindex --older-than 30d
simindex expire news.simindex --before 2026-01-01
""",
)
@options.index_folder
@option(
    "--before",
    type=Parsed(parse_time),
    metavar="TIME",
    help="Remove documents older than TIME, like 2026-11-01.",
)
@option(
    "--older-than",
    type=Parsed(time_before),
    metavar="DURATION",
    help="Remove documents older than this: 30d, 12h, 90m, 1d12h.",
)
@share(
    "--at-most",
    default=0.5,
    show_default=True,
    help="Remove nothing if more than this share of the documents would go; 1 allows all.",
)
@options.wait
@options.json_summary
def expire(
    index: str,
    before: datetime | None,
    older_than: datetime | None,
    at_most: float,
    wait: float,
    as_json: bool,
) -> None:
    """Remove documents older than a time.

    Their age counts from the last insert or touch. A TIME is of the local time zone, unless it names another
    (2026-11-01T12:00Z, +02:00).
    """
    limit = before or older_than
    if limit is None or (before is not None and older_than is not None):
        raise BadParameter("expected one of --before and --older-than")
    began = time.monotonic()
    with open_index(index, "r+", timeout=wait) as target, progress_bar("expiring"):
        try:
            removed = target.expire(limit, at_most=at_most)
        except RemovalLimitError as exc:
            raise CommandError(
                f"expected at most {exc.at_most:g} of the {counted(exc.stored, 'document')} to be older than "
                f"{limit.isoformat()}, found {exc.found:,} or more; nothing was removed. If all of them "
                "shall go: --at-most 1"
            ) from None
        left = len(target)
    counts = {"removed": removed, "left": left, "before": limit.isoformat()}
    done = f"{counted(removed, 'document')} removed, {left:,} left"
    print_summary(counts | {"seconds": time.monotonic() - began}, done, as_json)
