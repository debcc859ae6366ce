"""Texts of emoji and other symbols alone: similar to their near copies, and not all to one another."""

import itertools
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simindex import Config, Sketcher, WordShingles, textbook
from simindex.sketching import alphabet

SINGLE_WORDS = Sketcher(Config(WordShingles(1)))

PARTY = "🎉🎂🥳🎈🍰✨🎁🕯️👏🏽🙌🏿❤️‍🔥👩‍🎤🇩🇪🇫🇷1️⃣🔟 → ★★★☆"


def test_near_copy_of_emoji_is_similar_and_another_text_is_not() -> None:
    near = PARTY.replace("🎈", "🪅")
    before, after = set(textbook.words(PARTY)), set(textbook.words(near))
    assert (len(before & after), len(before | after)) == (20, 22)
    party, copy = SINGLE_WORDS.sketch(PARTY), SINGLE_WORDS.sketch(near)
    # 128 rows err by 0.026 here; 0.12 is more than four of them, and the hashes are always the same.
    assert party.jaccard(copy) == pytest.approx(20 / 22, abs=0.12)
    assert party.jaccard(SINGLE_WORDS.sketch("🐶🐱🐭🐹🐰🦊🐻🐼🐨🐯🦁🐮🐷🐸🐵")) < 0.1


def test_modifiers_do_not_make_all_emoji_equal() -> None:
    people = "👍👎👋🙏💪👃👂🤚🖖🤞"
    modified = [[f"{one}{tone}" for one in people] for tone in ("🏻", "🏿", "\ufe0f", "")]
    for sequences in modified:
        for one, other in itertools.combinations(sequences, 2):
            assert SINGLE_WORDS.sketch(one).jaccard(SINGLE_WORDS.sketch(other)) < 0.2, (one, other)
    for one, other in itertools.combinations(["🇩🇪", "🇪🇩", "🇫🇷", "🏴"], 2):
        assert SINGLE_WORDS.sketch(one).jaccard(SINGLE_WORDS.sketch(other)) < 0.2, (one, other)
    flags = ["🏴\U000e0067\U000e0062\U000e007f", "🏴\U000e0066\U000e007f", "🏴"]
    unfolded = Sketcher(Config(WordShingles(1, ("casefold",))))
    for one, other in itertools.combinations(flags, 2):
        assert unfolded.sketch(one).jaccard(unfolded.sketch(other)) < 0.2, (one, other)
        assert SINGLE_WORDS.sketch(one) == SINGLE_WORDS.sketch(other)  # tags are not seen


SYMBOLS = "".join(
    char
    for char, kind in zip(map(chr, range(0x110000)), alphabet.class_table(), strict=True)
    if kind == alphabet.ALONE_CLASS and unicodedata.category(char)[0] in "SPC"
)
"""Every symbol that may stand alone for a word, and that folding leaves alone."""


@settings(max_examples=60)
@given(st.text(st.sampled_from(SYMBOLS), min_size=1, max_size=30))
def test_every_symbol_is_a_word_of_its_own(text: str) -> None:
    sketch = SINGLE_WORDS.sketch(text)
    assert sketch == SINGLE_WORDS.sketch(" ".join(text)) == SINGLE_WORDS.sketch(list(text))
    assert sketch.jaccard(sketch) == 1.0
