"""Advice from labels: half of them given, the other half as the judge; and labels that cannot be."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.truth import exact_similarities, extract

from simindex import CharShingles, Key, WordShingles, tuning
from simindex.tuning.advice import shinglings
from simindex.tuning.labels import read_labels
from simindex.tuning.measures import TextPairs, measured
from simindex.tuning.precision import Goal, points_of
from simindex.tuning.sample import Sample

LICENCES = sorted(extract().items())
SHORT = [(key, text) for key, text in LICENCES if len(text) < 1_500]
KEYS = [key for key, _ in LICENCES]
FIRST, SECOND, _ = exact_similarities((text for _, text in LICENCES), 0.2)
PAIRS = TextPairs([text for _, text in LICENCES], np.stack([FIRST, SECOND], axis=1))
THRESHOLDS = [hundredths / 100 for hundredths in range(100, 4, -1)]
MEASURES: dict[str, np.ndarray] = {}
Label = tuple[Key, Key, str]


@pytest.fixture(scope="module", autouse=True)
def _measures() -> None:
    """The similarities of all pairs by what tune tries, and one more way that it does not try."""
    for shingles in [*shinglings(WordShingles(3)), CharShingles(7)]:
        MEASURES[f"{type(shingles).__name__} {shingles.size}"] = measured(PAIRS, shingles).similarities


def labels_of(wanted: np.ndarray, rows: list[int]) -> list[Label]:
    return [(KEYS[FIRST[row]], KEYS[SECOND[row]], "y" if wanted[row] else "n") for row in rows]


def best_f1(name: str, wanted: np.ndarray, rows: list[int]) -> float:
    scores = MEASURES[name][rows]
    return max(point.f1 for point in points_of(scores, wanted[rows], np.ones(len(rows)), THRESHOLDS))


@pytest.mark.parametrize(("truth", "threshold"), [("WordShingles 3", 0.8), ("CharShingles 7", 0.8)])
def test_advised_threshold_and_shingles_are_nearly_the_best_on_labels_kept_back(
    truth: str, threshold: float
) -> None:
    """Over three ways to part the labels; one way has the luck of some labels near the threshold."""
    wanted, missed = MEASURES[truth] >= threshold, [0.0, 0.0]
    for seed in range(1, 4):
        rows = list(range(len(FIRST)))
        random.Random(seed).shuffle(rows)
        given, kept = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        found = tuning.tune(LICENCES, labels_of(wanted, given))
        config = found.advice.setting.config
        name = f"{type(config.shingles).__name__} {config.shingles.size}"
        scores = MEASURES[name][kept]
        (point,) = points_of(scores, wanted[kept], np.ones(len(kept)), [found.advice.threshold])
        best, tried = best_f1(name, wanted, kept), [name for name in MEASURES if name != "CharShingles 7"]
        missed[0] += best - point.f1
        missed[1] += max(best_f1(other, wanted, kept) for other in tried) - best
        assert found.labels is not None
        # Pairs of the same two texts count once.
        assert 0.95 * len(given) <= sum(found.labels.yes) + sum(found.labels.no) <= len(given)
        assert "with the intervals of 95 %" in found.reason
    assert max(missed) / 3 <= 0.02


def test_precision_lies_in_the_interval_that_sixty_labels_give() -> None:
    """Ten pairs a tenth, drawn 50 times: 45 or more, where an interval of 95 % has fewer in 4 of 100 runs."""
    wanted = MEASURES["CharShingles 7"] >= 0.8
    base = MEASURES["WordShingles 3"]
    tenths = np.minimum((base * 10 + 1e-9).astype(int), 9)
    counts, held = np.bincount(tenths, minlength=10), 0
    for seed in range(50):
        drawn = random.Random(seed)
        rows = [row for t in range(4, 10) for row in drawn.sample(np.flatnonzero(tenths == t).tolist(), 10)]
        weights = counts[tenths[rows]] / 10
        points = points_of(base[rows], wanted[rows], weights, THRESHOLDS)
        threshold = Goal().best(points).threshold
        (point,) = points_of(base[rows], wanted[rows], weights, [threshold], 0.5)
        held += point.precision.low <= wanted[base >= threshold - 1e-9].mean() <= point.precision.high
    assert held >= 45


def short_labels() -> list[Label]:
    keys = {key for key, _ in SHORT}
    found = labels_of(MEASURES["CharShingles 7"] >= 0.8, list(range(len(FIRST))))
    return [label for label in found if label[0] in keys and label[1] in keys]


def test_wanted_precision_raises_the_threshold_and_wanted_recall_lowers_it() -> None:
    labels = [*short_labels(), (SHORT[0][0], SHORT[1][0], "skip")]
    precise, complete = tuning.tune(SHORT, labels, precision=1.0), tuning.tune(SHORT, labels, recall=1.0)
    by_name = {curve.name: curve.best for curve in complete.curves}
    for curve in precise.curves[:-2]:
        assert curve.best.precision.value == by_name[curve.name].recall.value == 1.0
        assert curve.best.threshold >= by_name[curve.name].threshold
    assert precise.labels is not None
    assert precise.labels.skipped == 1
    copies = {"text_a": "one and the same text", "text_b": "one and the same text", "verdict": "n"}
    unreached = tuning.tune(SHORT, [*labels, copies], precision=1.0)
    for report, is_reached in ((precise, True), (unreached, False)):
        assert (
            any(note.startswith("No threshold reaches what you want") for note in report.notes) != is_reached
        )


def test_of_shinglings_that_reach_the_goal_the_one_with_the_better_f1_is_advised() -> None:
    """Three have a precision of 1 at a recall of 0.9 or more; one of them misses less there."""
    labels = labels_of(MEASURES["CharShingles 4"] >= 0.7, list(range(0, len(FIRST), 29)))
    found = tuning.tune(LICENCES, labels, recall=0.9)
    points = [curve.best for curve in found.curves[:-2]]
    reached = [point for point in points if point.recall.value >= 0.9 and point.precision.value == 1]
    assert len(reached) >= 3
    scores = [point.f1 for point in reached]
    assert min(scores) < max(scores) == found.curves[0].best.f1


def test_texts_that_lie_within_longer_ones_are_told_by_containment() -> None:
    dice = random.Random(1)
    words = [f"word{number}" for number in range(3_000)]
    long = [dice.choices(words, k=dice.choice((60, 120, 240))) for _ in range(60)]
    texts = [" ".join(text) for text in long + [text[:40] for text in long]]
    labels = [(n, n + 60, "y") for n in range(60)]
    labels += [(n, n + 1, "n") for n in range(59)]
    for n in range(0, 60, 2):  # as similar as those that are wanted, but neither holds the other
        texts += [" ".join(long[n][: len(long[n]) // 2] + dice.choices(words, k=len(long[n]) // 2))]
        labels.append((n, len(texts) - 1, "n"))
    found = tuning.tune(enumerate(texts), labels)
    assert "containment of " in " ".join(found.notes)
    assert found.curves[-1].best.f1 > 0.99


def test_labels_are_read_in_every_form_that_is_told(tmp_path: Path) -> None:
    labels, texts = short_labels(), dict(SHORT)
    as_ids = [{"a": a, "b": b, "verdict": verdict} for a, b, verdict in labels]
    as_texts = [{"text_a": texts[a], "text_b": texts[b], "verdict": v == "y"} for a, b, v in labels]  # type: ignore[index]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, as_ids)))
    arrays = (np.array(column) for column in zip(*((a, b, v == "y") for a, b, v in labels), strict=True))
    as_arrays = list(zip(*arrays, strict=True))
    by_ids, by_file, by_texts, by_arrays = (
        tuning.tune(SHORT, each) for each in (labels, path, as_texts, as_arrays)
    )
    assert by_ids.curves == by_file.curves == by_texts.curves == by_arrays.curves
    assert by_ids.labels == by_file.labels == by_texts.labels
    assert by_ids.advice.point == by_file.advice.point == by_texts.advice.point


def plagiarism() -> tuple[list[tuple[int, str]], list[Label]]:
    """Twelve programs, ten copies of each with more and more names changed, and as many others with a
    fifth of its lines: labels are of programs and these, and four in ten copies share few words in a row."""
    dice = random.Random(1)
    names = [
        f"{dice.choice('abcdefgh')}{dice.choice(['size', 'value', 'count', 'line'])}{n}" for n in range(90)
    ]
    forms = ("{} = {} + {} ;", "if {} > {} : {} ( )", "for {} in {} : {} += 1", "return {} [ {} ] . {}")
    texts: list[tuple[int, str]] = []
    labels: list[Label] = []
    for own in range(0, 12 * 21, 21):
        some = dice.sample(names, 25)
        lines = [[dice.choice(forms), *dice.choices(some, k=3)] for _ in range(30)]
        texts.append((own, "\n".join(form.format(*used) for form, *used in lines)))
        for copy in range(10):
            changed = {
                name: f"{name}_{dice.randrange(9)}" for name in some if dice.random() < 0.1 + 0.07 * copy
            }
            text = (form.format(*(changed.get(n, n) for n in used)) for form, *used in lines)
            texts.append((own + 1 + copy, "\n".join(text)))
            labels.append((own, own + 1 + copy, "y"))
        for other in range(own + 11, own + 21):
            text = (
                form.format(*used)
                if dice.random() < 0.2
                else dice.choice(forms).format(*dice.choices(some, k=3))
                for form, *used in lines
            )
            texts.append((other, "\n".join(text)))
            labels.append((own, other, "n"))
    return texts, labels


def pairs_of_labels(texts: list[tuple[int, str]], labels: list[Label]) -> tuple[TextPairs, np.ndarray]:
    """The pairs that labels are of, whose keys are positions of texts, and whether each is wanted."""
    ends = np.array([(a, b) for a, b, _ in labels], dtype=np.int64)
    by_key = dict(texts)
    pairs = TextPairs([by_key[key] for key in range(len(texts))], ends)
    return pairs, np.array([verdict == "y" for *_, verdict in labels])


@pytest.mark.parametrize("goal", [{}, {"recall": 0.95}, {"precision": 0.98}])
def test_what_is_stated_holds_for_the_labels_where_many_wanted_ones_are_below_what_is_looked_for(
    goal: dict[str, Any],
) -> None:
    """By the figures of the labels, counted once each."""
    texts, labels = plagiarism()
    found = tuning.tune(texts, labels, **goal)
    setting, stated = found.advice.setting, found.advice.point
    assert setting.by == "minhash"
    assert stated is not None
    pairs, wanted = pairs_of_labels(texts, labels)
    scores = measured(pairs, setting.config.shingles).similarities
    (counted,) = points_of(scores, wanted, np.ones(len(labels)), [setting.threshold])
    for share, expected in (stated.precision, counted.precision), (stated.recall, counted.recall):
        assert share.value == pytest.approx(expected.value)
        assert share.low <= expected.value <= share.high
    assert counted.recall.value >= goal.get("recall", 0)
    assert counted.precision.value >= goal.get("precision", 0)
    below = int((wanted & (measured(pairs, WordShingles(3)).similarities < 0.2)).sum())
    assert 20 < below < 60
    assert f"{below} of 120 wanted labels are below 0.2: " in " ".join(found.notes)


def test_advice_without_a_goal_is_nearly_the_best_that_any_shingles_and_threshold_give() -> None:
    texts, labels = plagiarism()
    found = tuning.tune(texts, labels)
    assert found.advice.point is not None
    best = max(curve.best.f1 for curve in found.curves)
    assert found.advice.point.f1 >= best - 0.01 or "containment of " in " ".join(found.notes)
    pairs, wanted = pairs_of_labels(texts, labels)
    for shingles in (CharShingles(3), CharShingles(5)):
        by = measured(pairs, shingles)
        advised = (by.similarities, found.advice.point.f1), (by.containments, found.curves[-1].best.f1)
        for scores, f1 in advised:
            points = points_of(scores, wanted, np.ones(len(labels)), THRESHOLDS)
            assert f1 >= max(point.f1 for point in points) - 0.01


def test_labels_of_which_few_are_below_what_is_looked_for_keep_their_weights() -> None:
    sample = Sample(keys=list(range(22)), texts=[f"text {n}" for n in range(22)])
    labels = read_labels([*((0, n, "y") for n in range(1, 21)), (0, 21, "n")], sample)
    similarities, histogram = np.array([0.1] + [0.5] * 20), (0,) * 30 + (40,) + (0,) * 49
    notes: list[str] = []
    assert labels.weights(similarities, histogram, notes).tolist() == [1.0] + [2.0] * 20
    similarities[1] = 0.1
    assert not notes
    assert labels.weights(similarities, histogram, notes).tolist() == [1.0] * 21
    assert notes[0].startswith("2 of 20 wanted labels are below 0.2: ")


def test_label_stands_for_pairs_of_the_sample_where_the_sample_has_both_texts() -> None:
    sample = Sample(keys=["a", "b", "c"], texts=["one", "two", "three"])
    pairs = [("one", "two", "y"), ("two", "three", "n"), ("one", "another", "n")]
    as_texts = [{"text_a": a, "text_b": b, "verdict": verdict} for a, b, verdict in pairs]
    labels = read_labels([("a", "c", "y"), *as_texts], sample)
    assert labels.of_sample.tolist() == [True, True, True, False]
    weights = labels.weights(np.array([0.5, 0.5, 0.9, 0.9]), (0,) * 70 + (7,) + (0,) * 9, [])
    assert weights.tolist() == [1.0, 1.0, 7.0, 1.0]


A, B, C = KEYS[:3]
BAD: list[tuple[Any, str]] = [
    (
        [(A, "gone", "y")],
        "labels:1: expected the id of one text of the sample, found 'gone', none in the sample",
    ),
    (
        [(A, B, "y"), (B, A, "n")],
        'labels:2: expected one verdict on a pair, found "n", and "y" .* at labels:1',
    ),
    (
        [(A, B, "y"), (A, C, "y")],
        'labels: expected pairs of both verdicts, found "y" alone; .* less similar',
    ),
    ([(A, B, "n")], 'found "n" alone; .* more similar, too'),
    ([], "expected pairs of both verdicts, found none"),
    ([(A, B, "maybe")], "labels:1: verdict: expected .* found 'maybe'"),
    ([(A, B)], "labels:1: expected a label, .*text_a and text_b in place of ids, found"),
    ([{"a": A, "verdict": "y"}], "labels:1: expected a label"),
    ([{"text_a": 1, "text_b": "x", "verdict": "y"}], "labels:1: expected text_a and text_b to be strings"),
    ([{"a": [A], "b": B, "verdict": "y"}], "labels:1: expected the id of one text"),
    ([({A}, B, "y")], "labels:1: expected the id of one text"),
]


@pytest.mark.parametrize(("labels", "message"), BAD)
def test_bad_labels_are_an_error_that_names_them(labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tuning.tune(LICENCES, labels)


def test_bad_label_of_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('\n{"a": 1\n')
    with pytest.raises(ValueError, match=r"pairs\.jsonl:2: expected a label, .* found no JSON"):
        tuning.tune(LICENCES, path)
    twice = [*LICENCES, (A, "another text")]
    with pytest.raises(ValueError, match="2 texts with it"):
        tuning.tune(twice, [(A, B, "y")])
