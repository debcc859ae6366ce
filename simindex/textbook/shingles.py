"""Chapter 1: text to shingles, by normalisation and by cutting to words or characters.

Sources: seeds 000, 001, 003 and 004; w-shingling, Broder 1997; Unicode Standard, annex 15 and section 3.13.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from html import unescape
from html.entities import html5

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


_STEPS = (
    "html", "comments", "nfkc", "fold", "diacritics", "numbers", "punctuation", "casefold", "whitespace"
)  # fmt: skip


def normalize(text: str, steps: Collection[str]) -> str:
    """Return `text` with lone surrogates as U+FFFD, then after the steps that are named. ValueError: a name
    is no step.

    They are applied in the order in which the code has them, whatever that of `steps` (Unicode, annex 15 and
    section 3.13; HTML standard, section 13.2).

    >>> normalize("  Ein  ﬁnes\\tMaß ", ("nfkc", "casefold", "whitespace"))
    'ein fines mass'
    """
    if unknown := set(steps) - set(_STEPS):
        raise ValueError(f"steps: expected {', '.join(_STEPS)}; found {sorted(unknown)}")
    text = without_surrogates(text)
    if "html" in steps:
        text = without_html(text)
    if "comments" in steps:
        text = without_comments(text)
    if "nfkc" in steps:
        text = unicodedata.normalize("NFKC", text)
    if "fold" in steps:
        text = nfkc_casefold(text)
    if "diacritics" in steps:
        text = without_diacritics(text)
    if "numbers" in steps:
        text = re.sub(r"\d+([.,٫٬]\d+)*", "0", text)
    if "punctuation" in steps:
        text = "".join(char for char in text if char.isspace() or character_class(char) != "other")
    if "casefold" in steps and "fold" not in steps:
        text = text.casefold()
    return " ".join(text.split()) if "whitespace" in steps else text


def without_html(text: str) -> str:
    """Return `text` without its markup: a space in place of each tag, comment, script and style.

    References are their characters. No ``<`` and no ``&`` is left: those that begin nothing are a space, too.
    A comment or script without an end is but its first tag.

    >>> without_html("<p title='x'>caf&eacute; <!-- 1 < 2 --> &lt; tea")
    ' café     tea'
    """
    markup = (
        r"(?ais)<!(?=--).*?-->|<(script|style)(?=[\s/>]).*?</\1[^<>]*>|<[a-z/!?][^<>]*>"
        r"|(&(?:#[0-9]{1,7}|#x[0-9a-f]{1,6}|[a-z][0-9a-z]{0,31});)|[<&]"
    )

    def replacement(match: re.Match[str]) -> str:
        reference = match[2] or "&"
        is_known = reference[1:] in html5 or reference.startswith("&#")
        return re.sub("[<&]", " ", unescape(reference) if is_known else reference)

    return re.sub(markup, replacement, text)


def without_comments(text: str) -> str:
    """Return program code without its comments: ``/* */``, and to the end of a line ``//``, ``#`` and ``--``.

    A ``#`` stands behind no letter, digit, ``_`` or ``$``, a ``--`` behind none of them but ``$``, nor behind
    ``)``, ``]`` or ``-``; a space or tab follows both, or ``!`` or ``#`` the first. Strings in quotation
    marks are kept, and so is ``://``. A block comment is a line break, and none where it does not end.

    >>> without_comments("x = '#'  # y\\nurl = http://z /* s */")
    "x = '#'  \\nurl = http://z \\n"
    """
    code = (
        r"""(?as)("(?:[^"\\\n]|\\[^\n])*"?|(?<!\w)'(?:[^'\\\n]|\\[^\n])*'?|:/+)|(/\*.*?\*/)"""
        r"""|(?://|(?<![\w$])#(?=[ \t!#])|(?<![\w)\]-])--(?=[ \t]))[^\n]*"""
    )
    return re.sub(code, lambda match: match[1] or ("\n" if match[2] else ""), text)


# Default_Ignorable_Code_Point: what is not seen where it is not known.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def nfkc_casefold(text: str) -> str:
    """Return NFKC_Casefold of form D of `text`: what looks alike is alike (Unicode Standard, definition 147).

    Each character by itself is folded, brought to form KC and rid of what is not seen, until nothing changes;
    then the whole is brought to form C.

    >>> nfkc_casefold("ＳＴＲＡＳＳＥ"), nfkc_casefold("Stra\u00adße"), nfkc_casefold("ﬁancée") == "fiancée"
    ('strasse', 'strasse', True)
    """
    folded = "".join(map(_folded, unicodedata.normalize("NFD", text)))
    return unicodedata.normalize("NFC", folded)


def _folded(char: str) -> str:
    before, now = "", char
    while now != before:
        before, now = now, unicodedata.normalize("NFKC", _IGNORABLE.sub("", now.casefold()))
    return now


# Combining marks of Latin, Greek and Cyrillic, Hebrew points, Arabic vowel and recitation marks.
_DIACRITICS = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u0652"
    "\u0656-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0898-\u089f\u08ca-\u08e1"
    "\u08e3-\u08ff\u1ab0-\u1abd\u1abf-\u1ace\u1dc0-\u1dff\u20d0-\u20dc\u20e1\u20e5-\u20f0\u2de0-\u2dff"
    "\ua66f-\ua672\ua674-\ua67d\ua69e\ua69f\ufe20-\ufe2f\U00010efd-\U00010eff]"
)


def without_diacritics(text: str) -> str:
    """Return `text` in form C of Unicode without its diacritics: é is e, й is и, and が stays.

    >>> without_diacritics("Čeština, ёлка, が, ø")
    'Cestina, елка, が, ø'
    """
    return unicodedata.normalize("NFC", _DIACRITICS.sub("", unicodedata.normalize("NFD", text)))


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
    name = unicodedata.name(char, "TANGUT " if "\U00017000" <= char <= "\U00018d08" else "")
    if (category[0] == "L" or char == "〇") and name.startswith(_ALONE_NAMES):
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

    Fewer words are one shingle of all of them; no word, no shingle. ValueError: a size below 1. TypeError: a
    text, which is not cut.

    >>> word_shingles(["a", "bump", "on", "the"], 3)
    ['a bump on', 'bump on the']
    """
    if isinstance(tokens, str):
        raise TypeError(f"tokens: expected a list of words, found the text {tokens!r:.80}; words() cuts it")
    return [" ".join(tokens[start : start + size]) for start in _starts(len(tokens), size)]


def character_shingles(text: str, size: int) -> list[str]:
    """Return the runs of `size` code points, in order and with repeats (seeds 000, 001 and 003). A shorter
    text is one of them, an empty one has none. ValueError: a size below 1.

    >>> character_shingles("abcab", 2)
    ['ab', 'bc', 'ca', 'ab']
    """
    return [text[start : start + size] for start in _starts(len(text), size)]
