"""Draw figures: as a table with a bar a row in the terminal, as lines or bars in a .svg or .png file.

The one place where commands draw. A `Chart` holds the numbers, which are those of the command's ``--json``.
Files need matplotlib, the extra "pictures"; one is under its name when it is whole.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click import BadParameter

from simindex.cli.command import option
from simindex.cli.output import figure, print_table, whole_file
from simindex.inputs import optional_module

_LENGTH = 40
"""Columns of a whole bar."""
_COLOURS = "#1b6ca8", "#c8553d", "#588157"
_TICKS = 12
"""Labels below a picture, at most."""

_LONG = 8
"""Characters of a label that has no room beside others."""

picture_file = option(
    "-o", "--output", metavar="FILE", help="Draw it to this file, .svg or .png (needs matplotlib)."
)


@dataclass(frozen=True)
class Chart:
    """Numbers to be drawn; the bars of the terminal are of the last of the values.

    Attributes:
        across: what the labels are: "similarity".
        labels: of the rows.
        names: what the values are: ("looked at", "returned").
        values: the rows' values, for each name.
        digits: behind the point, of values in a table; shares of 1 have four, counts none.
        title: above the picture in a file.
        along: what several values have in common, beside a picture: "probability".
        root: whether the length of a bar goes with the square root of its value, so that small counts are
            seen beside large ones.
    """

    across: str
    labels: Sequence[str]
    names: Sequence[str]
    values: Sequence[Sequence[float]]
    digits: int = 0
    title: str = ""
    along: str = ""
    root: bool = False


def bar(share: float) -> str:
    """Return a text of 40 characters: "#" for this share of them, above 0 one at least, then spaces."""
    return ("#" * max(round(share * _LENGTH), int(share > 0))).ljust(_LENGTH)


def print_chart(chart: Chart) -> None:
    """Print a chart as a table to stdout, a row for each label: its values, and a bar for the last of them,
    which a share of 1 or the largest count fills."""
    last, power = chart.values[-1], 0.5 if chart.root else 1.0
    most = 1.0 if chart.digits else max([1, *last])
    rows = [
        (label, *(figure(value, chart.digits) for value in row), bar((row[-1] / most) ** power))
        for label, *row in zip(chart.labels, *chart.values, strict=True)
    ]
    print_table((chart.across, *chart.names, "by their square root" if chart.root else ""), rows)


def is_page(path: str | None) -> bool:
    """Return whether a file is to be a page and no pictures, by its ending."""
    return path is not None and path.lower().endswith((".html", ".htm"))


def picture_writer(path: str | None, or_page: bool = False) -> Callable[[Sequence[Chart]], None]:
    """Return a function that draws charts to the picture at `path`, .svg or .png; it draws nothing where
    there is no path or, with `or_page`, the path is a page. Another ending (BadParameter) or a missing
    package (MissingPackageError) is an error here, before the work."""
    if path is None or (or_page and is_page(path)):
        return lambda _charts: None
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in ("svg", "png"):
        endings = ".html, .svg or .png" if or_page else ".svg or .png"
        raise BadParameter(f"--output: expected a file with the ending {endings}, found {path!r}")
    matplotlib = optional_module("matplotlib", "--output")
    figures = optional_module("matplotlib.figure", "--output")

    def write(charts: Sequence[Chart]) -> None:
        # Texts stay texts, and the same numbers give the same bytes.
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "simindex"}):
            drawn = figures.Figure(figsize=(6.4, 4 * len(charts)), layout="constrained")
            for index, chart in enumerate(charts, 1):
                _draw(drawn.add_subplot(len(charts), 1, index), chart)
            data = io.BytesIO()
            drawn.savefig(data, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
        with whole_file(path) as file:
            file.write(data.getvalue())

    return write


def _draw(axes: Any, chart: Chart) -> None:
    """Draw a chart into axes of matplotlib: as lines if it has digits (shares), else as bars (counts)."""
    indices = range(len(chart.labels))
    for name, values, colour in zip(chart.names, chart.values, _COLOURS, strict=False):
        if chart.digits:
            axes.plot(indices, values, label=name, color=colour)
        else:
            axes.bar(indices, values, label=name, color=colour, width=0.9)
    axes.set(xlabel=chart.across, ylabel=chart.names[-1], title=chart.title)
    steps = (digit * 10**power for power in range(9) for digit in (1, 2, 5))
    shown = range(0, len(chart.labels), next(step for step in steps if step * _TICKS >= len(chart.labels)))
    axes.set_xticks(shown, [chart.labels[index] for index in shown])
    if any(len(label) > _LONG for label in chart.labels):
        axes.tick_params(axis="x", labelrotation=20)
    if chart.digits:
        axes.set_ylim(0, 1.02)
    else:
        axes.set_ylim(0, 1.05 * max([1, *chart.values[-1]]))
    if chart.root:
        axes.set_yscale("function", functions=(lambda v: abs(v) ** 0.5, lambda v: v**2))
    if len(chart.names) > 1:
        axes.set_ylabel(chart.along)
        axes.legend()
    axes.grid(visible=True, alpha=0.4)
    axes.set_axisbelow(True)
