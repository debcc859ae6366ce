"""`simindex explain`: show the passages that two texts share, and their similarity.

The answer is `corpus.explain`, its form `explaining`.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from simindex import Config
from simindex.cli import options, reading
from simindex.cli.creation import Chars, CreationOptions, Normalize, Words, open_for_reading
from simindex.cli.explaining import print_explanation
from simindex.cli.failures import CommandError
from simindex.cli.output import print_json
from simindex.corpus import explain
from simindex.inputs import Limits, read_text
from simindex.storage.folder import is_index

EXAMPLES = r"""
simindex explain page.txt README.md
simindex explain page.txt README.md --index news.simindex --json
"""


def run(
    a: Annotated[str, typer.Argument(metavar="A", help="A text file, or - for stdin.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    index: Annotated[
        str | None, typer.Option(metavar="INDEX", help="Cut shingles with the settings of this index.")
    ] = None,
    words: Words = None,
    chars: Chars = None,
    normalize: Normalize = None,
    full: Annotated[
        bool, typer.Option("--full", help="Print the texts as a whole, however long they are.")
    ] = False,
    encoding: reading.Encoding = "utf-8",
    max_row: options.MaxRow = Limits.row,
    as_json: options.JsonObject = False,
) -> None:
    """Show the passages that two texts share.

    JSON: {"a", "b", "similarity", "passages", "share_a", "share_b"}; a passage is [start in a, end in a,
    start in b, end in b], in code points. The similarity is that of the sets of shingles, exact. A share is
    that of the words (or characters) that lie in a shared shingle.
    """
    if a == b == "-":
        raise typer.BadParameter("expected at most one text on standard input, found two")
    cut = CreationOptions(words=words, chars=chars, normalize=normalize)
    if index is not None and cut.given():
        raise typer.BadParameter("--index does not go with --words, --chars and --normalize")
    if index is None:
        config = cut.config(Config())
    else:
        with open_for_reading(index) as stored:
            config = stored.config
    _require_texts(a, b)
    limits = Limits(max_row)
    texts = read_text(a, limits, encoding), read_text(b, limits, encoding)
    found = explain(*texts, config)
    if as_json:
        print_json({"a": a, "b": b} | found.to_dict())
    else:
        print_explanation(found, (a, b), texts, full)


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
