"""What a deduplication is asked for, as one frozen value: `deduplicate`, its job, its journal and the command
share it.

Invariant: a value that exists was checked; what does not go together is refused when it is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.checks import require_callable, require_ignorable, require_share, require_word, set_int
from simindex.config import Config, require_config
from simindex.corpus.dedup.keep_per import KeepPer, source_fields
from simindex.corpus.dedup.orders import Keep, name_of_order, require_order
from simindex.corpus.dedup.paragraphs import Cut, Level, Split
from simindex.errors import Argument, ArgumentValueError
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import Index
from simindex.inputs import OnBadRow
from simindex.queries.search import Method

IndexOrPath = Index | str | os.PathLike[str]
Mode = Literal["remove", "annotate", "report-only"]


@dataclass(frozen=True, kw_only=True)
class DedupSettings:
    """What `deduplicate` can be asked for beside its arguments, and few jobs need.

    Args:
        recall: wanted probability, in (0, 1], that a row right at the threshold is found: of estimates
            less similar rows go then, too (``None``: about one half); with `exact` only the share of such
            rows that are compared at all (``None``: 0.99). `DedupReport.missed` says what is left.
        max_distance: with by="simhash" rows within so many bits are duplicates (default: what `config` says,
            3 without one), none of which is missed. Else, 0..63, duplicates are within it beside the
            threshold: so texts that repeat the same shingles, one set to MinHash, are told apart.
        ignore_common: leave shingles that more than this share of the rows have, and more than two of them,
            out of the similarity: pages that share a template alone both stay. All shingles are compared, as
            with `exact`, and rows that are equal are duplicates still. `Index.pairs` says what it misses. Not
            with `against` or `into`, whose documents are not counted.
        in_kept: a row goes only if the kept one that it is like has at least this share, in (0, 1], of its
            shingles, so that a longer text never goes for a shorter one that it begins with; with
            keep="longest" the shorter goes then. All shingles are compared, as with `exact`, and the share is
            exact where the similarity is (`Removed.exact`). Not with `against` or `into`.
        explain: say in the report, and in annotated rows, which passages a row shares with the kept one
            (`corpus.explain`, that row being `a`); of the first 1,048,576 characters of both, and not of
            documents of an index. The texts of kept rows wait in the journal's folder, packed.
        removed: path of the report of removed rows, a line of JSON each; default: removed.jsonl in the
            journal.
        split: where a paragraph ends with level="paragraph": "line", at each line end; or "blank-line", for
            texts with lines of one length.
        min_words: paragraphs of fewer words are never seen before, and stay.
        id, text: the fields of rows of files, or columns of a table; ``None``: "id" and "text".
        on_bad_row: takes what is no row, which is passed over: a `BadRowError`, of a file that cannot be read
            on a `BadFileError`; default: it ends the job. So does, always, an input that has nothing else.
        batch_size, workers: as in `Index.insert_many`; the result depends on neither.

    Raises:
        ValueError, TypeError: a value out of range.

    >>> texts = ["the same words twice", "The same words twice!", "the same words twice, and more"]
    >>> settings = DedupSettings(in_kept=0.9)
    >>> gone = []
    >>> from simindex.corpus import deduplicate
    >>> deduplicate(enumerate(texts), None, 0.4, on_removed=gone.append, settings=settings).removed
    1
    """

    recall: float | None = None
    max_distance: int | None = None
    ignore_common: float | None = None
    in_kept: float | None = None
    explain: bool = False
    removed: str | os.PathLike[str] | None = None
    split: Split = "line"
    min_words: int = 1
    id: str | None = None
    text: str | None = None
    on_bad_row: OnBadRow | None = None
    batch_size: int = DEFAULT_BATCH_SIZE
    workers: int | None = None

    def __post_init__(self) -> None:
        require_word("split", self.split, get_args(Split))
        set_int(self, "min_words", 1)
        set_int(self, "batch_size", 1)
        if self.ignore_common is not None:
            require_ignorable(self.ignore_common)
        if self.in_kept is not None:
            require_share("in_kept", self.in_kept)


@dataclass(frozen=True, kw_only=True)
class JobSettings(DedupSettings):
    """All that a job is asked for, but what it reads and where it writes; see `deduplicate`."""

    threshold: float = DEFAULT_THRESHOLD
    keep: Keep = "first"
    keep_per: KeepPer = None
    against: IndexOrPath | None = None
    into: IndexOrPath | None = None
    mode: Mode = "remove"
    level: Level = "document"
    by: Method | None = None
    exact: bool = False
    config: Config | None = None
    force: bool = False
    progress: Callable[[int], object] | None = None
    on_removed: Callable[[Any], object] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_config(self.config)
        for name in ("progress", "on_removed", "on_bad_row"):
            require_callable(name, getattr(self, name))
        require_order(self.keep)
        require_word("mode", self.mode, get_args(Mode))
        require_word("level", self.level, get_args(Level))
        given = [name for name in ("ignore_common", "in_kept") if getattr(self, name) is not None]
        if given and (self.by == "simhash" or self.against is not None or self.into is not None):
            others = ("no ", Argument("against"), ", ", Argument("into"), " or ", Argument("by", "simhash"))
            raise ArgumentValueError(
                None,
                (*others, " beside ", Argument(given[0])),
                "one",
                "it goes by the shingles of the rows",
            )
        source_fields(self.keep_per, is_kept=self.into is not None)  # raises

    @cached_property
    def source_fields(self) -> tuple[str, ...]:
        """The fields whose values are the source of a row; none: all rows are of one."""
        return source_fields(self.keep_per, is_kept=self.into is not None)

    @property
    def compares_shingles(self) -> bool:
        """Whether all shingles are compared: with `exact`, `ignore_common` or `in_kept`."""
        return self.exact or self.ignore_common is not None or self.in_kept is not None

    @property
    def cut(self) -> Cut | None:
        """How texts are cut into paragraphs; ``None`` where they are compared as a whole."""
        return Cut(self.split, self.min_words) if self.level == "paragraph" else None

    @property
    def annotates(self) -> bool:
        """Whether all rows are written, with what was found: mode="annotate"."""
        return self.mode == "annotate"

    def identity(self) -> dict[str, Any]:
        """Return the settings, by name and as JSON has them, that tell a job from another one on the same
        files and indexes. Paths, the configuration, and what changes no result are not among them."""
        names = ("threshold", "by", "max_distance", "recall", "ignore_common", "in_kept", "mode", "explain")
        return {name: getattr(self, name) for name in names} | {
            "exact": self.compares_shingles,
            "keep": name_of_order(self.keep),
            "keep_per": list(self.source_fields),
            "paragraphs": None if self.cut is None else list(self.cut),
        }
