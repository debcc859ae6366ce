"""The options that create an index, and how a command makes a `Config` of them and opens an index.

What an option left out means: the default when the index is created, the stored value when it is there. So an
option given for an existing index is compared with what is stored, and only that one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

import typer

from simindex.cli.options import AtLeast0, AtLeast1, whole
from simindex.config import (
    NORMALIZE_STEPS,
    CharShingles,
    Config,
    Shingles,
    SimHashConfig,
    WordShingles,
    require_equal,
)
from simindex.index import Index
from simindex.index import open as open_index
from simindex.storage.folder import is_index


def seed_of(text: str) -> int | str:
    """Return the seed that was written on the command line: an integer, or "random"."""
    try:
        return text if text == "random" else whole()(text)
    except typer.BadParameter:
        raise typer.BadParameter(f'expected "random" or an integer of at least 0, found {text!r}') from None


@dataclass(frozen=True)
class ShingleOptions:
    """How texts are cut; ``None``: not given.

    Options:
        words N: Shingles of N words (default 3).
        chars N: Shingles of N characters.
    """

    heading: ClassVar = "Options"
    exclusive: ClassVar[tuple[tuple[str, str], ...]] = (("words", "chars"),)

    words: AtLeast1 | None = None
    chars: AtLeast1 | None = None
    normalize: Annotated[
        str | None,
        typer.Option(
            metavar="STEPS",
            help=f"Steps of normalisation out of '{' '.join(NORMALIZE_STEPS)}'; or none (default: the last "
            "two).",
        ),
    ] = None

    def __post_init__(self) -> None:
        for pair in self.exclusive:
            if self.given.issuperset(pair):
                first, second = (f"--{name.replace('_', '-')}" for name in pair)
                raise typer.BadParameter(f"{first} and {second} exclude each other")

    @cached_property
    def given(self) -> set[str]:
        """The names of those that were given: 0 is a value, ``None`` and False are none."""
        return {name for name, value in vars(self).items() if value is not None and value is not False}

    def shingles(self, base: Shingles) -> Shingles:
        """Return `base` with what was given in place of its values."""
        if self.words is not None:
            base = WordShingles(self.words, base.normalize)
        if self.chars is not None:
            base = CharShingles(self.chars, base.normalize)
        return self._normalized(base)

    def _normalized(self, shingles: Shingles) -> Shingles:
        if self.normalize is None:
            return shingles
        steps = tuple(self.normalize.replace(",", " ").split())
        return type(shingles)(shingles.size, () if steps == ("none",) else steps)


@dataclass(frozen=True)
class SketchOptions(ShingleOptions):
    """Also what sketches are like; ``None`` or False: not given.

    Options:
        num_perm N: MinHash rows (default 128).
        seed N|random: Seed of the hash functions (default 1); random: one that cannot be guessed.
    """

    heading: ClassVar = "Sketches"

    num_perm: AtLeast0 | None = None
    seed: Annotated[int, typer.Option(parser=seed_of)] | None = None


@dataclass(frozen=True)
class CreationOptions(SketchOptions):
    """What a new index is like; ``None`` or False: not given.

    Options:
        max_distance N: Distance in bits up to which SimHash search finds everything (default 3).
        no_minhash: Store no MinHash rows.
        no_simhash: Store no SimHash fingerprint.
        keep_shingles N: Keep N shingle hashes of each document, for query --exact (default 0).
        containment N: Sample one in N shingles, for find, passages, query --contained: 1, 2, 4 .. 64 (default
            0: none).
    """

    heading: ClassVar = "New index"
    exclusive: ClassVar = (
        *ShingleOptions.exclusive,
        ("no_simhash", "max_distance"),
        ("no_minhash", "num_perm"),
        ("no_minhash", "keep_shingles"),
        ("no_minhash", "containment"),
        ("no_minhash", "no_simhash"),
    )

    max_distance: AtLeast0 | None = None
    no_minhash: bool = False
    no_simhash: bool = False
    keep_shingles: AtLeast0 | None = None
    containment: AtLeast0 | None = None

    def config(self, base: Config) -> Config:
        """Return `base` with what was given in place of its values."""
        names = self.given & {"num_perm", "keep_shingles", "containment", "seed"}
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.no_minhash:
            given |= {"num_perm": 0, "keep_shingles": 0, "containment": 0}
        shingles, simhash = self.shingles(base.shingles), self._simhash(base)
        return replace(base, **given, shingles=shingles, simhash=simhash)

    def _simhash(self, base: Config) -> SimHashConfig | None:
        if self.no_simhash or (base.simhash is None and self.max_distance is None):
            return None
        simhash = with_distance(base.simhash or SimHashConfig(), self.max_distance)
        return replace(simhash, shingles=self._normalized(simhash.shingles))


def with_distance(simhash: SimHashConfig, max_distance: int | None) -> SimHashConfig:
    """Return settings of another distance, with as many blocks as it takes; ``None``: the same ones."""
    if max_distance in (None, simhash.max_distance):
        return simhash
    return replace(simhash, max_distance=max_distance, blocks=None)


def open_for_insert(path: str, options: CreationOptions, wait: float = 0.0) -> Index:
    """Open an index for writing, created with these options if it is missing."""
    is_new = not is_index(path)
    config = options.config(Config()) if is_new and options.given else None
    index = open_index(path, "a", config, timeout=wait)
    try:
        if not is_new and options.given:
            require_equal(index.config, options.config(index.config))
    except BaseException:
        index.close()
        raise
    return index
