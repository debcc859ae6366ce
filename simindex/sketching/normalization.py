"""The steps of normalisation that come before the kernel: all but case folding and white space.

A step is the list of its edits: what of a text it replaces by what. From them follow the normalised text, and
in `spans` the way back. docs/hashing.md has the rules, `textbook` the same in plain Python. Every step is
linear in the text: a search that found no end is not made again, and no pattern goes back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from simindex.config import Shingles
from simindex.sketching import alphabet

Edit = tuple[int, int, str]
"""A slice of a text, first and last exclusive, and what takes its place. Edits ascend and are apart."""


def steps_before(shingles: Shingles) -> tuple[str, ...]:
    """Return the steps that a text takes before it goes to the kernel, in order."""
    return tuple(filter(_EDITS.__contains__, shingles.normalize))


def prepare(text: str, shingles: Shingles) -> str:
    """Return the text after the steps that come before the kernel."""
    for step in steps_before(shingles):
        text = _WHOLE[step](text) if step in _WHOLE else _edited(text, _EDITS[step](text))
    return text


def edits(text: str, step: str) -> Iterator[Edit]:
    """Return what a step replaces."""
    return _EDITS[step](text)


def _edited(text: str, changes: Iterable[Edit]) -> str:
    parts, done = [], 0
    for first, last, new in changes:
        parts += [text[done:first], new]
        done = last
    return "".join([*parts, text[done:]]) if parts else text


# ---- one regular expression each ----


_ABOVE = "\U00010000-\U0010ffff"


def _brackets(pairs: Iterable[tuple[int, int]]) -> tuple[str, str]:
    """Return the ranges below U+10000 and those from it on, for brackets of their own.

    `re` has a table of the first; the others it tries one by one, and in shared brackets for all characters.
    """
    found = list(pairs)
    below = ((first, min(last, 0xFFFF)) for first, last in found if first < 0x10000)
    above = ((max(first, 0x10000), last) for first, last in found if last >= 0x10000)
    return alphabet.inside_brackets(below), alphabet.inside_brackets(above)


@cache
def _number() -> re.Pattern[str]:
    below, above = _brackets(alphabet.ranges(alphabet.DIGIT))
    digit = f"(?:[{below}]|[{above}])"
    return re.compile(f"(?=[{below}{_ABOVE}]){digit}+(?:[.,\u066b\u066c]{digit}+)*")


@cache
def _signs() -> re.Pattern[str]:
    """Runs of characters of no class."""
    runs = (run.span() for run in re.finditer(b"\0+", alphabet.class_table()))
    below, above = _brackets((first, last - 1) for first, last in runs)
    return re.compile(f"[{below}]+|(?=[{_ABOVE}])[{above}]+")


# Beside the marks: what NFKC can join with the character before it, or makes a mark of. Jamo, those of
# compatibility and half width included, and the half-width voiced marks.
_JOINING = "1160-11ff 20e3 3131-318e d7b0-d7ff fe0e-fe0f ff9e-ffdc"


@cache
def segments() -> re.Pattern[str]:
    """A character and all that NFKC may join with it, where there can be anything to do for NFKC."""
    joining = alphabet.inside_brackets([*alphabet.ranges(alphabet.MARK), *alphabet.ranges(_JOINING)])
    return re.compile(f"[^{joining}]?[{joining}]+|[^\x00-\x7f]")


def _by_pattern(
    pattern: Callable[[], re.Pattern[str]], change: Callable[[str], str] | str
) -> Callable[[str], Iterator[Edit]]:
    def found(text: str) -> Iterator[Edit]:
        for match in pattern().finditer(text):
            new = change if isinstance(change, str) else change(match.group())
            if new != match.group():
                yield *match.span(), new

    return found


# ---- what has an end of its own ----

_MARKUP = re.compile(
    r"(?ai)(?P<comment><!(?=--))|<(?:(?P<script>script)|(?P<style>style))(?=[\s/>])"
    r"|(?P<tag><[a-z/!?][^<>]*>)|&(?:\#[0-9]{1,7}|\#x[0-9a-f]{1,6}|[a-z][0-9a-z]{0,31});|[<&]"
)
_TAG = re.compile(r"(?ai)<[a-z/!?][^<>]*>")
_MARKUP_ENDS = {
    "comment": re.compile("-->"),
    "script": re.compile(r"(?ai)</script[^<>]*>"),
    "style": re.compile(r"(?ai)</style[^<>]*>"),
}
_NO_MARKUP = str.maketrans("<&", "  ")

# A string is kept as it is, and so is what follows `:` in a URL.
_CODE = re.compile(
    r"""(?ax)
    (?P<string>"(?:[^"\\\n]|\\[^\n])*"?|(?<!\w)'(?:[^'\\\n]|\\[^\n])*'?|:/+)
    |(?P<block>/\*)
    |(?://|(?<![\w$])\#(?=[ \t!#])|(?<![\w)\]-])--(?=[ \t]))[^\n]*
    """
)
_CODE_ENDS = {"block": re.compile(r"\*/")}


class _Ends:
    """Where things that begin in a text end. What has no end behind one place has none further on."""

    def __init__(self, text: str, patterns: dict[str, re.Pattern[str]]) -> None:
        self._text, self._patterns = text, dict(patterns)

    def behind(self, kind: str | None, at: int) -> int | None:
        if kind not in self._patterns:
            return None
        if end := self._patterns[kind].search(self._text, at):
            return end.end()
        del self._patterns[kind]
        return None


def _html(text: str) -> Iterator[Edit]:
    ends, at = _Ends(text, _MARKUP_ENDS), 0
    while match := _MARKUP.search(text, at):
        first, at = match.span()
        if match.lastgroup in _MARKUP_ENDS:
            tag = _TAG.match(text, first)
            at = ends.behind(match.lastgroup, at) or (tag.end() if tag else first + 1)
        yield first, at, _referred(match.group()) if text[first] == "&" else " "


def _referred(reference: str) -> str:
    """Return the characters of a reference, or what is none, with a space for `&` and `<`."""
    import html.entities  # 2,000 names: loaded for a text that has one

    if reference.startswith("&#"):
        return html.unescape(reference).translate(_NO_MARKUP)
    return html.entities.html5.get(reference[1:], reference).translate(_NO_MARKUP)


def _comments(text: str) -> Iterator[Edit]:
    ends, at = _Ends(text, _CODE_ENDS), 0
    while match := _CODE.search(text, at):
        first, at = match.span()
        if match.lastgroup == "block":
            if end := ends.behind("block", at):
                at = end
                yield first, at, "\n"
        elif match.lastgroup is None:
            yield first, at, ""


_EDITS: dict[str, Callable[[str], Iterator[Edit]]] = {
    "html": _html,
    "comments": _comments,
    "nfkc": _by_pattern(segments, alphabet.nfkc),
    "diacritics": _by_pattern(segments, alphabet.without_diacritics),
    "numbers": _by_pattern(_number, "0"),
    "punctuation": _by_pattern(_signs, ""),
}
_WHOLE = {"nfkc": alphabet.nfkc, "diacritics": alphabet.without_diacritics}
"""The steps that are faster over a text as a whole; the results are equal."""
