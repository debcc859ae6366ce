"""`simindex find` and `passages`: what lies within stored documents, whatever surrounds it there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import get_args

from click import BadParameter

from simindex.cli import options, reading
from simindex.cli.command import argument, command, flag, number, option, takes, word
from simindex.cli.commands.explain import shortened
from simindex.cli.failures import CommandError
from simindex.cli.output import (
    counted,
    figure,
    note,
    note_tally,
    plain_metadata,
    print_json,
    print_table,
    shown_key,
    whole_file,
)
from simindex.config import Config
from simindex.format.keys import Key
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import open as open_index
from simindex.inputs import Inputs, read_text, sound
from simindex.jsonable import plain
from simindex.queries.containment import ContainmentMatch, ContainmentMatches, Direction, deciding_sample
from simindex.queries.passages import StoredPassages

_COLUMNS = ("query", "key", "in stored", "in query", "error", "relation")


@command(
    "find",
    """
simindex insert pages.simindex news.jsonl --containment 1
simindex find page.txt --in pages.simindex
echo "the ferry leaves at nine" | simindex find - --format text --in pages.simindex
simindex find sample.jsonl --in pages.simindex --threshold 0.5 --json
simindex find sample.jsonl --in pages.simindex --texts news.jsonl
""",
)
@argument(
    "items",
    "ITEMS...",
    "Inputs with the rows to look for, read as insert reads them.",
    nargs=-1,
    required=True,
)
@option("--in", "index", metavar="INDEX", required=True, help="The index to search.")
@options.threshold.but(default=DEFAULT_THRESHOLD, help="Least share of shingles, above 0 up to 1.")
@word(
    "--direction",
    words=get_args(Direction),
    default="in_stored",
    help="Which share must reach the threshold: that of the query in the stored document (in_stored), that "
    "of the stored document in the query (in_query), or either.",
)
@options.limit
@options.where
@options.exact.but(help="Require an index with kept shingles, by which they are counted.")
@number(
    "--sample",
    help="Look up one in N shingles of a row, fewer than the index keeps, in less time and with less recall: "
    "a power of two up to 64.",
)
@options.inputs_of(
    "--texts",
    "An input with the stored texts, by key, read as insert reads it: shares are counted in them. May be "
    "repeated. The rows, and the texts that may contain one, are held in memory.",
)
@flag("--candidates", help="Print documents of which an estimate does not decide, too, behind the others.")
@options.max_candidates
@takes("reads", options.LineOptions)
@options.json_lines
def find(
    items: tuple[str, ...],
    index: str,
    threshold: float,
    direction: Direction,
    limit: int | None,
    where: dict[str, list[object]] | None,
    exact: bool,
    sample: int | None,
    texts: tuple[str, ...],
    candidates: bool,
    max_candidates: int,
    reads: options.LineOptions,
    as_json: bool,
) -> None:
    """Find the stored documents that contain the rows of an input.

    Line ends, case and punctuation do not matter. The index must have sampled shingles (insert
    --containment). --json prints one line per match, {"query", "key", "in_stored", "in_query", "similarity",
    "relation", "exact", "standard_error", "is_candidate", "expected_recall", "metadata", "truncated"}.
    Shares are counted in an index with all shingles (insert --containment 1), or with --texts. Elsewhere they
    are estimates: of short rows too coarse to decide, and only --candidates prints what they leave open.
    """
    inputs = reads.inputs(items)
    with open_index(index, "r", max_candidates=max_candidates) as stored:
        ask = partial(
            stored.query_containment_many,
            threshold=threshold,
            direction=direction,
            limit=limit,
            where=where,
            exact=exact,
            sample=sample,
            candidates=candidates,
        )
        if texts:
            found = _answers_by_texts(inputs, ask, partial(reads.inputs, texts))
        else:
            found = reading.answers(inputs, lambda rows: ask([row.document for row in rows]))
        _print_contained(found, as_json, stored.config.containment, threshold)
    note_tally(inputs.tally)


def _answers_by_texts(
    inputs: Inputs, ask: Callable[..., list[ContainmentMatches]], texts: Callable[[], Inputs]
) -> Iterator[list[tuple[Key, ContainmentMatches]]]:
    """Yield one list of all rows' (key, matches), decided by the texts of the documents that may be among
    them, which are read from the inputs that `texts` opens. Raises CommandError where they lack one."""
    from simindex.corpus.report.texts import texts_of

    rows, by_key = list(sound(inputs)), dict[Key, str]()
    # Empty texts say which keys are asked for; the inputs are read for them once.
    ask([row.document for row in rows], texts=lambda key: by_key.setdefault(key, ""))
    by_key = texts_of(texts(), by_key)
    try:
        found = ask([row.document for row in rows], texts=by_key)
    except KeyError as missing:
        raise CommandError(f"--{missing.args[0]}") from missing
    yield list(zip([row.key for row in rows], found, strict=True))


@command(
    "passages",
    """
simindex insert pages.simindex news.jsonl --containment 1
simindex passages pages.simindex --file page.txt --texts news.jsonl
simindex passages pages.simindex --file page.txt --texts news.jsonl -o page.html
simindex passages pages.simindex --file page.txt --json
""",
)
@options.index_folder
@option("--file", metavar="FILE", required=True, help="The text whose passages are found; - for stdin.")
@options.inputs_of(
    "--texts",
    "An input with the stored texts, by key, read as insert reads it: for exact places and both sides. May "
    "be repeated.",
)
@number("--min-words", default=8, help="Leave out passages of fewer words.")
@options.limit
@option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write a page that shows the text beside each document, the passages marked, in place of a table; "
    "takes --texts.",
)
@options.max_candidates
@takes("reads", options.LineOptions)
@options.json_lines
def passages(
    index: str,
    file: str,
    texts: tuple[str, ...],
    min_words: int,
    limit: int | None,
    output: str | None,
    max_candidates: int,
    reads: options.LineOptions,
    as_json: bool,
) -> None:
    """Find the passages of a text that stand in stored documents.

    The index must have sampled shingles (insert --containment). --json prints one line per passage, {"key",
    "start", "end", "stored_start", "stored_end", "words", "exact", "truncated"}; places in code points.
    Without --texts a passage spans the sampled shingles alone, and has no place in the stored document. Where
    all words of a passage occur more than eight times in a document, a longer one may be missed.
    """
    if output is not None and (not texts or as_json):
        raise BadParameter("--output takes --texts, and does not go with --json")
    if not texts:
        reads.require_defaults("--texts")
    text = read_text(file)
    with open_index(index, "r", max_candidates=max_candidates) as stored:
        by_key: dict[Key, str] = {}
        if texts:
            from simindex.corpus.report.texts import texts_of

            # Empty texts say which keys are asked for; the inputs are read for them once.
            stored.passages(text, texts=lambda key: by_key.setdefault(key, ""), min_words=min_words)
            by_key = texts_of(reads.inputs(texts), by_key)
        try:
            found = stored.passages(text, texts=by_key if texts else None, min_words=min_words, limit=limit)
        except KeyError as missing:
            raise CommandError(f"--{missing.args[0]}") from missing
        if output is not None:
            from simindex.corpus.report.report import page_of_passages

            page = page_of_passages(stored, "stdin" if file == "-" else file, text, found, by_key)
            with whole_file(output) as page_file:
                page_file.write(page.encode())
            note(f"simindex: {output}: {counted(len(found), 'passage')}")
    if as_json:
        for passage in found:
            print_json(passage.to_dict() | {"truncated": found.truncated})
    elif output is None:
        _print_side_by_side(found, text, by_key)
    _note_what_may_be_missing(found, min_words, stored.config)


def _print_side_by_side(found: StoredPassages, text: str, by_key: Mapping[Key, str]) -> None:
    """Print a table, a row for each passage: key, the piece of the query text, with `by_key` that of the
    stored text, the start in the query text and the number of words; nothing where there is no passage."""
    columns = ["key", "text", "stored"] if by_key else ["key", "text"]
    rows = []
    for passage in found:
        pieces = [text[passage.start : passage.end]]
        if passage.exact:
            pieces.append(by_key[passage.key][passage.stored_start : passage.stored_end])
        shown = [" ".join(shortened(piece).split()) for piece in pieces]
        rows.append((shown_key(passage.key), *shown, f"{passage.start:,}", f"{passage.words:,}"))
    if rows:
        print_table((*columns, "start", "words"), rows, left=len(columns))


def _note_what_may_be_missing(found: StoredPassages, min_words: int, config: Config) -> None:
    if not found:
        note("simindex: no passage")
    if found.missed:
        words = counted(min_words, "word")
        note(
            f"simindex: {_percent(found.missed)} of passages of {words} are missed; an index made with "
            f"--containment {config.containment // 2} misses fewer"
        )
    if found and not found[0].exact:
        note("simindex: spans of sampled shingles, not exact; --texts INPUT compares with the stored texts")
    if found.truncated:
        note("simindex: truncated: what very many documents share was left out; raise --max-candidates")


def _percent(share: float) -> str:
    """Return a share for people, in full percent but below one.

    >>> _percent(0.4488), _percent(0.0016)
    ('45 %', '0.2 %')
    """
    return f"{100 * share:.{share < 0.01:d}f} %"


def _print_contained(
    results: Iterable[Sequence[tuple[Key, ContainmentMatches]]],
    as_json: bool,
    one_in: int,
    threshold: float,
) -> None:
    """Print the matches of queries to stdout, a list of queries at a time, and at the end to stderr how many
    have none, the least expected recall, what is undecided (with the sample that would decide it at this
    `threshold`), and whether any was truncated. `one_in`: the index keeps one in so many shingles."""
    queries = without = undecided = candidates = 0
    least_recall = shortest = math.inf
    is_truncated, header = False, True
    for found in results:
        rows = []
        for key, matches in found:
            queries += 1
            without += not matches and not matches.undecided
            if matches.num_shingles:
                least_recall = min(least_recall, matches.expected_recall)
            candidates += sum(match.is_candidate for match in matches)
            undecided += matches.undecided
            if matches.undecided:
                shortest = min(shortest, matches.num_shingles)
            is_truncated |= matches.truncated
            rows += [(shown_key(key), *_figures(match)) for match in matches]
            for match in matches if as_json else ():
                plain_metadata(match.key, match.metadata)  # says of which key it is that it cannot be written
                print_json({"query": plain(key)} | match.to_dict() | {"truncated": matches.truncated})
        if rows and not as_json:
            print_table(_COLUMNS, rows, left=2, header=header)
            header = False
    if without:
        note(f"simindex: no match for {without:,} of {counted(queries, 'query', 'queries')}")
    if least_recall < 1.0:
        how, share = "found or undecided" if undecided else "found", math.floor(100 * least_recall)
        note(f"simindex: a document that contains this much of a row is {how} in at least {share} % of cases")
    if undecided:
        finer = min(deciding_sample(int(shortest), threshold), one_in // 2)
        _note_undecided(undecided, candidates, finer)
    if is_truncated:
        note("simindex: truncated: what very many documents share was left out; raise --max-candidates")


def _note_undecided(undecided: int, candidates: int, finer: int) -> None:
    """Print to stderr how many documents are undecided, and whether they were printed (`candidates` above 0);
    then that the stored texts decide, or an index of one in `finer` shingles; not so where it is 0."""
    documents = counted(undecided, "document is", "documents are")
    what = "marked as candidates" if candidates else "not printed: find --candidates prints them"
    note(f"simindex: {documents} undecided and {what}")
    if finer:
        note(
            "simindex: too few shingles of a row are sampled to decide; find --texts INPUT compares the "
            f"stored texts, an index made with --containment {finer} has more"
        )


def _figures(match: ContainmentMatch) -> tuple[str, ...]:
    error = "exact" if match.exact else figure(match.standard_error, 3)
    relation = match.relation + (" (candidate)" if match.is_candidate else "")
    return shown_key(match.key), figure(match.in_stored, 3), figure(match.in_query, 3), error, relation
