"""Pictures of a benchmark's results: the peers as bars, growth from small to large, and beyond the memory.

Called by run.py and page.py with the dictionary that bench.json holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from page import beyond_runs

OURS, THEIRS, SECOND, THIRD = "#1b6ca8", "#b9bec4", "#c8553d", "#588157"
INK = "#333333"
WIDTH = 6.4
"""Inches. Panels stand below one another, so that a telephone shows them, too."""

Line = tuple[str, str, Sequence[float], Sequence[float]]
Bar = tuple[str, float]


def draw(results: dict[str, Any], output: Path, source: str = "") -> list[Path]:
    """Draw the pictures that these results are enough for, as PNG files that name their source."""
    matplotlib.use("Agg")
    plt.rcParams.update({"font.size": 9, "axes.edgecolor": INK, "text.color": INK, "axes.labelcolor": INK})
    beyond = beyond_runs(results)
    drawn = {
        "peers": _peers(results) if results.get("builds") and results.get("peers") else None,
        "fingerprints": _fingerprints(results)
        if results.get("simhash") and results.get("simhash_peers")
        else None,
        "growth": _growth(results) if len(results.get("builds", [])) > 1 else None,
        "beyond": _beyond(beyond) if beyond else None,
        "weeks": _weeks(results["weeks"]) if results.get("weeks") else None,
    }
    paths = []
    for name, figure in drawn.items():
        if figure:
            paths.append(output / f"{name}.png")
            figure.savefig(paths[-1], dpi=120, metadata={"Source": source, "Software": None})
            plt.close(figure)
    return paths


def _peers(results: dict[str, Any]) -> Figure:
    """Text to a searchable index, and one query from text; ours in colour, the best on top."""
    count = results["peers"][0]["documents"]
    ours = next((b for b in results["builds"] if b["documents"] == count), results["builds"][0])
    same = [peer for peer in results["peers"] if peer["documents"] == count]
    figure, (left, right) = plt.subplots(2, 1, figsize=(WIDTH, 1.2 + 0.56 * (len(same) + 2)))
    durable = "simindex (durable)"
    building: list[Bar] = [(durable, ours["documents_a_second"])]
    asking: list[Bar] = [
        (f"simindex, {state}", ours[state]["median_us"]) for state in ("inserted", "compacted")
    ]
    for peer in same:
        building.append((peer["name"], peer["documents_a_second"]))
        asking.append((peer["name"], peer["median_us"]))
    _bars(left, building, f"Text to index, {count:,} documents: documents a second")
    _points(right, asking, "One query from text, us, median")
    figure.tight_layout()
    return figure


def _fingerprints(results: dict[str, Any]) -> Figure:
    """Fingerprints within 3 bits: building, and one query; ours in colour, the best on top."""
    ours = results["simhash"][0]
    building: list[Bar] = [("simindex (durable)", ours["fingerprints_a_second"])]
    asking: list[Bar] = [
        (f"simindex, {state}", ours[state]["median_us"]) for state in ("inserted", "compacted")
    ]
    for peer in results["simhash_peers"]:
        building.append((peer["name"], peer["fingerprints_a_second"]))
        asking.append((peer["name"], peer["median_us"]))
    figure, (left, right) = plt.subplots(2, 1, figsize=(WIDTH, 1.2 + 0.56 * len(asking)))
    _bars(left, building, f"{ours['documents']:,} fingerprints to index: a second")
    _points(right, asking, "One query within 3 of 64 bits, us, median")
    figure.tight_layout()
    return figure


def _bars(axes: Axes, known: list[Bar], title: str) -> None:
    """Horizontal bars, the longest on top, each with its figure."""
    known = sorted(known, key=lambda bar: bar[1])
    names, values = [name for name, _ in known], [value for _, value in known]
    drawn = axes.barh(names, values, color=[_colour(name) for name in names], height=0.7)
    axes.bar_label(drawn, [f"{value:,.0f}" for value in values], padding=4)
    axes.set_xlim(0, max(values) * 1.35)
    axes.set_xticks([])
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _points(axes: Axes, known: list[Bar], title: str) -> None:
    """Points on a logarithmic scale, the smallest on top, each with its figure."""
    known = sorted(known, key=lambda bar: -bar[1])
    names, values = [name for name, _ in known], [value for _, value in known]
    axes.hlines(names, min(values) / 2, values, color="#dddddd", linewidth=1)
    axes.scatter(values, names, color=[_colour(name) for name in names], s=45, zorder=2)
    for name, value in known:
        axes.annotate(f"{value:,.0f}", (value, name), xytext=(8, 0), textcoords="offset points", va="center")
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 2, max(values) * 3)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _colour(name: str) -> str:
    return OURS if name.startswith("simindex") else THEIRS


def _growth(results: dict[str, Any]) -> Figure:
    """Lines over the number of documents, in memory: rate of inserts, time of a query, bytes on disk."""
    builds = sorted(results["builds"], key=lambda build: build["documents"])
    figure, (rates, times, opening) = plt.subplots(3, 1, figsize=(WIDTH, 8.4))
    sizes = [build["documents"] for build in builds]
    _lines(
        rates,
        [(OURS, "from text", sizes, [build["documents_a_second"] for build in builds])],
        "Inserts a second, durable, one core",
    )
    of_queries: list[Line] = []
    for colour, state in ((OURS, "inserted"), (THIRD, "compacted")):
        of_queries.append((colour, f"as {state}", sizes, [build[state]["median_us"] for build in builds]))
        times.plot(sizes, [build[state]["p99_us"] for build in builds], color=colour, linestyle=":")
    _lines(times, of_queries, "One query, microseconds (dotted: p99)", log=True)
    opened = [build["open_and_first_query_ms"] for build in builds]
    _lines(opening, [(OURS, "warm cache", sizes, opened)], "Open and first query, milliseconds")
    figure.tight_layout()
    return figure


def _beyond(runs: list[dict[str, Any]]) -> Figure:
    """Lines over the number of documents in a bounded memory, with a mark where the file outgrows it.

    Args:
        runs: with one number of workers each; the first is the one that was asked.
    """
    beyond = runs[0]
    growth = beyond["growth"]
    sizes = [step["documents"] for step in growth]
    figure, (rates, times, space) = plt.subplots(3, 1, figsize=(WIDTH, 8.4))
    inserted: list[Line] = [
        (
            colour,
            f"workers={run['workers']}" if len(runs) > 1 else "",
            [step["documents"] for step in run["growth"]],
            [step["documents_a_second"] for step in run["growth"]],
        )
        for colour, run in zip((OURS, THIRD, SECOND), runs, strict=False)
    ]
    _lines(rates, inserted, "Inserts a second, durable")
    asked: list[Line] = [
        (colour, name, sizes, [step["query_absent"][field] for step in growth])
        for colour, name, field in ((OURS, "median", "median_us"), (SECOND, "p99", "p99_us"))
    ]
    _lines(times, asked, "One query of an absent document, microseconds", log=True)
    used: list[Line] = [(OURS, "as inserted", sizes, [step["file_bytes_a_document"] for step in growth])]
    if "compacted_bytes_a_document" in beyond:
        used.append((THIRD, "compacted", sizes, [beyond["compacted_bytes_a_document"]] * len(sizes)))
    _lines(space, used, "File, bytes a document")
    outgrown = next(
        (
            s["documents"]
            for s in growth
            if s["documents"] * s["file_bytes_a_document"] > beyond["memory_bytes"]
        ),
        None,
    )
    for axes in (rates, times, space):
        axes.set_xscale("linear")
        axes.xaxis.set_major_formatter(lambda value, _: _short(value))
        if outgrown:
            axes.axvline(outgrown, color=INK, linestyle="--", linewidth=0.8)
    if outgrown:
        rates.annotate(
            f" the file outgrows\n {beyond['memory_bytes'] / 2**30:.2g} GiB",
            (outgrown, rates.get_ylim()[1] * 0.06),
        )
    figure.tight_layout()
    return figure


def _weeks(weeks: dict[str, Any]) -> Figure:
    """Lines over the number of small changes: the file, its segments, and what a change and a query take."""
    samples, figure = weeks["samples"], plt.figure(figsize=(WIDTH, 8.4))
    across = [sample["changes"] for sample in samples]

    def times(name: str) -> list[tuple[str, str, list[float]]]:
        return [
            (colour, of, [sample[name][f"{of}_us"] for sample in samples])
            for colour, of in ((OURS, "median"), (SECOND, "p99"))
        ]

    size = [sample["file_bytes"] / 1e6 for sample in samples]
    compacted = [weeks["compacted_bytes"] / 1e6] * len(samples)
    panels: list[tuple[str, list[tuple[str, str, list[float]]]]] = [
        ("File, MB", [(OURS, "as changed", size), (THIRD, "compacted", compacted)]),
        ("Segments", [(OURS, "", [sample["segments"] for sample in samples])]),
        ("A change, processor us", times("change")),
        ("A query, processor us", times("query")),
    ]
    for axes, (title, lines) in zip(figure.subplots(4, 1), panels, strict=True):
        is_time = title.endswith("us")
        _lines(axes, [(colour, name, across, up) for colour, name, up in lines], title, log=is_time)
        axes.set_xscale("linear")
        axes.set_xlabel("changes")
        axes.xaxis.set_major_formatter(lambda value, _: _short(value))
        if not is_time:
            axes.set_ylim(bottom=0)
    figure.tight_layout()
    return figure


def _lines(axes: Axes, lines: list[Line], title: str, *, log: bool = False) -> None:
    for colour, name, across, up in lines:
        axes.plot(across, up, color=colour, marker="o", markersize=3.5, label=name)
    if any(name for _, name, _, _ in lines):
        axes.legend(frameon=False)
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda value, _: _short(value))
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, axes.get_ylim()[1] * 1.1)
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel("documents stored")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)


def _short(count: float) -> str:
    return f"{count / 1e6:g} M" if count >= 1e6 else f"{count / 1e3:g} k" if count >= 1e3 else f"{count:g}"
