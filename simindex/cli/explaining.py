"""Print two texts with their shared passages marked and long stretches left out.

`corpus.explain` finds what is shared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from simindex.cli.output import counted, printable
from simindex.corpus import Explanation

_AROUND = 80
"""Characters that are shown at each end of what is left out."""

_STYLES = ("black on yellow", "black on cyan", "black on green", "black on magenta", "black on bright_blue")


def marked(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[str, int | None]]:
    """Yield the text in pieces, each with the number of the span that it is of, from 0 on, or None.

    Where spans overlap the one that begins first has it.

    >>> list(marked("one two three", [(4, 13), (0, 7)]))
    [('one two', 1), (' three', 0)]
    """
    done = 0
    for (start, end), number in sorted((span, number) for number, span in enumerate(spans)):
        if end <= done:
            continue
        if start > done:
            yield text[done:start], None
        yield text[max(start, done) : end], number
        done = end
    if done < len(text):
        yield text[done:], None


def shortened(text: str, whole: bool) -> str:
    """Return a piece of a text, without its middle where that is long; controls but new lines are escaped.

    >>> shortened("a" * 500, False)[75:115]
    'aaaaa [... 340 characters ...] aaaaaaaaa'
    """
    left_out = len(text) - 2 * _AROUND
    if whole or left_out <= _AROUND:
        return _lines(text)
    return f"{_lines(text[:_AROUND])} [... {left_out:,} characters ...] {_lines(text[-_AROUND:])}"


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.replace("\r\n", "\n").split("\n")))


def print_explanation(
    found: Explanation, names: tuple[str, str], texts: tuple[str, str], whole: bool
) -> None:
    """Print what two texts share: a sentence, and both with their passages as [1: ...].

    Args:
        whole: with all that is not shared, and all of a long passage.
    """
    shared = zip(names, (found.share_a, found.share_b), strict=True)
    shares = [f"{share:.0%} of {printable(name)}" for name, share in shared]
    passages = counted(len(found.passages), "passage")
    sys.stdout.write(f"similarity {found.similarity:.3f}, exact; {' and '.join(shares)} shared, {passages}\n")
    for place, (name, text) in enumerate(zip(names, texts, strict=True)):
        sys.stdout.write(f"\n{printable(name)}\n")
        spans = [(passage[2 * place], passage[2 * place + 1]) for passage in found.passages]
        _print_pieces([(shortened(piece, whole), number) for piece, number in marked(text, spans)])


def _print_pieces(pieces: Sequence[tuple[str, int | None]]) -> None:
    shown = [(piece if n is None else f"[{n + 1}: {piece}]", n) for piece, n in pieces]
    if not sys.stdout.isatty():
        sys.stdout.write("".join(piece for piece, _ in shown) + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    styled = [(piece, "" if number is None else _STYLES[number % len(_STYLES)]) for piece, number in shown]
    Console(highlight=False).print(Text.assemble(*styled), soft_wrap=True)
