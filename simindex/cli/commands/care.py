"""`simindex check`, `repair`, `compact`, `backup`, `restore`, `merge`, `resketch`: calls of the library."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import get_args

from click import BadParameter
from click.exceptions import Exit

import simindex
from simindex import Config, SimHashConfig
from simindex.changes.documents import Conflict
from simindex.cli import options
from simindex.cli.command import argument, command, flag, number, word
from simindex.cli.failures import CommandError
from simindex.cli.options import with_distance
from simindex.cli.output import bytes_bar, counted, print_report, print_summary, work_bar
from simindex.index import open as open_index

_new_folder = argument("destination", "DEST", "The folder of the new index; missing, or empty.")


@command(
    "check",
    """
simindex check news.simindex
simindex check news.simindex --quick
simindex check news.simindex --json
""",
)
@options.index_folder
@flag("--quick", help="Check pages, counts and lengths only, not the contents of records and tables.")
@options.json_object
def check(index: str, quick: bool, as_json: bool) -> None:
    """Check an index for damage.

    The exit code is 1 if a problem is found.
    """
    with bytes_bar() as advance:
        report = simindex.check(index, "quick" if quick else "full", progress=advance)
    print_report(report, as_json)
    if not report.ok:
        raise Exit(1)


@command(
    "repair",
    """
simindex repair news.simindex saved.simindex
simindex repair news.simindex also-saved.simindex --json
""",
)
@options.index_folder
@_new_folder
@options.json_object
def repair(index: str, destination: str, as_json: bool) -> None:
    """Copy the undamaged part of an index into a new one.

    What is lost is printed. The exit code is 1 if a document or a sketch is.
    """
    with work_bar("documents") as advance:
        report = simindex.repair(index, destination, progress=advance)
    print_report(report, as_json)
    if not report.is_whole:
        raise Exit(1)


@command("compact", "simindex compact news.simindex")
@options.index_folder
@options.wait
@options.json_summary
def compact(index: str, wait: float, as_json: bool) -> None:
    """Merge all segments, and free the space of removed documents."""
    with open_index(index, "r+", timeout=wait) as stored:
        before = stored.stats().file_bytes
        with bytes_bar() as advance:
            stored.compact(advance)
        after = stored.stats().file_bytes
    counts = {"bytes_before": before, "bytes_after": after}
    print_summary(counts, f"{counted(before, 'byte')} before, {after:,} after", as_json)


@command(
    "backup",
    """
simindex backup news.simindex backup.simindex
simindex backup news.simindex s3://bucket/news
""",
)
@options.index_folder
@argument(
    "destination",
    "DEST",
    "A new folder, or an older backup of this index, which is brought up to date; or a store: s3://, gs://, "
    "or file:// and a folder.",
)
@options.json_summary
def backup(index: str, destination: str, as_json: bool) -> None:
    """Copy an index in use to a folder or an object store."""
    with open_index(index, "r") as stored, bytes_bar() as advance:
        report = stored.backup(destination, advance)
    kept = f", {report.reused_bytes / 1e6:,.1f} MB kept of the older backup" if not report.created else ""
    copied = f"{counted(report.documents, 'document')}: {report.copied_bytes / 1e6:,.1f} MB copied"
    print_summary(asdict(report), f"{copied}{kept}, in {report.seconds:,.1f} s", as_json)


@command("restore", "simindex restore s3://bucket/news news.simindex")
@argument("uri", "URI", "The backup: s3://, gs://, or file:// and a folder.")
@_new_folder
@options.json_summary
def restore(uri: str, destination: str, as_json: bool) -> None:
    """Make an index of a backup in an object store; every object of it is proved first."""
    with bytes_bar() as advance:
        report = simindex.restore(uri, destination, progress=advance)
    restored = f"{counted(report.documents, 'document')}: {report.num_bytes / 1e6:,.1f} MB restored"
    print_summary(asdict(report), f"{restored}, in {report.seconds:,.1f} s", as_json)


@command("merge", "simindex merge monday.simindex tuesday.simindex week.simindex --on-conflict replace")
@argument("paths", "INDEX... DEST", "The indexes, and the folder of the new one.", nargs=-1, required=True)
@word(
    "--on-conflict",
    words=get_args(Conflict),
    default="error",
    help="What to do with a key that an earlier index has.",
)
@options.json_summary
def merge(paths: tuple[str, ...], on_conflict: Conflict, as_json: bool) -> None:
    """Merge several indexes into a new one.

    It is made from their stored sketches, without the documents.
    """
    if len(paths) < 2:
        raise BadParameter("expected one index or more, and the folder of the new one")
    try:
        report = simindex.merge(paths[:-1], paths[-1], on_conflict)
    except simindex.KeyExistsError as exc:
        raise CommandError(
            f"key {exc.key!r} is in two of the indexes; use --on-conflict skip, which keeps that of the "
            "earlier one, or --on-conflict replace"
        ) from exc
    merged = f"{counted(report.inserted, 'document')} merged"
    others = f"{report.replaced:,} replaced, {report.skipped:,} skipped"
    print_summary(report._asdict(), f"{merged}, {others}", as_json)


@command(
    "resketch",
    """
simindex resketch news.simindex small.simindex --num-perm 64 --no-simhash
simindex resketch news.simindex wider.simindex --max-distance 5
""",
)
@options.index_folder
@_new_folder
@number("--num-perm", least=0, help="MinHash rows, at most those stored; 0: no MinHash.")
@number("--max-distance", least=0, help="Bits up to which SimHash search is complete, 0 to 8.")
@flag("--no-simhash", help="Keep no SimHash fingerprint.")
@number("--containment", least=0, help="Sample one in N shingles, no finer than stored; 0: none.")
@options.json_summary
def resketch(
    index: str,
    destination: str,
    num_perm: int | None,
    max_distance: int | None,
    no_simhash: bool,
    containment: int | None,
    as_json: bool,
) -> None:
    """Make an index with other settings from stored sketches.

    The old index is only read.
    """
    if no_simhash:
        options.refuse_with("no-simhash", max_distance=max_distance)
    with open_index(index, "r") as stored:
        config = stored.config
    try:
        simhash = None if no_simhash else _simhash(config, max_distance)
        rows = config.num_perm if num_perm is None else num_perm
        replace(config, num_perm=rows, keep_shingles=0, containment=containment or 0)
    except (TypeError, ValueError) as exc:
        raise BadParameter(str(exc)) from None
    with work_bar("documents") as advance:
        done = simindex.resketch(
            index,
            destination,
            num_perm=num_perm,
            simhash=simhash,
            containment=containment,
            progress=advance,
        )
    print_summary({"documents": done}, f"{counted(done, 'document')} in {destination}", as_json)


def _simhash(config: Config, max_distance: int | None) -> SimHashConfig | None:
    """Return the stored SimHash settings, or the default ones, for `max_distance` where it was given;
    ``None`` where nothing is stored and nothing was given."""
    if max_distance is None:
        return config.simhash
    return with_distance(config.simhash or SimHashConfig(), max_distance)
