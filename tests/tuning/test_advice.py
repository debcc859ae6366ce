"""`tune`: what it says of a sample, with brute force as the judge."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from support.texts import json_lines
from support.truth import exact_similarities, extract, texts

import simindex
from simindex import CharShingles, WordShingles, tuning
from simindex.tuning import TuningReport
from simindex.tuning.measures import Measured
from simindex.tuning.precision import Goal
from simindex.tuning.sample_pairs import valley_of
from simindex.tuning.settings import Wanted, containment_setting

LICENCES = [(key, text) for key, text in sorted(extract().items()) if len(text) < 4_000]


@pytest.fixture(scope="module")
def report() -> TuningReport:
    return tuning.tune(LICENCES)


def similar_pairs() -> np.ndarray:
    """Similarities of 0.2 or more by brute force; of texts with equal shingles the first stands for all."""
    first, second, similarity = exact_similarities([text for _, text in LICENCES], 0.2)
    copies = set(second[similarity == 1].tolist())
    leaders = {a for a, s in zip(first.tolist(), similarity, strict=True) if s == 1} - copies
    of_copies = [
        (s == 1 and a in leaders) or not {a, b} & copies
        for a, b, s in zip(first.tolist(), second.tolist(), similarity, strict=True)
    ]
    found: np.ndarray = similarity[of_copies]
    return found


def test_tune_counts_the_pairs_by_their_exact_similarity(report: TuningReport) -> None:
    """One of 100 pairs right at 0.2 may be missed, and nearly none of 0.25."""
    bins = np.minimum(((similar_pairs() - 0.2) * 100 + 1e-9).astype(int), 79)
    wanted = np.bincount(bins, minlength=80)
    assert report.histogram[5:] == tuple(wanted[5:].tolist())
    assert 0.98 * wanted[:5].sum() <= sum(report.histogram[:5]) <= wanted[:5].sum()
    assert report.num_from(0.8) == wanted[60:].sum()
    assert report.num_from(1.0) == wanted[79] > 0


def test_tune_says_what_the_sample_is(report: TuningReport) -> None:
    sample, lengths = report.sample, sorted(len(text) for _, text in LICENCES)
    assert (sample.documents, sample.without_shingles) == (len(LICENCES), 0)
    assert sample.copies == len(LICENCES) - len({text for _, text in LICENCES})
    assert sample.characters[2] == lengths[len(lengths) // 2]
    assert sample.scripts["latin"] > 0.99
    assert 0.2 < sample.common_share < 0.8


def tenth_of(similarity: float) -> int:
    return min(9, int(10 * similarity + 1e-9))


def test_tune_shows_three_pairs_a_tenth_and_sixty_to_label(report: TuningReport) -> None:
    shown = [pair.similarity for pair in report.examples]
    assert list(map(tenth_of, shown)) == [tenth for tenth in range(2, 10) for _ in range(3)]
    assert shown == sorted(shown)
    tenths = [tenth_of(pair.similarity) for pair in report.to_label]
    assert sorted(tenths[:60]) == [tenth for tenth in range(4, 10) for _ in range(10)]
    assert sorted(tenths[60:]) == [tenth for tenth in range(2, 4) for _ in range(10)]
    assert tenths[:60] != sorted(tenths[:60])
    texts_of = dict(LICENCES)
    assert all(
        texts_of[pair.a] == pair.text_a and texts_of[pair.b] == pair.text_b for pair in report.to_label
    )


def test_tune_expects_of_settings_what_an_index_finds(report: TuningReport, tmp_path: Path) -> None:
    threshold = report.advice.threshold
    wanted = int((similar_pairs() >= threshold).sum())
    right: set[tuple[object, object]] = set()
    for setting in report.settings:
        if setting.by != "minhash":
            continue
        with simindex.open(tmp_path / setting.name.replace(" ", ""), config=setting.config) as index:
            index.insert_many(LICENCES)
            if not right:
                exact = index.pairs(threshold, texts=dict(LICENCES), copies="first")
                right = {(pair.a, pair.b) for pair in exact}
            found = {(p.a, p.b) for p in index.pairs(threshold, exact=setting.exact, copies="first")}
        # Pairs of one family share their errors, so they count for a fifth of independent ones.
        assert 1 - len(found & right) / wanted == pytest.approx(setting.missed, abs=0.08), setting.name
        assert 1 - len(found & right) / len(found) == pytest.approx(setting.wrong, abs=0.08), setting.name


def test_tune_expects_of_containment_what_a_query_finds(tmp_path: Path) -> None:
    """Of pairs of 0.2 or more, either text of which is stored and the other one asked for."""
    unlike = {key: text for text, key in {text: key for key, text in LICENCES}.items()}
    report = tuning.tune(unlike.items())
    (setting,) = (each for each in report.settings if each.by == "containment")
    shared = 2 * report.advice.threshold / (1 + report.advice.threshold)  # of two texts of one length
    assert setting.threshold <= shared < setting.threshold + 0.01
    with simindex.open(tmp_path / "i", config=setting.config) as index:
        index.insert_many(unlike.items())
        answers = index.query_containment_many(list(unlike.values()), setting.threshold, texts=unlike)
    found = [
        match.similarity
        for key, matches in zip(unlike, answers, strict=True)
        for match in matches
        if match.key != key and match.similarity >= 0.2
    ]
    right = sum(similarity >= report.advice.threshold for similarity in found)
    wanted = 2 * int((exact_similarities(unlike.values(), 0.2)[2] >= report.advice.threshold).sum())
    assert 1 - right / wanted == pytest.approx(setting.missed, abs=0.01)
    assert 1 - right / len(found) == pytest.approx(setting.wrong, abs=0.01)


def test_containment_takes_as_few_sampled_shingles_as_find_nearly_all() -> None:
    """Texts of 12 shingles, 10 of which are in one of 500: met by its least hashes, or by the formula."""
    few = Measured(*(np.full(3, count) for count in (10, 12, 500)))
    many = Measured(*(np.full(3, count) for count in (100, 120, 500)))
    found = [
        containment_setting(
            Wanted(of, np.zeros(3, int), np.ones(3, bool), np.ones(3)),
            WordShingles(),
            0.8,
            Goal(),
            texts(100),
        )
        for of in (few, many)
    ]
    assert [setting.config.containment for setting in found] == [2, 16]
    assert found[0].missed == pytest.approx(0.5**10 / 2, rel=0.01)
    assert [setting.wrong for setting in found] == [0, 0]


def test_bytes_of_a_setting_are_those_of_a_compacted_index(tmp_path: Path) -> None:
    dice = random.Random(1)
    sample = [(n, " ".join(str(dice.randrange(10**6)) for _ in range(80))) for n in range(4_000)]
    for setting in tuning.tune(sample).settings:
        with simindex.open(tmp_path / setting.name, config=setting.config) as index:
            index.insert_many(sample)
            index.compact()
            stats = index.stats()
        assert setting.document_bytes == pytest.approx(stats.used_bytes / 4_000, rel=0.12), setting.name


def test_tune_is_the_same_of_files_and_of_pairs_of_key_and_text(report: TuningReport, tmp_path: Path) -> None:
    halves = LICENCES[:100], LICENCES[100:]
    for number, half in enumerate(halves):
        rows = [{"id": key, "text": text} for key, text in half]
        (tmp_path / f"{number}.jsonl").write_bytes(json_lines(rows))
    done: list[int] = []
    paths = [str(tmp_path / "0.jsonl"), str(tmp_path / "1.jsonl")]
    found = tuning.tune(paths, progress=done.append).to_dict()
    wanted = report.to_dict()
    for setting in (*found["settings"], *wanted["settings"]):
        del setting["document_seconds"]
    assert found == wanted
    assert done == list(range(1, len(LICENCES) + 1))


def test_report_with_keys_of_bytes_goes_into_json() -> None:
    report = tuning.tune((str(n).encode(), f"text {n % 30} of a small sample") for n in range(100))
    found = json.loads(json.dumps(report.to_dict()))
    assert all(key.keys() == {"bytes"} for a, b, _ in found["examples"] for key in (a, b))
    assert all(finding.holds for finding in tuning.drift(report.to_dict(), found))


def test_tune_takes_other_shingles() -> None:
    found = tuning.tune(LICENCES[:120], shingles=CharShingles(9))
    assert found.advice.setting.config.shingles == CharShingles(9)
    assert found.advice.command("a.jsonl").endswith("--chars 9")


def test_tune_thins_a_sample_with_too_many_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simindex.tuning.sample_pairs._MOST_PAIRS", 300)
    found = tuning.tune(LICENCES)
    assert 0 < found.num_pairs <= 300
    assert "drawn at random" in " ".join(found.notes)


def test_tune_of_unlike_texts_says_that_nothing_is_similar() -> None:
    found = tuning.tune((n, f"a{n} b{n} c{n} d{n}") for n in range(100))
    assert (found.num_pairs, found.valley, found.examples) == (0, None, ())
    assert found.notes[0].startswith("Similar pairs, of 0.2 or more: 0, which is little")


def test_tune_refuses_samples_that_say_nothing() -> None:
    with pytest.raises(ValueError, match="expected 100 texts or more, found 0; so few"):
        tuning.tune([])
    with pytest.raises(ValueError, match="expected 100 texts or more, found 10; so few"):
        tuning.tune(enumerate(texts(10)))
    with pytest.raises(ValueError, match="found 100 without a letter, digit or symbol"):
        tuning.tune((n, " ,; ") for n in range(100))
    with pytest.raises(TypeError, match="items:1: expected a text, found tuple"):
        tuning.tune((n, ("a", "b")) for n in range(100))
    for missing in (None, float("nan")):
        with pytest.raises(TypeError, match=r"items:1: expected a text, found .*; leave out rows without"):
            tuning.tune((n, missing) for n in range(100))


def test_valley_is_between_two_heaps() -> None:
    assert valley_of((*[100] * 20, *[3] * 20, *[90] * 40)) == 0.5
    assert valley_of((*range(80, 0, -1),)) is None
    assert valley_of((*[40] * 40, *[0] * 5, *[1] * 35)) is None


def test_tune_names_the_settings_for_short_texts() -> None:
    notes = [(n, f"User {n % 9} likes tea number {n}") for n in range(120)]
    assert "Config.short_texts()" in " ".join(tuning.tune(notes).notes)
    short = tuning.tune(notes, shingles=simindex.Config.short_texts().shingles)
    assert "Config.short_texts()" not in " ".join(short.notes)


def test_tune_does_not_name_them_for_long_texts(report: TuningReport) -> None:
    assert "Config.short_texts()" not in " ".join(report.notes)
