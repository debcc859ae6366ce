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

# Emoji that are no symbols by category, and those that a Unicode after 14.0 may yet assign.
_PICTOGRAPHS = "\u3030\u303d"
_RESERVED = ((0x1F000, 0x1FAFF), (0x1FC00, 0x1FFFD))
# Symbols that draw lines; other forms of ASCII signs, and U+FFFD.
_NO_SYMBOLS = ((0x2500, 0x259F), (0xFE00, 0xFFFF))


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
    """Return the class of a character, by its Unicode category, its name and its place.

    "word", "alone", "mark", "flag" (half of one), "modifier" (a skin tone or keycap), "selector" (of an
    emoji's look) or "other"; symbols from U+2190 on and emoji are "alone" (Unicode Technical Standard 51).

    >>> [character_class(char) for char in ("a", "_", "語", "→", "\\u0301", "-")]
    ['word', 'word', 'alone', 'alone', 'mark', 'other']
    """
    if char in "\ufe0e\ufe0f":
        return "selector"
    if char == "\u20e3" or "\U0001f3fb" <= char <= "\U0001f3ff":
        return "modifier"
    if "\U0001f1e6" <= char <= "\U0001f1ff":
        return "flag"
    category = unicodedata.category(char)
    if (category[0] == "L" or char == "〇") and unicodedata.name(char, "").startswith(_ALONE_NAMES):
        return "alone"
    if category[0] in "LN" or char == "_":
        return "word"
    if category[0] == "M" or "\U000e0020" <= char <= "\U000e007f":
        return "mark"
    return "alone" if _is_symbol(ord(char), category) else "other"


def _is_symbol(code: int, category: str) -> bool:
    if code < 0x2190 or any(first <= code <= last for first, last in _NO_SYMBOLS):
        return False
    if category == "Cn":
        return any(first <= code <= last for first, last in _RESERVED)
    return category in ("So", "Sm") or chr(code) in _PICTOGRAPHS


def words(text: str) -> list[str]:
    """Cut normalised text to words: runs of letters, digits and ``_``; ideographs, emoji and the like alone.

    A mark or modifier continues the word just before it; a mark never begins one (bag of words, seed 004).
    Two halves of a flag are one word. A selector is as if it were not there.

    >>> words("in mother Russia, car_2 drives 日本!")
    ['in', 'mother', 'Russia', 'car_2', 'drives', '日', '本']
    """
    found: list[str] = []
    before = "other"  # the class of the word that the next character may continue
    for char in text:
        now = character_class(char)
        if now == "selector":
            continue
        if now in ("mark", "modifier") and before != "other":
            found[-1] += char
            before = "word" if before == "word" else "alone"
        elif before == now == "word":
            found[-1] += char
        elif before == now == "flag":
            found[-1] += char
            before = "alone"
        elif now in ("word", "alone", "flag", "modifier"):
            found.append(char)
            before = "alone" if now == "modifier" else now
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
