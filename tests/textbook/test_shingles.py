"""Chapter 1 of the textbook against the worked examples of the five source documents."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex import textbook


def test_textbook_normalize_applies_the_steps_in_one_order() -> None:
    assert textbook.normalize("Ⅳ\u3000ﬁN", ("whitespace", "casefold", "nfkc")) == "iv fin"
    assert textbook.normalize("Ⅳ", ("casefold",)) == "ⅳ"
    assert textbook.normalize("  a\t\x1f\u2003b\n", ("whitespace",)) == "a b"
    assert textbook.normalize(" A\ud800\udfff ", ()) == " A\ufffd\ufffd "
    with pytest.raises(ValueError, match="lower"):
        textbook.normalize("a", ("lower",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" -\u0301 ", []),
        ("snake_case x² 12", ["snake_case", "x²", "12"]),
        ("e\u0301a-\u0301b", ["e\u0301a", "b"]),
        ("日本語abc", ["日", "本", "語", "abc"]),
        ("abc日\u3099\u0301x", ["abc", "日\u3099\u0301", "x"]),
        ("กำขี่", ["ก", "ำ", "ขี่"]),
        ("〇々ー한국어", ["〇", "々", "ー", "한국어"]),
        ("a日\u0301\u0301-\u0301", ["a", "日\u0301\u0301"]),
        ("ok😀😀→ ☆b", ["ok", "😀", "😀", "→", "☆", "b"]),
        ("❤\ufe0f❤ a\ufe0fb\ufe0e", ["❤", "❤", "ab"]),
        ("👍🏽👍 🏽\u0301 x🏽", ["👍🏽", "👍", "🏽\u0301", "x🏽"]),
        ("👩\u200d💻👩🏿\u200d🚀", ["👩", "💻", "👩🏿", "🚀"]),
        ("🇩🇪🇫🇷🇮 🇹a", ["🇩🇪", "🇫🇷", "🇮", "🇹", "a"]),
        ("🇩\u0301🇪🇫", ["🇩\u0301", "🇪🇫"]),
        ("1\ufe0f\u20e3#\ufe0f\u20e3", ["1\u20e3", "\u20e3"]),
        ("🏴\U000e0067\U000e0062\U000e007f \U000e0067", ["🏴\U000e0067\U000e0062\U000e007f"]),
        ("〰〽\U0001faff", ["〰", "〽", "\U0001faff"]),
        ("│─█ ±÷ a≠b © ™ ＋ \ufffd", ["a", "≠", "b"]),
    ],
)
def test_textbook_words_are_cut_by_character_class(text: str, expected: list[str]) -> None:
    assert textbook.words(text) == expected


_LETTERS = {"word": "w", "alone": "a", "mark": "m", "flag": "f", "modifier": "t", "other": "-"}


@given(
    st.text(
        st.one_of(
            st.sampled_from("ab_1 -日カ한ก\u0301\u0e34\u3099😀❤\ufe0f🏽\u20e3\u200d🇩🇪\U000e0067"),
            st.characters(),
        )
    )
)
def test_textbook_words_equal_a_regular_expression_over_classes(text: str) -> None:
    text = re.sub("[\ufe0e\ufe0f]", "", text)
    classes = "".join(_LETTERS[textbook.character_class(char)] for char in text)
    runs = re.finditer("(?:ff|f|a)[mt]*|w[wmt]*|t[mt]*", classes)
    assert textbook.words(text) == [text[run.start() : run.end()] for run in runs]


@pytest.mark.parametrize(
    ("text", "size", "shingles"),
    [
        ("abcab", 2, "ab bc ca ab"),  # seeds 000 and 003
        ("abcdabd", 2, "ab bc cd da ab bd"),  # seed 004
        ("sample_document", 3, "sam amp mpl ple le_ e_d _do doc ocu cum ume men ent"),  # seed 001
    ],
)
def test_textbook_character_shingles_are_those_of_the_seeds(text: str, size: int, shingles: str) -> None:
    assert textbook.character_shingles(text, size) == shingles.split()


def test_textbook_shingles_of_one_character_cannot_tell_the_pangram_from_the_alphabet() -> None:
    alphabet_text, pangram = "abcdefghijklmnopqrstuvwxyz ", "the quick brown fox jumps over the lazy dog"
    assert set(textbook.character_shingles(alphabet_text, 1)) == set(textbook.character_shingles(pangram, 1))


def test_textbook_short_texts_are_one_shingle_and_empty_ones_none() -> None:
    assert textbook.word_shingles(["a", "b"], 3) == ["a b"]
    assert textbook.character_shingles("ab", 9) == ["ab"]
    assert textbook.word_shingles([], 3) == textbook.character_shingles("", 3) == []
    with pytest.raises(ValueError, match="size"):
        textbook.word_shingles(["a"], 0)
