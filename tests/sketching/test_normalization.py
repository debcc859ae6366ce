"""The steps before the kernel against their definitions, and their linear time."""

import unicodedata
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts import any_texts, codes_of, known, marked_up

import simindex
from simindex import CharShingles, Config, ConfigMismatchError, SimHashConfig, WordShingles, textbook
from simindex.config import NORMALIZE_STEPS
from simindex.sketching import alphabet
from simindex.sketching.normalization import edits, prepare

PREPARED = [step for step in NORMALIZE_STEPS if step not in ("casefold", "whitespace")]


def apply(step: str, text: str) -> str:
    if step == "fold":  # as a step of Python, not of the kernel's cutting
        return alphabet.normalized(text, "fold")
    return prepare(text, CharShingles(1, (step,)))


@settings(max_examples=600)
@given(st.sampled_from(PREPARED), any_texts)
def test_a_step_equals_its_definition_and_its_edits(step: str, text: str) -> None:
    text = textbook.shingles.without_surrogates(text)
    found = apply(step, text)
    assert found == textbook.normalize(text, (step,))
    for first, last, new in reversed(list(edits(text, step))):
        text = text[:first] + new + text[last:]
    assert found == text


@settings(max_examples=600)
@given(st.sampled_from(NORMALIZE_STEPS), any_texts)
def test_a_step_changes_nothing_the_second_time(step: str, text: str) -> None:
    once = textbook.normalize(text, (step,))
    assert textbook.normalize(once, (step,)) == once


@given(marked_up, st.permutations(NORMALIZE_STEPS), st.integers(0, 8))
def test_the_order_of_the_names_does_not_matter(text: str, names: list[str], count: int) -> None:
    named, in_order = names[:count], [step for step in NORMALIZE_STEPS if step in names[:count]]
    assert WordShingles(2, tuple(named)) == WordShingles(2, tuple(in_order))
    assert prepare(text, CharShingles(2, tuple(named))) == prepare(text, CharShingles(2, tuple(in_order)))
    assert textbook.normalize(text, named) == textbook.normalize(text, in_order)


@pytest.mark.parametrize(
    ("step", "text", "expected"),
    [
        ("html", "<p class=a>one</p>two <3 AT&T", " one two  3 AT T"),
        ("html", "a<!-- <b> -->b<script>if (a<b) {}</script >c<style/>d</style>e", "a b c e"),
        ("html", "<!-->a<!-- b<script>c", " a !-- b c"),
        ("html", "caf&eacute; &#x263a; &lt;b&gt; &amp;lt; &unknown;", "café ☺  b>  lt;  unknown;"),
        ("comments", 'int a; // x\nb /* c\nd */ e; "//f" // g', 'int a; \nb \n e; "//f" '),
        (
            "comments",
            "# a\nx = 1  # b\n#include <c>\n#!/bin/sh\n$# y C# z",
            "\nx = 1  \n#include <c>\n\n$# y C# z",
        ),
        (
            "comments",
            "SELECT 1 -- one\nfor (;i--; ) http://a/b rm /tmp/*",
            "SELECT 1 \nfor (;i--; ) http://a/b rm /tmp/*",
        ),
        (
            "diacritics",
            "Čeština naïve Ελλάς: Ἀθῆναι ёй שָׁלוֹם مُحَمَّد أ が हिन्दी ø",
            "Cestina naive Ελλας: Αθηναι еи שלום محمد أ が हिन्दी ø",
        ),
        ("diacritics", "Бг҃ъ ꙗ҆́зы́къ\u2de3 بِسۡمِ ٱللَّهِ عَلِيمࣱ", "Бгъ ꙗзыкъ بسم ٱلله عليم"),
        ("fold", "ＳＴＲＡＳＳＥ Stra\u00adße ﬁ\u200bancE\u0301e ϓ ᾳ\u0301", "strasse strasse fiancée ύ άι"),
        ("fold", "می\u200cخواهم ﻻ क्\u200dष ｶﾞ 한\ufeff ½ ™", "میخواهم لا क्ष ガ 한 1⁄2 tm"),
        ("numbers", "1,234.56 on 2024-01-05, covid19, ٣٫١٤, 1. .5 ½", "0 on 0-0-0, covid0, 0, 0. .0 ½"),
        ("punctuation", "don't e-mail U.S.A. $5 → 1️⃣ a\xadb", "dont email USA 5 → 1️⃣ ab"),
    ],
)
def test_steps_do_what_people_expect(step: str, text: str, expected: str) -> None:
    assert apply(step, text) == expected == textbook.normalize(text, (step,))


@pytest.mark.parametrize("step", ["diacritics", "numbers", "punctuation"])
def test_folding_brings_back_nothing_that_a_step_took(step: str) -> None:
    for code in alphabet.fold_table()[:, 0].tolist():
        folded = textbook.normalize(chr(code), (step, "casefold"))
        expected = unicodedata.normalize("NFC", folded) if step == "diacritics" else folded
        assert apply(step, folded) == expected


def test_digits_are_those_of_unicode() -> None:
    decimal = {code for code in known() if unicodedata.category(chr(code)) == "Nd"}
    assert codes_of("digits") & set(known()) == decimal


def test_diacritics_are_marks_that_are_no_letters_of_their_own() -> None:
    codes = codes_of("marks") & set(known())
    assert {unicodedata.category(chr(code)) for code in codes} == {"Mn", "Me"}
    assert {0x483, 0x488, 0x8D3, 0x8F0, 0x2DE0, 0xA67D} <= codes
    assert not {0x3099, 0x309A, 0x653, 0x654, 0x655, 0x20E3} & codes


@pytest.mark.parametrize(
    "piece", ["<", "<!--", "<script>", "<b", "&#", "&a", "/*", '"', "'", '\\"', "#", "--", ":/", "1,"]
)
@pytest.mark.parametrize("step", ["html", "comments", "numbers"])
def test_a_step_looks_at_each_character_a_bounded_number_of_times(step: str, piece: str) -> None:
    """Where the time is the square of the length, 300,000 characters take minutes."""
    assert len(apply(step, piece * (300_000 // len(piece)))) <= 300_000


def test_steps_are_stored_and_compared(tmp_path: Path) -> None:
    def config(names: str) -> Config:
        steps = tuple(names.split())
        shingles = WordShingles(2, steps)
        return Config(shingles=shingles, simhash=SimHashConfig(shingles=WordShingles(1, steps)))

    stored = config("numbers html casefold")
    with simindex.open(tmp_path / "a", config=stored) as index:
        index.insert("a", "<p>Caf&eacute; no. 17 opens at 8:30")
        assert [m.similarity for m in index.query("café no. 9 opens at 10:15", 0.9)] == [1.0]
    for names in permutations(["casefold", "html", "numbers"]):
        simindex.open(tmp_path / "a", config=config(" ".join(names))).close()
    with pytest.raises(ConfigMismatchError, match="'html', 'numbers', 'casefold'"):
        simindex.open(tmp_path / "a", config=Config())
    with simindex.open(tmp_path / "b", config=config("numbers casefold")) as index:
        index.insert("b", "another")
    with pytest.raises(ConfigMismatchError, match="shingles"):
        simindex.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")


def test_a_deduplication_and_a_resketch_go_by_the_steps(tmp_path: Path) -> None:
    config = Config(shingles=WordShingles(2, ("numbers", "casefold")), simhash=None)
    rows = [(n, f"Order {n} was sent on 2024-01-{n:02}") for n in range(1, 5)]
    assert simindex.corpus.deduplicate(rows, None, config=config).kept == 1
    with simindex.open(tmp_path / "whole", config=config) as index:
        index.insert_many(rows[:1])
    simindex.resketch(tmp_path / "whole", tmp_path / "half", num_perm=64)
    with simindex.open(tmp_path / "half") as index:
        assert index.config.shingles == config.shingles
        assert [match.key for match in index.query("Order 99 was sent on 2025-12-31", 0.9)] == [1]


def test_steps_may_differ_between_signature_and_fingerprint() -> None:
    config = Config(
        shingles=WordShingles(2, ("numbers", "casefold")),
        simhash=SimHashConfig(shingles=WordShingles(1, ("html", "casefold"))),
        num_perm=16,
    )
    one, two = simindex.Sketcher(config).sketch_many(["<b>a</b> 1 c d", "b a b 2 c d"])
    assert one.jaccard(two) == 1
    assert one.hamming(simindex.Sketcher(config).sketch("a 1 c d")) == 0


@pytest.mark.parametrize("step", ["fold", "nfkc", "diacritics"])
@given(any_texts)
def test_slices_that_a_step_may_change_can_be_changed_one_by_one(step: alphabet.Mapping, text: str) -> None:
    text = textbook.shingles.without_surrogates(text)
    parts, done = [], 0
    for first, last in alphabet.pieces(text, step):
        assert done <= first < last
        parts += [text[done:first], alphabet.normalized(text[first:last], step)]
        done = last
    assert "".join([*parts, text[done:]]) == alphabet.normalized(text, step)
