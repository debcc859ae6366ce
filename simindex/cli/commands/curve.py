"""`simindex curve`: the S-curve of a setting, as a table and a picture.

Owns the layout; the formula is `tuning.candidate_probability`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from simindex.cli import options
from simindex.cli.output import note, print_json, print_table
from simindex.inputs import optional_module
from simindex.tuning import candidate_probability, rows_for

_STEPS = 20
_BAR_LENGTH = 40


def run(
    num_perm: Annotated[
        int | None,
        typer.Option(metavar="N", min=8, help="MinHash rows of the index, eight a band (default 128)."),
    ] = None,
    bands: Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of bands instead.")] = None,
    rows: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Rows that must agree in a band.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="S", help="Rows as a query with this threshold chooses them (default 0.8)."),
    ] = None,
    recall: Annotated[
        float | None, typer.Option(metavar="P", help="Wanted odds at the threshold (default 0.95).")
    ] = None,
    png: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw the curve to this file (needs matplotlib).")
    ] = None,
    as_json: options.JsonLines = False,
) -> None:
    """Show how likely a document of each similarity is found.

    JSON lines: one a similarity, {"similarity", "probability", "bands", "rows"}.
    """
    if num_perm is not None and bands is not None:
        raise typer.BadParameter("--num-perm and --bands exclude each other")
    if rows is not None and (threshold is not None or recall is not None):
        raise typer.BadParameter("--rows does not go with --threshold or --recall")
    if bands is None:
        num_perm = 128 if num_perm is None else num_perm
        if num_perm % 8:
            raise typer.BadParameter(f"--num-perm: expected a multiple of 8, found {num_perm}")
        bands = num_perm // 8
    if rows is None:
        rows = rows_for(0.8 if threshold is None else threshold, bands, 0.95 if recall is None else recall)
    figures = optional_module("matplotlib.figure", "--png") if png is not None else None
    curve = [(step / _STEPS, candidate_probability(step / _STEPS, bands, rows)) for step in range(_STEPS + 1)]
    if as_json:
        for similarity, probability in curve:
            print_json({"similarity": similarity, "probability": probability, "bands": bands, "rows": rows})
    else:
        title = f"found with {bands} bands, {rows} rows"
        print_table(
            ("similarity", title, ""),
            [(f"{s:.2f}", f"{p:.4f}", ("#" * round(p * _BAR_LENGTH)).ljust(_BAR_LENGTH)) for s, p in curve],
        )
    if png is not None:
        _draw(figures, png, bands, rows)
        note(f"{png}: written")


def _draw(figures: object, path: str, bands: int, rows: int) -> None:
    points = [step / 200 for step in range(201)]
    figure = figures.Figure(figsize=(6, 4), layout="constrained")  # type: ignore[attr-defined]
    axes = figure.add_subplot(
        xlabel="Jaccard similarity", ylabel="probability of a candidate", title=f"{bands} bands, {rows} rows"
    )
    axes.plot(points, [candidate_probability(point, bands, rows) for point in points])
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.grid(visible=True, alpha=0.4)
    figure.savefig(path, dpi=150, format="png")
