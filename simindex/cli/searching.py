"""Choose the query that the options of `simindex query` ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import typer

from simindex.cli import options
from simindex.cli.creation import is_given
from simindex.cli.failures import CommandError
from simindex.cli.options import missing_key
from simindex.cli.output import counted
from simindex.format.keys import Key
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import Index
from simindex.queries.matches import Matches
from simindex.sketching.document import Document
from simindex.sketching.sketcher import Sketcher


@dataclass(frozen=True)
class Search:
    """What to search for: by similarity, the nearest, or by fingerprint. ``None`` or False: not given."""

    threshold: float | None
    limit: int | None
    recall: float | None
    exact: bool
    nearest: int | None
    simhash: bool
    max_distance: int | None

    def __post_init__(self) -> None:
        if self.max_distance is not None and not self.simhash:
            raise typer.BadParameter("--max-distance goes with --simhash")
        if self.simhash:
            self._refuse("simhash", "threshold", "recall", "exact")
        if self.nearest is not None:
            self._refuse("nearest", "limit", "exact")

    def _refuse(self, option: str, *others: str) -> None:
        for other in others:
            if is_given(getattr(self, other)):
                raise typer.BadParameter(f"--{other} does not go with --{option}")

    def require(self, index: Index) -> None:
        """Raise CommandError, naming the options of `insert`, unless the index can be searched so."""
        if self.simhash:
            if index.config.simhash is None:
                raise CommandError(
                    f"{index.path}: --simhash needs an index that was not built with --no-simhash"
                )
        elif not index.config.num_perm:
            raise CommandError(
                f"{index.path}: built with --no-minhash; it can be queried with --simhash only"
            )
        elif self.exact and not index.config.keep_shingles:
            raise CommandError(f"{index.path}: --exact needs an index built with --keep-shingles")

    def of_documents(
        self, index: Index, documents: Sequence[Document], own_keys: Sequence[Key] | None = None
    ) -> list[Matches]:
        """Return the matches of each document.

        Args:
            own_keys: the key of each, which is not among its matches.
        """
        if own_keys is None:
            return self._run(index, documents, 0)
        found = self._run(index, documents, 1)
        return [self._without(key, matches) for key, matches in zip(own_keys, found, strict=True)]

    def of_stored(self, index: Index, key: Key) -> Matches:
        """Return the matches of a stored document, without itself."""
        if key not in index:
            raise CommandError(missing_key(index, key))
        if self.simhash:
            return index.query_key(key, limit=self._room, by="simhash", max_distance=self.max_distance)
        if self.nearest is not None:
            return self.of_documents(index, [index[key].sketch], [key])[0]
        return index.query_key(key, **self._by_similarity(0))

    def why_none(self, index: Index, document: Any) -> str:
        """Return what to say behind "no match": the reason, or how far the nearest document is.

        Args:
            document: what was compared with; the key of a stored one in a tuple.
        """
        if not len(index):
            return ": the index holds no documents"
        if isinstance(document, str):
            sketch = Sketcher(index.config).sketch(document)
            if (sketch.fingerprint if self.simhash else sketch.words) is None:
                return ": the text has no shingles, like one without a letter, digit or symbol"
        if self.simhash:
            return f" within {counted(self._bits(index), 'bit')} of its fingerprint"
        if self.nearest is not None:
            return ""
        closest = replace(self, threshold=None, limit=None, recall=None, exact=False, nearest=1)
        found = (
            closest.of_stored(index, document[0])
            if isinstance(document, tuple)
            else closest.of_documents(index, [document])[0]
        )
        # What is less than three errors above zero is as good as nothing.
        if not found or (found[0].similarity or 0.0) <= 3 * (found[0].standard_error or 0.0):
            return ""
        threshold = DEFAULT_THRESHOLD if self.threshold is None else self.threshold
        return (
            f" of {threshold:g} or more; the most similar document found has {found[0].similarity:.3f}: "
            "--threshold asks for less, --nearest for those"
        )

    def _bits(self, index: Index) -> int:
        built_for = 0 if index.config.simhash is None else index.config.simhash.max_distance
        return built_for if self.max_distance is None else self.max_distance

    def _without(self, key: Key, found: Matches) -> Matches:
        others = [match for match in found if match.key != key]
        return Matches(others[: self._room], found.truncated)

    @property
    def _room(self) -> int | None:
        """How many matches there may be."""
        return self.limit if self.nearest is None else self.nearest

    def _by_similarity(self, more: int) -> dict[str, Any]:
        room = None if self.limit is None else self.limit + more
        options: dict[str, Any] = {"limit": room, "exact": self.exact}
        if self.threshold is not None:
            options["threshold"] = self.threshold
        if self.recall is not None:
            options["recall"] = self.recall
        return options

    def _run(self, index: Index, documents: Sequence[Document], more: int) -> list[Matches]:
        if self.simhash:
            room = None if self._room is None else self._room + more
            return index.query_simhash_many(documents, self.max_distance, limit=room)
        if self.nearest is not None:
            k = self.nearest + more
            return [
                index.nearest(document, k, threshold=self.threshold, recall=self.recall)
                for document in documents
            ]
        return index.query_many(documents, **self._by_similarity(more))


def require_of_method(by: str | None, max_distance: int | None, **of_minhash: object) -> None:
    """Raise BadParameter where an option is the other method's.

    Args:
        of_minhash: options that are MinHash's, ``None`` or False where they were not given.
    """
    if by != "simhash" and max_distance is not None:
        raise typer.BadParameter("--max-distance goes with --by simhash")
    for name, value in of_minhash.items():
        if by == "simhash" and is_given(value):
            raise typer.BadParameter(f"--{name} does not go with --by simhash")


_WithinBits = Annotated[
    int | None,
    options.number(
        "With --by simhash: pairs within K bits (default: the distance of the index).",
        least=0,
        metavar="K",
    ),
]


@dataclass(frozen=True)
class PairOptions:
    """How similar the documents of a pair are; ``None`` or False: not given."""

    heading: ClassVar = "Options"

    threshold: options.Threshold = None
    by: options.By = None
    max_distance: _WithinBits = None
    recall: options.Recall = None

    def __post_init__(self) -> None:
        require_of_method(**vars(self))

    def arguments(self) -> dict[str, Any]:
        """Return them as the arguments of `Index.pairs` and its like."""
        return vars(self) | ({"threshold": DEFAULT_THRESHOLD} if self.threshold is None else {})


@dataclass(frozen=True)
class StoredPairOptions(PairOptions):
    """The same of documents whose shingles may be kept."""

    exact: options.Exact = False

    def require(self, index: Index) -> None:
        """Raise CommandError unless the index has what is compared; see `Search.require`."""
        simhash = self.by == "simhash" or (self.by is None and not index.config.num_perm)
        Search(self.threshold, None, self.recall, self.exact, None, simhash, self.max_distance).require(index)


@dataclass(frozen=True)
class OwnPairOptions(StoredPairOptions):
    """The same of documents of one index, which knows what many of them share."""

    ignore_common: options.IgnoreCommon = None

    def require(self, index: Index) -> None:
        """Raise CommandError unless the index has what is compared; see `Search.require`."""
        if self.ignore_common is not None and not index.config.keep_shingles:
            raise CommandError(f"{index.path}: --ignore-common needs an index built with --keep-shingles")
        super().require(index)
