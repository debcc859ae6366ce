"""What `tune` found of a sample, as one frozen value, and its form in JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simindex.config import CharShingles, Config, Shingles, WordShingles
from simindex.jsonable import plain
from simindex.tuning.advice import Advice
from simindex.tuning.labels import LabelFigures
from simindex.tuning.precision import LabelCurve, Point
from simindex.tuning.sample import SampleFigures
from simindex.tuning.sample_pairs import BINS, LEAST_SIMILARITY, SamplePair
from simindex.tuning.settings import Setting


@dataclass(frozen=True)
class TuningReport:
    """What a sample says about settings; see `tune`.

    Attributes:
        shingles: by which similarities are counted where nothing else is said.
        sample: what the sample is.
        histogram: pairs by their exact similarity, a hundredth a bar, from 0.20 on; 1.0 is in the last.
        examples: three pairs a tenth of similarity, drawn at random, the least similar first.
        to_label: pairs to label, ten a tenth: 60 from 1 down in random order, then the less similar ones.
        valley: the similarity between two heaps of the histogram, where there are two; else ``None``.
        settings: what each would find, the smallest first.
        advice: the one to take.
        labels: how many there are; ``None`` without, and `curves` are empty then.
        curves: precision and recall of the labels: by the advised shingles first, then by the others, the
            best first; the last two are SimHash, and containment by its best shingles.
        notes: what the figures leave out, sentence by sentence.
    """

    shingles: Shingles
    sample: SampleFigures
    histogram: tuple[int, ...]
    examples: tuple[SamplePair, ...]
    to_label: tuple[SamplePair, ...]
    valley: float | None
    settings: tuple[Setting, ...]
    advice: Advice
    labels: LabelFigures | None
    curves: tuple[LabelCurve, ...]
    notes: tuple[str, ...]

    @property
    def num_pairs(self) -> int:
        """Pairs of a similarity of 0.2 or more."""
        return sum(self.histogram)

    def num_from(self, similarity: float) -> int:
        """Return how many pairs have at least this similarity, taken to the hundredth, 1.0 as 0.99; below 0.2
        all."""
        first = round(100 * (similarity - LEAST_SIMILARITY))
        return sum(self.histogram[min(max(0, first), BINS - 1) :])

    @property
    def reason(self) -> str:
        """What the advice follows from, in a sentence or two."""
        point, threshold = self.advice.point, self.advice.threshold
        if point is not None and self.labels is not None:
            shares = [
                f"{name} {share.value:.2f} ({share.low:.2f} to {share.high:.2f})"
                for name, share in (("precision", point.precision), ("recall", point.recall))
            ]
            yes, no = sum(self.labels.yes), sum(self.labels.no)
            cut = "bits of distance" if self.advice.setting.by == "simhash" else "or more"
            return (
                f"{yes:,} labels of pairs that are wanted and {no:,} of others: at {threshold:g} {cut} "
                f"{' and '.join(shares)}, with the intervals of 95 %."
            )
        where = f"The histogram has its valley at {threshold:g}"
        if self.valley is None:
            where = f"The histogram has no valley, so {threshold:g} is the usual threshold and no more"
        above = self.num_from(threshold)
        return f"{where}; pairs there or above: {above:,}. Only labels say which of them are wanted."

    def to_dict(self) -> dict[str, Any]:
        """Return the values by name as `json.dumps` takes them, a key of bytes as {"bytes": BASE64}; without
        texts, so an example is [a, b, similarity], and `to_label` is left out."""
        return {name: _plain(value) for name, value in vars(self).items() if name != "to_label"}


def _plain(value: Any) -> Any:
    match value:
        case WordShingles() | CharShingles():
            return Config(shingles=value).to_dict()["shingles"]
        case SamplePair():
            return [plain(value.a), plain(value.b), value.similarity]
        case Setting():
            return vars(value) | {"config": value.config.to_dict(), "exact": value.exact, "f1": value.f1}
        case Advice(setting=setting):
            named = {"setting": setting.name, "by": setting.by, "threshold": setting.threshold}
            return named | {"config": setting.config.to_dict(), "point": _plain(value.point)}
        case Point():
            return value._asdict() | {"f1": value.f1}
        case LabelCurve():
            return {"name": value.name, "best": _plain(value.best), "points": _plain(value.points)}
        case SampleFigures() | LabelFigures():
            return dict(vars(value))
        case tuple():
            return [_plain(each) for each in value]
    return value


def excerpt(text: str, length: int) -> str:
    """Return at most `length` of the first 4 * `length` characters of a text, white space as single spaces,
    and what a terminal might act upon as U+FFFD."""
    line = " ".join(text[: 4 * length].split())[:length]
    return "".join(c if c.isprintable() else "\ufffd" for c in line)
