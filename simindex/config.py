"""Config: everything that a result depends on. Stored in the index and compared on open.

Invariant: two equal configs give equal sketches for equal documents, on every machine and Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from simindex.checks import set_int
from simindex.errors import (
    Argument,
    ArgumentTypeError,
    ArgumentValueError,
    ConfigMismatchError,
    Difference,
    FormatError,
    joined,
)

HASHING_VERSION = 6
"""Version of the hashing contract (docs/hashing.md). A change of any vector there raises it."""

NORMALIZE_STEPS = (
    "html",
    "comments",
    "nfkc",
    "fold",
    "diacritics",
    "numbers",
    "punctuation",
    "casefold",
    "whitespace",
)
"""The known normalisation steps, in the order in which they are applied: each stands behind those whose
result it must see, and "html" turns ``&`` into a space."""

_MAX_SHINGLE_SIZE = 1024

COARSEST_SAMPLE = 64
"""Of so many shingles one is sampled, at least."""

MOST_KEPT_SHINGLES = 1_000_000
"""All shingle hashes of nearly every document: what `keep_shingles` goes up to."""

FEW_SHINGLES = 8
"""Where most texts have fewer, of the default fewer than ten words, one changed word leaves less than 0.45 of
the similarity, and `Config.short_texts` finds what these settings do not."""


def _normalize_steps(value: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the named steps in the order of application, each once; of a text, those between spaces or
    commas; of ``None``, none. Raises ArgumentTypeError for what cannot be iterated over, as False, and
    ArgumentValueError for an unknown name."""
    if value is None:
        return ()
    if not isinstance(value, Iterable):
        expected = "names of steps, in a list, a tuple or one string, or None"
        raise ArgumentTypeError("normalize", expected, type(value).__name__)
    names = value.replace(",", " ").split() if isinstance(value, str) else list(value)
    for name in names:
        if name not in NORMALIZE_STEPS:
            raise ArgumentValueError("normalize", f"steps out of '{' '.join(NORMALIZE_STEPS)}'", repr(name))
    return tuple(filter(names.__contains__, NORMALIZE_STEPS))


@dataclass(frozen=True)
class WordShingles:
    """Runs of `size` words. A text with fewer words is one shingle of all its words.

    Args:
        size: words a shingle, 1..1024.
        normalize: what is done to a text before it is cut: all the steps, those of the default among them,
            as a tuple or as one string with spaces, in any order; ``None`` or ``()`` leaves the text as it
            is. They are applied in this order:

            "html": tags, comments, scripts and styles out, character references into characters;
            "comments": comments of program code out (``//``, ``/* */``, ``#``, ``--``);
            "nfkc": Unicode's compatibility form;
            "fold": what looks alike is alike (Unicode's NFKC_Casefold): no capitals, full width, ligatures,
            soft hyphens or joiners, and accents are written in one way;
            "diacritics": é becomes e;
            "numbers": each number becomes 0;
            "punctuation": signs out, so that don't is one word;
            "casefold": no capitals, and nothing else of "fold";
            "whitespace": each run of white space is one space. Words are cut the same without it.

    A word is a run of letters, digits and ``_`` with the combining marks that follow them. Each
    ideograph, kana, Thai or similar letter of a script without spaces is a word of its own. The
    ranges are those of Unicode 15.0 on every Python version (docs/hashing.md).

    >>> WordShingles(3)
    WordShingles(size=3, normalize=('fold', 'whitespace'))
    >>> WordShingles(3, normalize="fold whitespace numbers html").normalize
    ('html', 'fold', 'numbers', 'whitespace')
    """

    size: int = 3
    normalize: tuple[str, ...] = ("fold", "whitespace")

    def __post_init__(self) -> None:
        set_int(self, "size", 1, _MAX_SHINGLE_SIZE)
        object.__setattr__(self, "normalize", _normalize_steps(self.normalize))


@dataclass(frozen=True)
class CharShingles:
    """Runs of `size` code points of the normalised text. A shorter text is one shingle.

    Args:
        size: code points a shingle, 1..1024.
        normalize: as in `WordShingles`; "whitespace" turns each run of white space into one space
            and drops it at both ends.

    >>> CharShingles(9, normalize="nfkc casefold whitespace").normalize
    ('nfkc', 'casefold', 'whitespace')
    """

    size: int = 9
    normalize: tuple[str, ...] = ("fold", "whitespace")

    def __post_init__(self) -> None:
        set_int(self, "size", 1, _MAX_SHINGLE_SIZE)
        object.__setattr__(self, "normalize", _normalize_steps(self.normalize))


Shingles = WordShingles | CharShingles


@dataclass(frozen=True)
class SimHashConfig:
    """Settings of the 64-bit fingerprint and its permutation tables.

    Args:
        max_distance: Hamming distance k in bits up to which `query_simhash` is complete, 0..8.
        blocks: m, how many blocks the 64 bits are cut into, max_distance+1..max_distance+6. There
            is one table for each choice of m - k leading blocks. ``None`` chooses from
            `max_distance` and `expected_documents`.
        shingles: features of the fingerprint, every occurrence counted. The default is single
            words; ready shingles are taken as they are.
        expected_documents: the size that ``blocks=None`` is chosen for, 1 or more.

    Source: Charikar 2002; Manku, Jain and Das Sarma 2007, sections 2 and 3.
    """

    max_distance: int = 3
    blocks: int | None = None
    shingles: Shingles = WordShingles(1)
    expected_documents: int = 10_000_000

    def __post_init__(self) -> None:
        set_int(self, "max_distance", 0, 8)
        if self.blocks is not None:
            set_int(self, "blocks", self.max_distance + 1, self.max_distance + 6)
        set_int(self, "expected_documents", 1, 2**48)
        if not isinstance(self.shingles, WordShingles | CharShingles):
            raise ArgumentTypeError("shingles", "WordShingles or CharShingles", repr(self.shingles))


@dataclass(frozen=True)
class Config:
    """Everything a result depends on; frozen, and stored in the index.

    Args:
        shingles: `WordShingles` or `CharShingles`, the elements of the MinHash sets.
        num_perm: MinHash rows, a multiple of 8 in 8..1024; 0 switches MinHash off. More rows give
            a smaller error of the estimate, sqrt(s(1-s)/num_perm), for one byte each a document.
        simhash: `SimHashConfig`, or ``None`` for no fingerprint.
        keep_shingles: how many of a document's smallest shingle hashes are kept for ``exact=True``,
            about 4 bytes each, 0..1,000,000; 0 keeps none. The similarity of two documents is exact where
            both have fewer shingles than this, so take more than nearly all have (a text has about
            as many as words); elsewhere it is a better estimate, see docs/thresholds.md.
        containment: m: one in m shingles of each document is kept by its hash in a table of its own, which
            `query_containment` searches: 1, 2, 4, 8, 16, 32 or 64, or 0 for no such table; about
            8 bytes for each sampled shingle. 1 finds and decides everything, and is right for sentences and
            paragraphs; larger ones for long queries, or with the texts at hand, see docs/howto/contained.md.
            Documents are stored whole, too, where
            their sketches are equal, and come as texts or shingles, not as rows made elsewhere.
        seed: 64-bit seed of every hash function; or "random": one that cannot be guessed, drawn when an
            index is created and stored there (`index.config.seed` is the number), against documents made to
            collide. At a later opening "random" stands for whatever is stored. Its cost: only sketches of
            one seed can be compared, so indexes with seeds of their own cannot be joined or merged, nor
            an index go on with sketches made elsewhere. See docs/limits.md.

    Raises:
        ValueError: a value out of range, or both methods switched off.
        TypeError: a value of another type.

    >>> Config().num_perm
    128
    >>> Config(num_perm=100)
    Traceback (most recent call last):
    ...
    simindex.errors.ArgumentValueError: num_perm: expected a multiple of 8 in 0..1024, found 100
    """

    shingles: Shingles = WordShingles(3)
    num_perm: int = 128
    simhash: SimHashConfig | None = SimHashConfig()
    keep_shingles: int = 0
    seed: int | Literal["random"] = 1
    containment: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.shingles, WordShingles | CharShingles):
            raise ArgumentTypeError("shingles", "WordShingles or CharShingles", repr(self.shingles))
        set_int(self, "num_perm", 0, 1024, multiple=8)
        if self.simhash is not None and not isinstance(self.simhash, SimHashConfig):
            raise ArgumentTypeError("simhash", "a SimHashConfig or None", repr(self.simhash))
        set_int(self, "keep_shingles", 0, MOST_KEPT_SHINGLES)
        if self.seed != "random":
            if isinstance(self.seed, str):
                raise ArgumentValueError("seed", '0..2**64-1 or "random"', repr(self.seed))
            set_int(self, "seed", 0, 2**64 - 1)
        if self.num_perm == 0 and self.simhash is None:
            raise ArgumentValueError("num_perm", "more than 0, or SimHash", "neither")
        if self.num_perm == 0 and self.keep_shingles:
            raise ArgumentValueError("keep_shingles", "MinHash rows beside it", "none")
        set_int(self, "containment", 0, COARSEST_SAMPLE)
        if self.containment & (self.containment - 1):
            raise ArgumentValueError("containment", "0 or a power of two", self.containment)
        if self.num_perm == 0 and self.containment:
            raise ArgumentValueError("containment", "MinHash rows beside it", "none")

    @classmethod
    def short_texts(cls) -> Config:
        """Return the settings for texts of three to forty words: titles, questions, records, notes of agents.

        Shingles of two characters without signs between them, all kept, so that ``exact=True`` is exact; no
        SimHash, which says little about so few words. The threshold is 0.8, for Chinese 0.75. As no sign
        counts, C++ is C# and 1.5 is 15; of one digit, or a negation, docs/same-text.md says what is seen.

        >>> from simindex import Sketcher
        >>> same = Sketcher(Config.short_texts()).sketch_many(["It's 8 °C in Oslo!", "its 8°C in Oslo"])
        >>> round(same[0].jaccard(same[1]), 1)
        0.8
        """
        shingles = CharShingles(2, normalize=("fold", "punctuation", "whitespace"))
        return cls(shingles, simhash=None, keep_shingles=256)

    @property
    def bands(self) -> int:
        """Number of 64-bit band words of a signature: eight rows each."""
        return self.num_perm // 8

    @property
    def hash_seed(self) -> int:
        """The seed as the number that hashes are made with.

        Raises:
            ValueError: it is still to be drawn.
        """
        if isinstance(self.seed, str):
            found = '"random", which is drawn when an index is created'
            remedy = "take index.config, or a number of your own (secrets.randbits(64))"
            raise ArgumentValueError("seed", "a number", found, remedy)
        return self.seed

    def drawn(self) -> Config:
        """Return the settings of a new index: a seed of "random" is drawn here, any other is kept."""
        if self.seed != "random":
            return self
        import secrets  # with all of `random` and `hashlib`: loaded where a seed is drawn

        return replace(self, seed=secrets.randbits(64))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as values that JSON has, and the version of the hashing contract.

        >>> Config.from_dict(Config(num_perm=64).to_dict()) == Config(num_perm=64)
        True
        """
        simhash = self.simhash
        of_simhash = simhash and vars(simhash) | {"shingles": _shingles_to_dict(simhash.shingles)}
        parts = {"shingles": _shingles_to_dict(self.shingles), "simhash": of_simhash}
        return {"hashing": HASHING_VERSION} | vars(self) | parts

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Config:
        """Return the settings of a `to_dict`, out of JSON, too.

        Raises:
            FormatError: an unknown or missing field or value, or another version of the hashing contract.
        """
        if not isinstance(stored, dict):
            raise FormatError(f"stored configuration: expected a map, found {stored!r:.100}")
        if stored.get("hashing") != HASHING_VERSION:
            raise FormatError(
                f"hashing contract: expected version {HASHING_VERSION}, "
                f"found {stored.get('hashing')!r:.100}; build the index anew from its texts, or open it with "
                "the simindex version that wrote it"
            )
        names = [field.name for field in fields(cls)]
        if unknown := stored.keys() - {"hashing", *names}:
            raise FormatError(
                f"stored configuration: unknown fields {sorted(map(str, unknown))!s:.300}; "
                "open the index with the simindex version that wrote it"
            )
        try:
            simhash = stored["simhash"]
            if simhash is not None:
                of_simhash = simhash | {"shingles": _shingles_from_dict(simhash["shingles"])}
                simhash = SimHashConfig(**of_simhash)
            values = stored | {"shingles": _shingles_from_dict(stored["shingles"]), "simhash": simhash}
            return cls(**{name: values[name] for name in names})
        except (KeyError, TypeError, ValueError, OverflowError) as exc:
            raise FormatError(f"stored configuration: expected known fields, found {stored!r:.1000}") from exc


def _shingles_to_dict(shingles: Shingles) -> dict[str, Any]:
    kind = "words" if isinstance(shingles, WordShingles) else "characters"
    return {"kind": kind, "size": shingles.size, "normalize": list(shingles.normalize)}


def _shingles_from_dict(stored: dict[str, Any]) -> Any:
    kinds: dict[str, Any] = {"words": WordShingles, "characters": CharShingles}
    return kinds[stored["kind"]](stored["size"], tuple(stored["normalize"]))


def require_config(config: object) -> None:
    """Refuse what is neither ``None`` nor a `Config`, as the shingles alone. Raises TypeError."""
    if config is not None and not isinstance(config, Config):
        raise ArgumentTypeError("config", "a Config or None", type(config).__name__)


def differing_fields(one: Config, other: Config) -> dict[str, tuple[object, object]]:
    """Return {field: (first value, second value)} of the fields in which two configurations differ."""
    pairs = {name: (value, getattr(other, name)) for name, value in vars(one).items()}
    return {name: (first, second) for name, (first, second) in pairs.items() if first != second}


def both_values(differing: dict[str, tuple[object, object]], words: str = "{} and {}") -> tuple[object, ...]:
    """Return the parts of a `Worded` message: a `Difference` for each field of `differing_fields`, whose two
    values stand in the braces of `words`, and "; " between them."""
    return joined("; ", (Difference(name, *values, words) for name, values in differing.items()))


def require_equal(stored: Config, wanted: Config) -> None:
    """Raise ConfigMismatchError, naming each differing field with both values, unless they are equal; a seed
    of "random" in `wanted` equals any."""
    if wanted.seed == "random":
        wanted = replace(wanted, seed=stored.seed)
    if differing := differing_fields(stored, wanted):
        found = both_values(differing, "stored {}, asked for {}")
        remedy = ("); open it with ", Argument("config", None), ", or build a new index")
        raise ConfigMismatchError(("the index has other settings (", found, remedy), differing)
