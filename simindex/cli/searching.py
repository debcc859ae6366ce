"""Which of the searches of an index the options of a query ask for.

Owns the options that exclude each other, and what is said where an index cannot be searched so. Must not know
where the documents come from, nor print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer

from simindex import Index, Matches
from simindex.cli.creation import is_given
from simindex.cli.failures import CommandError
from simindex.cli.options import missing_key
from simindex.format.keys import Key
from simindex.sketching.document import Document


@dataclass(frozen=True)
class Search:
    """What to search for: by similarity, the nearest, or by fingerprint. ``None`` or False: not given.

    Raises:
        typer.BadParameter: options of different searches.
    """

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
            index: to search.
            documents: to compare with.
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
