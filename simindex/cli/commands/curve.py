"""`simindex curve`: print the S-curve and the recall of a setting, as a table and a picture.

The formulas are `tuning.candidate_probability` and `tuning.match_probability`.
"""

from __future__ import annotations

from typing import Any

from click import BadParameter

from simindex.cli import drawing, options
from simindex.cli.command import command, number
from simindex.cli.output import counted, print_json, print_table
from simindex.config import Config
from simindex.formulas.curve import DEFAULT_THRESHOLD, MAX_ROWS, ROW_BITS, candidate_probability
from simindex.formulas.match_odds import (
    FOUND_PROBABILITIES,
    band_plan,
    found_similarity,
    returned_probability,
)

_STEPS, _HUNDREDTHS = 20, 100
"""Of similarity, that the table has, and that the JSON and the picture have."""


@command("curve", "simindex curve --num-perm 256 --threshold 0.7")
@number("--num-perm", least=8, help="MinHash rows of the index, eight a band (default 128).")
@number("--bands", help="Number of bands instead.")
@number("--rows", help="Rows that must agree in a band.")
@options.threshold.but(help="Threshold of the query (default 0.8).")
@options.recall.but(help="Recall of the query: the probability to return a document right at the threshold.")
@drawing.picture_file
@options.json_lines
def curve(
    num_perm: int | None,
    bands: int | None,
    rows: int | None,
    threshold: float | None,
    recall: float | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Show how likely documents of each similarity are found.

    A document becomes a candidate when a band agrees, and is returned when its estimated similarity also
    reaches the threshold.

    JSON lines: one a hundredth of similarity, as in the picture of --output, {"similarity", "probability",
    "bands", "rows"}, the probability of becoming a candidate, and unless --rows is given {"prefix_bits",
    "threshold", "found", "found_at"}: the leading bits of a band that are compared, of which "rows" counts
    the whole rows, the probability of being returned, and the similarities that are returned with the
    probabilities in it.
    """
    if num_perm is not None and bands is not None:
        raise BadParameter("--num-perm and --bands exclude each other")
    if rows is not None and (threshold is not None or recall is not None):
        raise BadParameter("--rows does not go with --threshold or --recall")
    if bands is None:
        bands = Config().bands if num_perm is None else Config(num_perm=num_perm).bands
    threshold = DEFAULT_THRESHOLD if threshold is None else threshold
    plan = band_plan(threshold, MAX_ROWS * bands, recall) if rows is None else None
    prefix_bits = None if plan is None else plan.prefix_bits
    whole_rows, bits = divmod(prefix_bits or ROW_BITS * (rows or 0), ROW_BITS)
    compared = [counted(n, name) for n, name in ((whole_rows, "row"), (bits, "bit")) if n]
    draw = drawing.picture_writer(output)
    points = [step / _HUNDREDTHS for step in range(_HUNDREDTHS + 1)]
    names = [f"candidates with {counted(bands, 'band')}, {' and '.join(compared)}"]
    values = [[candidate_probability(point, bands, rows, prefix_bits=prefix_bits) for point in points]]
    found_at: dict[float, float] = {}
    if plan is not None:
        names = [f"{names[0]}, threshold {threshold:g}", "found"]
        values.append([returned_probability(point, MAX_ROWS * bands, plan) for point in points])
        found_at = {p: found_similarity(p, MAX_ROWS * bands, plan) for p in FOUND_PROBABILITIES}
    if as_json:
        for point, *odds in zip(points, *values, strict=True):
            of_point: dict[str, Any] = {"similarity": point, "probability": odds[0], "bands": bands}
            of_point["rows"] = max(1, whole_rows)
            if plan is not None:
                of_point |= {"prefix_bits": prefix_bits, "threshold": threshold, "found": odds[1]}
                of_point["found_at"] = found_at
            print_json(of_point)
    else:
        drawing.print_chart(_chart(points, names, values, _HUNDREDTHS // _STEPS))
        if found_at:
            print()
            rows_found = [(f"{odds:g}", f"{similarity:.3f}") for odds, similarity in found_at.items()]
            print_table(("found with probability", "similarity"), rows_found)
    draw([_chart(points, names, values, 1)])


def _chart(points: list[float], names: list[str], values: list[list[float]], step: int) -> drawing.Chart:
    """Return a chart of the probabilities, a list for each name, at every `step`-th of the points."""
    labels, shown = [f"{point:.2f}" for point in points[::step]], [odds[::step] for odds in values]
    return drawing.Chart("similarity", labels, names, shown, digits=4, along="probability")
