"""Chapter 1: text to shingles, by normalisation and by cutting to words or characters.

Sources: seeds 000, 001, 003 and 004; w-shingling, Broder 1997; Unicode Standard, annex 15 and section 3.13.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence

# Scripts written without spaces between words, by how the names of their characters begin.
_ALONE_NAMES = (
    "AHOM ", "BOPOMOFO ", "CJK ", "HALFWIDTH KATAKANA", "HENTAIGANA ", "HIRAGANA ", "IDEOGRAPHIC ",
    "KATAKANA", "KHITAN SMALL SCRIPT", "KHMER ", "LAO ", "MASU MARK", "MYANMAR ", "NEW TAI LUE ", "NUSHU ",
    "TAI LE ", "TAI THAM ", "TAI VIET ", "TANGUT ", "THAI ", "VERTICAL IDEOGRAPHIC ", "VERTICAL KANA ",
    "YI SYLLABLE ",
)  # fmt: skip


def without_surrogates(text: str) -> str:
    """Return `text` with U+FFFD for each lone surrogate, which UTF-8 cannot hold."""
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def normalize(text: str, steps: Collection[str]) -> str:
    """Return `text` with lone surrogates as U+FFFD, then by NFKC, case folding and white space as named.

    They are applied in this order, whatever that of `steps` (Unicode, annex 15 and section 3.13).

    >>> normalize("  Ein  ﬁnes\\tMaß ", ("nfkc", "casefold", "whitespace"))
    'ein fines mass'
    """
    if unknown := set(steps) - {"nfkc", "casefold", "whitespace"}:
        raise ValueError(f"steps: expected nfkc, casefold, whitespace, found {sorted(unknown)}")
    text = without_surrogates(text)
    if "nfkc" in steps:
        text = unicodedata.normalize("NFKC", text)
    if "casefold" in steps:
        text = text.casefold()
    return " ".join(text.split()) if "whitespace" in steps else text


def character_class(char: str) -> str:
    """Return "word", "alone", "mark" or "other", by the Unicode category and name of a character.

    >>> [character_class(char) for char in ("a", "_", "語", "\\u0301", "-")]
    ['word', 'word', 'alone', 'mark', 'other']
    """
    category = unicodedata.category(char)[0]
    if (category == "L" or char == "〇") and unicodedata.name(char, "").startswith(_ALONE_NAMES):
        return "alone"
    if category in "LN" or char == "_":
        return "word"
    return "mark" if category == "M" else "other"


def words(text: str) -> list[str]:
    """Cut normalised text to words: runs of letters, digits and ``_``, ideographs and the like one by one.

    A mark continues the word just before it and never begins one (bag of words, seed 004).

    >>> words("in mother Russia, car_2 drives 日本!")
    ['in', 'mother', 'Russia', 'car_2', 'drives', '日', '本']
    """
    found: list[str] = []
    before = "other"  # the class of the word that the next character may continue
    for char in text:
        now = character_class(char)
        if (now == "mark" and before != "other") or before == now == "word":
            found[-1] += char
        elif now in ("word", "alone"):
            found.append(char)
            before = now
        else:
            before = "other"
    return found


def _starts(length: int, size: int) -> range:
    if size < 1:
        raise ValueError(f"size: expected 1 or more, found {size}")
    return range(max(length - size + 1, min(length, 1)))


def word_shingles(tokens: Sequence[str], size: int) -> list[str]:
    """Return the runs of `size` words, joined by a space, in order and with repeats (seed 004).

    Fewer words are one shingle of all of them; no word, no shingle.

    >>> word_shingles(["a", "bump", "on", "the"], 3)
    ['a bump on', 'bump on the']
    """
    return [" ".join(tokens[start : start + size]) for start in _starts(len(tokens), size)]


def character_shingles(text: str, size: int) -> list[str]:
    """Return the runs of `size` code points, in order and with repeats (seeds 000, 001 and 003).

    >>> character_shingles("abcab", 2)
    ['ab', 'bc', 'ca', 'ab']
    """
    return [text[start : start + size] for start in _starts(len(text), size)]
