"""`simindex tune`: print what a sample is, which of its texts are similar, and the settings to take.

The job is `tuning.tune`.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

import click
from click.exceptions import Exit

from simindex import Config, tuning
from simindex.cli import options, reading
from simindex.cli.command import argument, command, option, share, takes
from simindex.cli.drawing import Chart, is_page, picture_writer, print_chart
from simindex.cli.failures import CommandError
from simindex.cli.output import note, note_tally, print_json, print_table, print_text, whole_file, work_bar
from simindex.tuning.advice import name_of
from simindex.tuning.page import page_of_tuning
from simindex.tuning.precision import CURVE_TITLES
from simindex.tuning.report import TuningReport, excerpt
from simindex.tuning.sample_pairs import LEAST_SIMILARITY
from simindex.tuning.settings import SETTING_TITLES

_HUNDREDTHS = 5
"""Of similarity, in a bar."""

_EXCERPT = 70


@dataclass(frozen=True)
class LabelOptions:
    """Labelled pairs, and what to ask of them; ``None``: not given."""

    pairs: str | None = option(
        "--pairs",
        metavar="FILE",
        help='Labelled pairs, JSON lines as the page saves them: {"a": ID, "b": ID, "verdict": "y"}, or '
        "text_a and text_b in place of ids.",
    ).field()
    precision: float | None = share(
        "--precision", metavar="P", help="With --pairs: advise the best recall with this precision."
    ).field()
    recall: float | None = share(
        "--recall", metavar="R", help="With --pairs: advise the best precision with this recall."
    ).field()


@command(
    "tune",
    """
simindex tune sample.jsonl -o tune.html
simindex tune sample.jsonl --chars 9 --json > tuned.json
simindex tune sample.jsonl --chars 9 --check tuned.json
""",
)
@argument("sample", "SAMPLE...", "Files, folders, or - for stdin.", nargs=-1, required=True)
@takes("reads", options.FileOptions)
@takes("cut", options.ShingleOptions)
@option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write a page, .html, with pairs to label; or pictures, .svg or .png (needs matplotlib).",
)
@takes("labels", LabelOptions)
@option(
    "--check",
    metavar="FILE",
    help="Check whether the settings of an earlier sample hold for this one, exit code 1 if they may not; "
    "FILE is its --json output.",
)
@options.json_object
def tune(
    sample: tuple[str, ...],
    reads: options.FileOptions,
    cut: options.ShingleOptions,
    output: str | None,
    labels: LabelOptions,
    check: str | None,
    as_json: bool,
) -> None:
    """Find the settings for your texts from a sample of them.

    Prints how similar the texts of the sample are, exactly, with three pairs for each tenth of similarity,
    what each setting would find of them, the advised settings, and the `dedup` command to paste. The sample
    is the first 100,000 texts.

    Without labels the advice follows the histogram of similarities alone. The page of --output shows 60 pairs
    to label, y or n, and saves pairs.jsonl; with --pairs the advice follows the labels: precision and recall
    of each threshold, with their intervals.
    """
    reading.require_ids(sample, reads)
    earlier = None if check is None else _read(check)
    draw = picture_writer(output, or_page=True)
    rows = reads.inputs(sample, key_from="line")
    with work_bar("texts") as advance:
        report = tuning.tune(
            rows,
            **vars(labels),
            shingles=cut.shingles(Config().shingles),
            progress=lambda done: advance(done, 0),
        )
    note_tally(rows.tally)
    if output is not None and is_page(output):
        with whole_file(output) as page:
            page.write(page_of_tuning(report, shlex.join(sample)).encode())
        note(f"simindex: {output}: open it, label the pairs, and give what it saves as --pairs")
    draw(_charts(report))
    if earlier is not None:
        _check(tuning.drift(earlier, report.to_dict()), as_json)
    elif as_json:
        print_json(report.to_dict())
    else:
        _print(report, shlex.join(sample))


def _read(path: str) -> Any:
    with open(path, "rb") as file:
        try:
            return json.loads(file.read())
        except ValueError:
            raise CommandError(
                f"{path}: expected what simindex tune --json printed, found another file"
            ) from None


def _check(findings: tuple[tuning.Finding, ...], as_json: bool) -> None:
    holds = all(finding.holds for finding in findings)
    if as_json:
        print_json({"holds": holds, "findings": [finding._asdict() for finding in findings]})
    else:
        rows = [(of.name, of.earlier, of.later, "yes" if of.holds else "no") for of in findings]
        print_table(("what the settings rest on", "earlier", "this sample", "holds"), rows, left=4)
        print_text(
            "The settings hold." if holds else "The settings may no longer hold: tune this sample anew."
        )
    if not holds:
        raise Exit(1)


def _print(report: TuningReport, sample: str) -> None:
    print_table(("sample", ""), report.sample.rows())
    for chart in _charts(report):
        print_text("")
        print_chart(chart)
    _print_examples(report)
    if report.curves:
        print_text("")
        print_table(CURVE_TITLES, [curve.row() for curve in report.curves])
    print_text("")
    print_table(SETTING_TITLES, [setting.row() for setting in report.settings])
    print_text("")
    for sentence in report.notes:
        print_text(sentence)
    print_text(report.reason)
    print_text("")
    click.echo(f"{report.advice.setting.config!r}\n{report.advice.command(sample)}")


def _charts(report: TuningReport) -> list[Chart]:
    firsts = range(0, len(report.histogram), _HUNDREDTHS)
    labels = [f"{LEAST_SIMILARITY + first / 100:.2f}" for first in firsts]
    counts = [sum(report.histogram[first : first + _HUNDREDTHS]) for first in firsts]
    across = f"similarity, {name_of(report.shingles)}"
    charts = [Chart(across, labels, ("pairs",), (counts,), title="Similar pairs of the sample", root=True)]
    for curve in report.curves[:1]:
        points = [point for point in curve.points[::-1] if round(100 * point.threshold) % _HUNDREDTHS == 0]
        values = [[point.recall.value for point in points], [point.precision.value for point in points]]
        thresholds = [f"{point.threshold:.2f}" for point in points]
        title = "Precision and recall of the labels"
        charts.append(
            Chart(
                f"threshold, {curve.name}", thresholds, ("recall", "precision"), values, digits=4, title=title
            )
        )
    return charts


def _print_examples(report: TuningReport) -> None:
    for pair in report.examples:
        print_text("")
        print_text(f"{pair.similarity:.2f}  {pair.a}  {pair.b}")
        for text in pair.text_a, pair.text_b:
            print_text(f"      {excerpt(text, _EXCERPT)}")
