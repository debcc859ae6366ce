"""`simindex scaleout init`, `build`, `query` and `status`: an index over many machines, made and asked."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from simindex import Config, scaleout
from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.checks import require_seconds
from simindex.cli import options
from simindex.cli.options import Address, Uri, places_of
from simindex.cli.output import counted, figure, note, print_json, print_table, shown_key, work_bar
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.formulas.match_odds import band_plan

EXAMPLES = {
    "init": r"""
simindex scaleout init news.catalog
simindex scaleout init news.catalog --partitions 64 --place simindex:a=/nvme/a --place simindex:b=/nvme/b
""",
    "build": "simindex scaleout build news.catalog '/shared/news/*.jsonl' --metadata",
    "query": "simindex scaleout query news.catalog 'a text that was seen before'",
    "status": "simindex scaleout status news.catalog",
}


def init(
    catalog: Uri,
    *,
    partitions: options.AtLeast1 = 8,
    place: list[str] | None = None,
    store: str | None = None,
    durability: Literal["node", "store"] = "node",
    settings: options.CreationOptions,
    address: Address = None,
) -> None:
    """Make an index over many machines: a catalog, and its partitions, empty.

    Options:
        partitions N: Number of partitions; it cannot change later.
        place RESOURCE=FOLDER: A node, by the name of its resource, and the folder on its disk; several times.
            Default: this machine.
        store URI: Where backups lie: a folder that all nodes see, or s3://.
        durability: What an acknowledged change survives: a crash of its node, or the loss of its disk.
    """
    with scaleout.create(
        catalog,
        settings.config(Config()),
        partitions=partitions,
        places=places_of(place) if place else None,
        store=store,
        durability=durability,
        address=address,
    ) as index:
        places = counted(len(index.catalog.places), "place")
    note(f"{catalog}: {counted(partitions, 'partition')} at {places}")


def build(
    catalog: Uri,
    inputs: options.InputPaths,
    *,
    reads: options.InsertOptions,
    on_conflict: Literal["skip", "replace"] = "skip",
    skip_bad_rows: options.SkipBadRows = False,
    batch_size: options.BatchSize = DEFAULT_BATCH_SIZE,
    address: Address = None,
    as_json: options.JsonSummary = False,
) -> None:
    """Add the documents of files to an index over many machines, by tasks on all nodes; inputs are those of
    insert, but for standard input, and every node has to see them under the same path.

    Broken off and begun anew with the same options it goes on; what is done is not read again.

    Options:
        on_conflict: What to do with a key that is stored already.
    """
    how: Any = {"on_conflict": on_conflict, "skip_bad_rows": skip_bad_rows, "batch_size": batch_size}
    rows = reads.inputs(inputs)
    with work_bar("documents") as advance:
        report = scaleout.build(rows, catalog, **how, progress=advance, address=address)
    if as_json:
        print_json(asdict(report))
        return
    note(
        f"{counted(report.inserted, 'document')} inserted, {figure(report.replaced)} replaced, "
        f"{figure(report.skipped)} skipped, {counted(report.bad, 'bad row')}; "
        f"{counted(report.parts, 'part')}, {figure(report.resumed)} of them done before; "
        f"{report.seconds:,.1f} s"
    )


def query(
    catalog: Uri,
    text: str,
    threshold: options.Threshold = None,
    limit: options.Limit = None,
    seconds: Annotated[float, typer.Option(parser=options.seconds)] = 30.0,
    on_missing: Literal["partial", "wait", "fail"] = "partial",
    address: Address = None,
    as_json: options.JsonLines = False,
) -> None:
    """Show what is similar to a text. Partitions that do not answer in time are named, and the exit code
    is 1.

    Arguments:
        text TEXT: The text to look for.

    Options:
        seconds S: How long to wait for an answer.
        on_missing: What becomes of partitions that do not answer.
    """
    from simindex.scaleout.catalog import Catalog

    least = DEFAULT_THRESHOLD if threshold is None else threshold
    config = Catalog.load(catalog).config
    if config.num_perm:
        band_plan(least, config.num_perm)  # refuses one out of range before Ray is started
    require_seconds("seconds", seconds)
    how: Any = "raise" if on_missing == "fail" else on_missing
    with scaleout.open(catalog, address=address) as index:
        found = index.query(text, least, limit, seconds=seconds, on_missing=how)
    if as_json:
        for match in found:
            print_json(match.to_dict())
    elif found:
        rows = [(shown_key(m.key), figure(m.similarity, 3), figure(m.distance)) for m in found]
        print_table(("key", "similarity", "distance"), rows)
    else:
        note("simindex: no match")
    if found.partial:
        reasons = "; ".join(f"{place}: {why}" for place, why in found.missing.items())
        note(f"simindex: partitions {', '.join(map(str, found.partial))} are missing ({reasons})")
        raise typer.Exit(1)


def status(catalog: Uri, address: Address = None, as_json: options.JsonObject = False) -> None:
    """Show each place with its node, partitions and documents; exit code 1 where one does not answer."""
    with scaleout.open(catalog, address=address) as index:
        places, found = index.catalog.places, index.status()
    if as_json:
        print_json({place: {"partitions": list(places[place])} | _plain(of) for place, of in found.items()})
    else:
        rows = [
            (
                place,
                of.get("node", of.get("missing", "")),
                figure(len(places[place])),
                figure(sum(of["documents"].values())) if "documents" in of else "",
                figure(of["used_bytes"]) if "used_bytes" in of else "",
            )
            for place, of in found.items()
        ]
        print_table(("place", "node", "partitions", "documents", "bytes in use"), rows, left=2)
    if any("missing" in of for of in found.values()):
        raise typer.Exit(1)


def _plain(of: dict[str, Any]) -> dict[str, Any]:
    """Return the status of a place with numbers of partitions as JSON has them."""
    counts = {str(number): count for number, count in of.get("documents", {}).items()}
    return of | ({"documents": counts} if "documents" in of else {})
