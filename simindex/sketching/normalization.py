"""The steps of normalisation but case folding and white space, which the kernel does as it cuts.

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


@cache  # both are asked for with every single text
def edited_by(shingles: Shingles) -> tuple[str, ...]:
    """Return the steps of `shingles` that edit a text, in order: all but "casefold" and "whitespace"."""
    return tuple(step for step in shingles.normalize if step in _EDITS or step in _MAPPINGS)


@cache
def steps_before(shingles: Shingles) -> tuple[str, ...]:
    """Return the editing steps that a text takes before it goes to the kernel, in order: all but a last
    "fold", which the kernel does."""
    steps = edited_by(shingles)
    return steps[:-1] if kernel_folds(shingles) else steps


def kernel_folds(shingles: Shingles) -> bool:
    """Whether "fold" is left to the kernel, which makes no str of it: where no step of Python's follows."""
    return edited_by(shingles)[-1:] == ("fold",)


def folds_case(shingles: Shingles) -> bool:
    """Whether "casefold" is done: beside "fold", which has it, it is not done again."""
    return "casefold" in shingles.normalize and "fold" not in shingles.normalize


def prepare(text: str, shingles: Shingles) -> str:
    """Return the text after the steps that come before the kernel."""
    for step in steps_before(shingles):
        mapping = _MAPPINGS.get(step)
        text = alphabet.normalized(text, mapping) if mapping else _edited(text, _EDITS[step](text))
    return text


def edits(text: str, step: str) -> Iterator[Edit]:
    """Yield the edits that one editing step makes in a text, ascending."""
    mapping = _MAPPINGS.get(step)
    return _by_pieces(text, mapping) if mapping else _EDITS[step](text)


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
    below, above = _brackets(alphabet.ranges("digits"))
    digit = f"(?:[{below}]|[{above}])"
    return re.compile(f"(?=[{below}{_ABOVE}]){digit}+(?:[.,\u066b\u066c]{digit}+)*")


@cache
def _signs() -> re.Pattern[str]:
    """Return the pattern of a run of characters of no class, like punctuation."""
    none = b"[\0\x40\x80\xc0]+"  # of whatever folding
    runs = (run.span() for run in re.finditer(none, alphabet.class_table()))
    below, above = _brackets((first, last - 1) for first, last in runs)
    return re.compile(f"[{below}]+|(?=[{_ABOVE}])[{above}]+")


def _by_pieces(text: str, mapping: alphabet.Mapping) -> Iterator[Edit]:
    for first, last in alphabet.pieces(text, mapping):
        new = alphabet.normalized(text[first:last], mapping)
        if new != text[first:last]:
            yield first, last, new


def _by_pattern(pattern: Callable[[], re.Pattern[str]], new: str) -> Callable[[str], Iterator[Edit]]:
    def found(text: str) -> Iterator[Edit]:
        for match in pattern().finditer(text):
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

    def after(self, kind: str | None, at: int) -> int | None:
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
            at = ends.after(match.lastgroup, at) or (tag.end() if tag else first + 1)
        yield first, at, _referred(match.group()) if text[first] == "&" else " "


def _referred(reference: str) -> str:
    """Return the characters that an HTML reference like "&amp;" stands for, or itself where it is not known;
    with a space in place of each `&` and `<`."""
    import html.entities  # 2,000 names: loaded for a text that has one

    if reference.startswith("&#"):
        return html.unescape(reference).translate(_NO_MARKUP)
    return html.entities.html5.get(reference[1:], reference).translate(_NO_MARKUP)


def _comments(text: str) -> Iterator[Edit]:
    ends, at = _Ends(text, _CODE_ENDS), 0
    while match := _CODE.search(text, at):
        first, at = match.span()
        if match.lastgroup == "block":
            if end := ends.after("block", at):
                at = end
                yield first, at, "\n"
        elif match.lastgroup is None:
            yield first, at, ""


_EDITS: dict[str, Callable[[str], Iterator[Edit]]] = {
    "html": _html,
    "comments": _comments,
    "numbers": _by_pattern(_number, "0"),
    "punctuation": _by_pattern(_signs, ""),
}
_MAPPINGS: dict[str, alphabet.Mapping] = {"nfkc": "nfkc", "fold": "fold", "diacritics": "diacritics"}
