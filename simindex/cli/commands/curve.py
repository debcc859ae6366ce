"""`simindex curve`: print the S-curve and the recall of a setting, as a table and a picture.

The formulas are `tuning.candidate_probability` and `tuning.match_probability`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

from simindex.cli import drawing, options
from simindex.cli.output import counted, print_json, print_table
from simindex.config import Config
from simindex.formulas.curve import DEFAULT_THRESHOLD, MAX_ROWS, ROW_BITS, candidate_probability
from simindex.formulas.match_odds import (
    FOUND_PROBABILITIES,
    BandPlan,
    band_plan,
    found_similarity,
    returned_probability,
)

_STEPS, _HUNDREDTHS = 20, 100
"""Of similarity, that the table has, and that the JSON and the picture have."""

EXAMPLES = r"""
simindex curve --num-perm 256 --threshold 0.7
"""


def curve(
    num_perm: Annotated[
        int | None, options.number("MinHash rows of the index, eight a band (default 128).", least=8)
    ] = None,
    bands: Annotated[int | None, options.number("Number of bands instead.")] = None,
    rows: Annotated[int | None, options.number("Rows that must agree in a band.")] = None,
    threshold: Annotated[float | None, options.fraction("Threshold of the query (default 0.8).")] = None,
    recall: Annotated[
        float | None,
        options.fraction(
            "Recall of the query: the probability to return a document right at the threshold.", metavar="P"
        ),
    ] = None,
    output: drawing.PictureFile = None,
    as_json: options.JsonLines = False,
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
        raise typer.BadParameter("--num-perm and --bands exclude each other")
    if rows is not None and (threshold is not None or recall is not None):
        raise typer.BadParameter("--rows does not go with --threshold or --recall")
    if bands is None:
        bands = Config().bands if num_perm is None else Config(num_perm=num_perm).bands
    curve = _Curve.of(bands, rows, DEFAULT_THRESHOLD if threshold is None else threshold, recall)
    draw = drawing.picture_writer(output)
    if as_json:
        for step in range(_HUNDREDTHS + 1):
            print_json(curve.as_json(step / _HUNDREDTHS))
    else:
        _print(curve)
    draw([curve.chart(_HUNDREDTHS)])


class _Curve(NamedTuple):
    """What is shown; without a plan only the candidates."""

    bands: int
    rows: int
    threshold: float
    plan: BandPlan | None

    @classmethod
    def of(cls, bands: int, rows: int | None, threshold: float, recall: float | None) -> _Curve:
        if rows is not None:
            return cls(bands, rows, threshold, None)
        plan = band_plan(threshold, MAX_ROWS * bands, recall)
        return cls(bands, max(1, plan.prefix_bits // ROW_BITS), threshold, plan)

    @property
    def title(self) -> str:
        bands = counted(self.bands, "band")
        if self.plan is None:
            return f"{bands}, {counted(self.rows, 'row')}"
        rows, bits = divmod(self.plan.prefix_bits, ROW_BITS)
        compared = [counted(n, name) for n, name in ((rows, "row"), (bits, "bit")) if n]
        return f"{bands}, {' and '.join(compared)}, threshold {self.threshold:g}"

    def looked_at(self, similarity: float) -> float:
        if self.plan is None:
            return candidate_probability(similarity, self.bands, self.rows)
        return candidate_probability(similarity, self.bands, prefix_bits=self.plan.prefix_bits)

    def returned(self, similarity: float) -> float:
        assert self.plan is not None
        return returned_probability(similarity, MAX_ROWS * self.bands, self.plan)

    def found_at(self) -> dict[float, float]:
        """Return probability -> the similarity that is returned with it."""
        assert self.plan is not None
        return {p: found_similarity(p, MAX_ROWS * self.bands, self.plan) for p in FOUND_PROBABILITIES}

    def chart(self, steps: int) -> drawing.Chart:
        """Return both probabilities at so many equal steps of similarity."""
        points = [step / steps for step in range(steps + 1)]
        names, values = [f"candidates with {self.title}"], [[self.looked_at(point) for point in points]]
        if self.plan is not None:
            names.append("found")
            values.append([self.returned(point) for point in points])
        labels = [f"{point:.2f}" for point in points]
        return drawing.Chart("similarity", labels, names, values, digits=4, along="probability")

    def as_json(self, similarity: float) -> dict[str, object]:
        shown: dict[str, object] = {
            "similarity": similarity,
            "probability": self.looked_at(similarity),
            "bands": self.bands,
            "rows": self.rows,
        }
        if self.plan is not None:
            asked = {"prefix_bits": self.plan.prefix_bits, "threshold": self.threshold}
            shown |= asked | {"found": self.returned(similarity), "found_at": self.found_at()}
        return shown


def _print(curve: _Curve) -> None:
    drawing.print_chart(curve.chart(_STEPS))
    if curve.plan is not None:
        print()
        found_at = [(f"{odds:g}", f"{similarity:.3f}") for odds, similarity in curve.found_at().items()]
        print_table(("found with probability", "similarity"), found_at)
