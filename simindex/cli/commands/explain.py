"""`simindex explain`: show the passages that two texts share, and their similarity.

The answer is `corpus.explain`; `query`, `passages` and `stats` show texts in the same form.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from click import BadParameter

from simindex import Config, corpus
from simindex.cli import options
from simindex.cli.command import argument, command, option, takes
from simindex.cli.failures import CommandError
from simindex.cli.output import counted, print_json, printable
from simindex.corpus import Explanation
from simindex.index import open as open_index
from simindex.inputs import read_text
from simindex.storage.folder import is_index

_AROUND = 80
"""Characters that are shown at each end of what is left out."""

_STYLES = ("black on yellow", "black on cyan", "black on green", "black on magenta", "black on bright_blue")


@command(
    "explain",
    """
simindex explain page.txt README.md
simindex explain page.txt README.md --index news.simindex --json
""",
)
@argument("a", "A", "A text file, or - for stdin.")
@argument("b", "B", "Another text file, or - for stdin.")
@option("--index", metavar="INDEX", help="Cut shingles with the settings of this index.")
@takes("cut", options.ShingleOptions)
@options.json_object
def explain(
    a: str,
    b: str,
    index: str | None,
    cut: options.ShingleOptions,
    as_json: bool,
) -> None:
    """Show the passages that two texts share.

    JSON: {"a", "b", "similarity", "passages", "share_a", "share_b"}; a passage is [start in a, end in a,
    start in b, end in b], in code points. The similarity is that of the sets of shingles, exact. A share is
    that of the words (or characters) that lie in a shared shingle.
    """
    if a == b == "-":
        raise BadParameter("expected at most one text on standard input, found two")
    if index is not None and cut.given:
        raise BadParameter("--index does not go with --words, --chars, --short-texts and --normalize")
    if index is None:
        config = Config(cut.shingles(Config().shingles))
    else:
        with open_index(index, "r") as stored:
            config = stored.config
    _require_texts(a, b)
    texts = read_text(a), read_text(b)
    found = corpus.explain(*texts, config)
    if as_json:
        print_json({"a": a, "b": b} | found.to_dict())
    else:
        print_explanation(found, (a, b), texts)


def _require_texts(a: str, b: str) -> None:
    for path, other in ((a, b), (b, a)):
        if is_index(path):
            raise CommandError(
                f"{path}: expected a text file, found an index, which keeps no texts; "
                f"simindex explain A B --index {path} cuts two files as it does, and "
                f"simindex query {path} --file {other} --explain INPUT explains what is like a text in it"
            )
        if os.path.isdir(path):
            raise CommandError(f"{path}: expected a text file, found a folder")
        if any(sign.isspace() for sign in path) and not os.path.exists(path):
            raise CommandError(
                f"{path}: expected a text file, found none of that name; A and B are files, not the texts "
                "themselves"
            )


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


def shortened(text: str) -> str:
    """Return a piece of a text, with the first and last 80 characters alone if it has more than 240; controls
    but new lines are escaped.

    >>> shortened("a" * 500)[75:115]
    'aaaaa [... 340 characters ...] aaaaaaaaa'
    """
    left_out = len(text) - 2 * _AROUND
    if left_out <= _AROUND:
        return _lines(text)
    return f"{_lines(text[:_AROUND])} [... {left_out:,} characters ...] {_lines(text[-_AROUND:])}"


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.replace("\r\n", "\n").split("\n")))


def print_explanation(found: Explanation, names: tuple[str, str], texts: tuple[str, str]) -> None:
    """Print to stdout what two texts share: a line of figures, then both texts with their passages as
    [1: ...], each piece in or between passages as `shortened` returns it."""
    shared = zip(names, (found.share_a, found.share_b), strict=True)
    shares = [f"{share:.0%} of {printable(name)}" for name, share in shared]
    passages = counted(len(found.passages), "passage")
    sys.stdout.write(f"similarity {found.similarity:.3f}, exact; {' and '.join(shares)} shared, {passages}\n")
    for index, (name, text) in enumerate(zip(names, texts, strict=True)):
        sys.stdout.write(f"\n{printable(name)}\n")
        spans = [(passage[2 * index], passage[2 * index + 1]) for passage in found.passages]
        _print_pieces([(shortened(piece), number) for piece, number in marked(text, spans)])


def _print_pieces(pieces: Sequence[tuple[str, int | None]]) -> None:
    shown = [(piece if n is None else f"[{n + 1}: {piece}]", n) for piece, n in pieces]
    if not sys.stdout.isatty():
        sys.stdout.write("".join(piece for piece, _ in shown) + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    styled = [(piece, "" if number is None else _STYLES[number % len(_STYLES)]) for piece, number in shown]
    Console(highlight=False).print(Text.assemble(*styled), soft_wrap=True)
