"""Tokens and shingles with their places: equal to what the kernel cuts, and the way back is right."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.texts import any_texts, normalize_steps

from simindex import CharShingles, WordShingles, textbook
from simindex.sketching.shingles import shingles_of
from simindex.sketching.spans import shingle_numbers, token_places, tokens_of

either = st.one_of(
    st.builds(WordShingles, st.integers(1, 4), normalize_steps),
    st.builds(CharShingles, st.integers(1, 4), normalize_steps),
)


def names_of(text: str, shingles: WordShingles | CharShingles) -> list[str]:
    """The tokens themselves, in order."""
    names: dict[str, int] = {}
    numbers = tokens_of(text, shingles, names).numbers.tolist()
    words = {number: name for name, number in names.items()}
    return [words[n] for n in numbers] if isinstance(shingles, WordShingles) else list(map(chr, numbers))


@given(any_texts, either)
def test_tokens_are_those_that_the_kernel_cuts_and_each_place_has_its_own(
    text: str, shingles: WordShingles | CharShingles
) -> None:
    single = type(shingles)(1, shingles.normalize)
    names, tokens = names_of(text, shingles), tokens_of(text, shingles, {})
    assert names == shingles_of(text, single)
    assert np.all(np.diff(tokens.starts, prepend=0) >= 0)
    assert np.all(np.diff(tokens.ends, append=len(text)) >= 0)
    assert np.all(tokens.starts < tokens.ends)
    assert np.array_equal(token_places(text, shingles), (tokens.starts, tokens.ends))
    for name, start, end in zip(names, tokens.starts, tokens.ends, strict=True):
        # White space that is a token of its own is cut away where it stands alone.
        assert name == " " or name in shingles_of(text[start:end], single)


def words_by_the_textbook(text: str) -> list[tuple[int, int]]:
    """Where the words of a text lie, folded by character: a word goes as far as characters change it, and a
    selector behind one of these does."""
    found: list[tuple[int, int]] = []
    folded, known, goes_on = "", list[str](), False
    for index, char in enumerate(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")):
        folded += char.casefold()
        words = textbook.words(folded)
        if char not in "\ufe0e\ufe0f":
            goes_on = words != known
        if goes_on and found and (words[: len(known)] != known or words == known):
            found[-1] = found[-1][0], index + 1
        found += [(index, index + 1)] * (len(words) - len(known))
        known = words
    return found


@given(any_texts)
@example("❤\ufe0fa\ufe0fb\ufe0f \ufe0f1\u20e3")
@example("🇩🇪🇫🇷\u0301🇩ŉŉ ﬁ-İ")
def test_places_of_words_are_those_of_the_textbook(text: str) -> None:
    starts, ends = token_places(text, WordShingles(1, ("casefold",)))
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == words_by_the_textbook(text)


@given(st.lists(any_texts, max_size=4), either)
def test_numbers_are_equal_where_shingles_are(
    texts: list[str], shingles: WordShingles | CharShingles
) -> None:
    names: dict[str, int] = {}
    tokens = [tokens_of(text, shingles, names).numbers for text in texts]
    numbers = [n for row in shingle_numbers(tokens, shingles.size) for n in row.tolist()]
    expected = [shingle for text in texts for shingle in shingles_of(text, shingles)]
    assert len(numbers) == len(expected)
    assert len(set(zip(numbers, expected, strict=True))) == len(set(numbers)) == len(set(expected))


@given(st.lists(st.lists(st.integers(0, 2**40), max_size=30).map(np.array), max_size=4), st.integers(1, 40))
def test_numbers_of_long_runs_are_equal_where_the_runs_are(texts: list[np.ndarray], size: int) -> None:
    texts = [text.astype(np.int64) for text in texts]
    numbers = [n for row in shingle_numbers(texts, size) for n in row.tolist()]
    runs = [
        tuple(text[first : first + size].tolist())
        for text in texts
        for first in range(max(len(text) - size + 1, min(len(text), 1)))
    ]
    assert len(numbers) == len(runs)
    assert len(set(zip(numbers, runs, strict=True))) == len(set(numbers)) == len(set(runs))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Maß MASS", [(0, 3), (4, 8)]),
        ("e\u0301t\u0301.", [(0, 4)]),
        ("日本", [(0, 1), (1, 2)]),
        ("❤\ufe0fa\ufe0fb", [(0, 2), (2, 5)]),
        ("🇩🇪🇫🇷", [(0, 2), (2, 4)]),
        ("\ud800a", [(1, 2)]),
    ],
)
def test_words_have_the_places_that_people_see(text: str, expected: list[tuple[int, int]]) -> None:
    tokens = tokens_of(text, WordShingles(1), {})
    assert list(zip(tokens.starts, tokens.ends, strict=True)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ﬁne", [(0, 1), (0, 1), (1, 2), (2, 3)]),
        ("e\u0301", [(0, 2)]),
        ("ㄱㅏ", [(0, 2)]),
        ("ｶﾞ", [(0, 2)]),
        ("  a \t\nb ", [(2, 3), (3, 6), (6, 7)]),
        ("ŉ", [(0, 1), (0, 1)]),
    ],
)
def test_characters_have_the_places_that_they_were_made_of(
    text: str, expected: list[tuple[int, int]]
) -> None:
    shingles = CharShingles(1, ("nfkc", "casefold", "whitespace"))
    tokens = tokens_of(text, shingles, {})
    assert list(zip(tokens.starts, tokens.ends, strict=True)) == expected
