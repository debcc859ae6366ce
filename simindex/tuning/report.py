"""What `tune` says of a sample: frozen values, and their form in JSON. Must not compute anything of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simindex.config import CharShingles, Config, Shingles, WordShingles

LEAST_SIMILARITY = 0.2
"""Pairs of a sample that are less similar are not looked for."""

BINS = 80
"""Bars of the histogram, a hundredth each: 0.20 up to and with 1.00."""

Quantiles = tuple[int, int, int, int, int]
"""At 5, 25, 50, 75 and 95 % of the texts."""


@dataclass(frozen=True)
class SampleFigures:
    """What a sample is.

    Attributes:
        documents: texts that were read.
        without_shingles: those that have none, and match nothing.
        copies: those that are equal, character by character, to one before them.
        characters: how long they are, in code points.
        shingles: how many different shingles they have.
        scripts: the share of the letters by script, the largest first: {"latin": 0.98, ...}.
        common_share: the share of a text's shingles, on average, that a hundredth of the texts or more have.
    """

    documents: int
    without_shingles: int
    copies: int
    characters: Quantiles
    shingles: Quantiles
    scripts: Mapping[str, float]
    common_share: float

    def rows(self) -> list[tuple[str, str]]:
        """Return each figure with its name, for people."""
        scripts = ", ".join(f"{name} {share:.0%}" for name, share in self.scripts.items() if share >= 0.01)
        return [
            ("texts", f"{self.documents:,}"),
            ("copies of an earlier text", f"{self.copies:,}"),
            ("without a shingle", f"{self.without_shingles:,}"),
            ("characters, at 5, 25, 50, 75, 95 %", ", ".join(f"{size:,}" for size in self.characters)),
            ("different shingles, the same", ", ".join(f"{size:,}" for size in self.shingles)),
            ("letters", scripts),
            ("shingles that 1 % of the texts have", f"{self.common_share:.1%}"),
        ]


@dataclass(frozen=True)
class LabelFigures:
    """Labels by the tenth of similarity, 0..9, of their pairs.

    Attributes:
        yes, no: how many pairs of each tenth are wanted, and how many are not.
        skipped: pairs that were left without a verdict.
    """

    yes: tuple[int, ...]
    no: tuple[int, ...]
    skipped: int


class Share(NamedTuple):
    """A share, and the interval of 95 % that it lies in by the labels that it was counted from; all 0..1."""

    value: float
    low: float
    high: float


class Point(NamedTuple):
    """What a threshold does to labelled pairs.

    Attributes:
        threshold: the least similarity; or the most bits of distance.
        precision: of the pairs that it takes, the share that is wanted.
        recall: of the pairs that are wanted, the share that it takes.
    """

    threshold: float
    precision: Share
    recall: Share

    @property
    def f1(self) -> float:
        """The harmonic mean of both; 0 where both are."""
        both = self.precision.value + self.recall.value
        return 2 * self.precision.value * self.recall.value / both if both else 0.0


CURVE_TITLES = "measure", "best at", "precision (95 %)", "recall (95 %)", "F1"


@dataclass(frozen=True)
class LabelCurve:
    """Precision and recall along the thresholds of one measure.

    Attributes:
        name: of the measure: "3 words", "SimHash", "containment, 3 words".
        points: from the highest threshold of similarity, or the least distance, on.
        best: the point that was asked for.
    """

    name: str
    points: tuple[Point, ...]
    best: Point

    def row(self) -> tuple[str, ...]:
        """Return what stands below `CURVE_TITLES`."""
        shares = (f"{s.value:.2f} ({s.low:.2f}-{s.high:.2f})" for s in self.best[1:])
        return self.name, f"{self.best.threshold:g}", *shares, f"{self.best.f1:.3f}"


class SamplePair(NamedTuple):
    """Two texts of the sample; of `copies` of one text the first stands for all in pairs with others.

    Attributes:
        a, b: their keys.
        similarity: exact Jaccard similarity, 0..1.
    """

    a: Any
    b: Any
    similarity: float
    text_a: str
    text_b: str

    @property
    def tenth(self) -> int:
        """The tenth of similarity that it is in, 0..9; that of 1.0 is 9."""
        return tenth_of(self.similarity)


SETTING_TITLES = "setting", "at", "missed", "wrong", "F1", "bytes a text", "us a text"


@dataclass(frozen=True)
class Setting:
    """What a setting would find of the sample's pairs, at one threshold.

    Attributes:
        name: as people call it.
        config: of an index.
        by: "minhash", "simhash", or "containment", which is counted in the texts.
        threshold: least similarity, or share of the smaller text; with by="simhash" the most bits.
        missed: expected share, 0..1, of the pairs to be found that it misses.
        wrong: expected share, 0..1, of what it returns that is not to be found.
        document_bytes: of an index, once it is compacted.
        document_seconds: processor time to sketch a text of the sample, measured in this run.
    """

    name: str
    config: Config
    by: str
    threshold: float
    missed: float
    wrong: float
    document_bytes: int
    document_seconds: float

    @property
    def exact(self) -> bool:
        """Whether kept shingles are compared."""
        return self.config.keep_shingles > 0

    def row(self) -> tuple[str, ...]:
        """Return what stands below `SETTING_TITLES`."""
        return (
            self.name,
            f"{self.threshold:g}",
            f"{self.missed:.1%}",
            f"{self.wrong:.1%}",
            f"{self.f1:.3f}",
            f"{self.document_bytes:,}",
            f"{1e6 * self.document_seconds:,.1f}",
        )

    @property
    def f1(self) -> float:
        """The harmonic mean of the shares that are found, and that are right."""
        found, right = 1 - self.missed, 1 - self.wrong
        return 2 * found * right / (found + right) if found + right else 0.0


@dataclass(frozen=True)
class Advice:
    """A setting and what to ask it.

    Attributes:
        point: what the threshold does to the labels, by exact similarities; ``None`` without labels. Its
            intervals are those of half of the labels, because the labels chose it, too.
    """

    setting: Setting
    point: Point | None = None

    @property
    def threshold(self) -> float:
        """That of the setting."""
        return self.setting.threshold

    def command(self, sample: str) -> str:
        """Return the `simindex dedup` line, for an input named so."""
        config, options = self.setting.config, []
        shingles = config.shingles
        if self.setting.by == "simhash":
            assert config.simhash is not None
            shingles = config.simhash.shingles
            options += ["--by simhash", f"--max-distance {self.threshold:g}"]
        else:
            options += [f"--threshold {self.threshold:g}", f"--num-perm {config.num_perm}"]
            options += ["--exact"] if self.setting.exact else []
        options.append(f"--{'words' if isinstance(shingles, WordShingles) else 'chars'} {shingles.size}")
        if shingles.normalize != WordShingles().normalize:
            options.append(f"--normalize {','.join(shingles.normalize) or 'none'}")
        return f"simindex dedup {sample} -o clean.jsonl {' '.join(options)}"


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
        labels: how many there are; ``None`` without.
        curves: precision and recall of the labels by several measures; that of the advice is the first.
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
        """Return how many pairs have at least that similarity, to a hundredth."""
        return sum(self.histogram[max(0, round(100 * (similarity - LEAST_SIMILARITY))) :])

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
        """Return the values as JSON has them, without the texts."""
        return {name: _plain(value) for name, value in vars(self).items() if name != "to_label"}


def _plain(value: Any) -> Any:
    match value:
        case WordShingles() | CharShingles():
            return Config(shingles=value).to_dict()["shingles"]
        case SamplePair():
            return [value.a, value.b, value.similarity]
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


def tenth_of(similarity: float) -> int:
    """Return which tenth of 0..1 a similarity lies in: 0 for less than 0.1, ... 9 for 0.9 to 1.0."""
    return min(9, int(similarity * 10 + 1e-9))


def in_tenths(histogram: tuple[int, ...]) -> np.ndarray:
    """Return how many pairs of a histogram each tenth of similarity has: int64, shape (10,)."""
    return np.append([0, 0], np.array(histogram).reshape(-1, 10).sum(axis=1))


def excerpt(text: str, length: int) -> str:
    """Return the beginning of a text on one line, without signs that a terminal might act upon."""
    line = " ".join(text[: 4 * length].split())[:length]
    return "".join(c if c.isprintable() else "\ufffd" for c in line)


def name_of(shingles: Shingles) -> str:
    """Return what people call shingles: "3 words"."""
    noun = "word" if isinstance(shingles, WordShingles) else "character"
    return f"{shingles.size} {noun}{'s'[: shingles.size != 1]}"
