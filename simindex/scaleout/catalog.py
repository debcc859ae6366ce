"""The catalog: the partitions, their places and the configuration.

A small sealed file, the only truth about an index over many machines: actors are made from it, whatever Ray
has forgotten. It lies at a path, or in a store whose conditional puts were proved. Invariant: a catalog is
replaced whole, only by one of the next version, and one that was changed by hand is refused.

The file is JSON that people can read. Its seal is the XXH3-128 of the canonical JSON (sorted names, no
blanks, ASCII) of everything else in it.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import xxhash

from simindex.checks import local_path
from simindex.config import Config
from simindex.errors import CorruptIndexError, FormatError
from simindex.maintenance.object_store import Objects, open_store, prove, written_beside
from simindex.remote import is_remote
from simindex.scaleout.errors import CatalogChangedError

Durability = Literal["node", "store"]
"""What an acknowledged change survives: the end of its processes, or that of its node with the disk."""

DURABILITIES = "node", "store"

FORMAT = 1
"""Of the catalog; not that of the partitions, which say their own."""

MOST_PARTITIONS = 65_536

_NAME = "catalog"
"""Under which a store has it."""


def new_path(folder: str, number: int) -> str:
    """Return a folder for a partition that no other attempt has."""
    return os.path.join(folder, f"{number:05}-{secrets.token_hex(4)}.simindex")


def located(uri: str | os.PathLike[str]) -> str:
    """Return the uri of a catalog without a slash at its end; of a file its real path, whatever names it."""
    text = os.fspath(uri)
    return text.rstrip("/") if is_remote(text) else os.path.realpath(local_path(uri))


def require_absolute(name: str, folder: str, where: str) -> None:
    """Refuse a relative folder of another machine, whose working directory is not this one."""
    if not os.path.isabs(folder):
        raise ValueError(
            f"{name}: expected the absolute path of a folder on {where}, found {folder!r}; the working "
            "directory there is not this one, so give a path like /nvme/news"
        )


@dataclass(frozen=True)
class Partition:
    """One partition: an ordinary index.

    Attributes:
        place: the resource of Ray that pins it to the machine with its folder.
        closed: version of the catalog that closed it for writing, while it is moved; ``None``: it is open. A
            host that was closed by a version takes changes again only by a later one.
    """

    place: str
    path: str
    closed: int | None = None


@dataclass(frozen=True)
class Catalog:
    """What the file holds. A value: `with_partition` makes the next version.

    Attributes:
        config: of every partition.
        partitions: by their number.
        id: 16 hexadecimal digits that name this index among others, for good.
        version: one more at each replacement.
        store: uri under which the partitions' backups lie; ``None``: there are none.
        durability: "node", or "store": a change is in the store, too, before it is acknowledged.
    """

    config: Config
    partitions: tuple[Partition, ...]
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    version: int = 1
    store: str | None = None
    durability: Durability = "node"

    def __post_init__(self) -> None:
        if self.durability not in DURABILITIES:
            raise ValueError(f'durability: expected "node" or "store", found {self.durability!r}')
        if self.durability == "store" and self.store is None:
            raise ValueError(
                'durability: expected "node" where there is no store, found "store"; give store='
            )
        self.config.hash_seed  # noqa: B018 - a seed that is still to be drawn is refused
        if not 1 <= len(self.partitions) <= MOST_PARTITIONS:
            raise ValueError(
                f"partitions: expected 1..{MOST_PARTITIONS} of them, found {len(self.partitions)}"
            )

    @cached_property
    def places(self) -> dict[str, tuple[int, ...]]:
        """Place -> numbers of its partitions; places in the order of their first ones."""
        found: dict[str, list[int]] = {}
        for number, partition in enumerate(self.partitions):
            found.setdefault(partition.place, []).append(number)
        return {place: tuple(numbers) for place, numbers in found.items()}

    def folders(self, place: str) -> dict[int, str]:
        """Return number -> folder of the partitions of a place."""
        return {number: self.partitions[number].path for number in self.places.get(place, ())}

    def with_partition(self, number: int, partition: Partition) -> Catalog:
        """Return the next version, with one partition changed."""
        partitions = *self.partitions[:number], partition, *self.partitions[number + 1 :]
        return replace(self, partitions=partitions, version=self.version + 1)

    def backup_uri(self, number: int) -> str | None:
        """Return where the backup of a partition lies, and its commit log; ``None`` without a store."""
        return None if self.store is None else f"{self.store.rstrip('/')}/{self.id}/{number:05}"

    def to_json(self) -> str:
        """Return the text of the file.

        >>> catalog = Catalog(Config(), (Partition("node:10.0.0.1", "/data/0000"),))
        >>> Catalog.from_json(catalog.to_json()) == catalog
        True
        """
        names = "id", "version", "store", "durability"
        content: dict[str, Any] = {"simindex_catalog": FORMAT, "config": self.config.to_dict()}
        content |= {name: getattr(self, name) for name in names}
        content["partitions"] = [asdict(partition) for partition in self.partitions]
        return json.dumps(content | {"seal": digest_of(content)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, uri: str = "catalog") -> Catalog:
        """Return the catalog of a text."""
        try:
            content = json.loads(text)
        except ValueError as exc:
            raise FormatError(f"{uri}: expected the catalog of a scaled index, found no JSON") from exc
        if not isinstance(content, dict) or "simindex_catalog" not in content:
            raise FormatError(f"{uri}: expected the catalog of a scaled index, found other JSON")
        if content["simindex_catalog"] != FORMAT:
            raise FormatError(
                f"{uri}: expected a catalog of format {FORMAT}, found {content['simindex_catalog']!r:.80}; "
                "open it with the simindex version that wrote it"
            )
        if content.pop("seal", None) != digest_of(content):
            raise CorruptIndexError(
                f"{uri}: expected a catalog that fits its seal, found one that was changed; restore it, or "
                "write it anew from the folders of the partitions",
                path=uri,
            )
        try:
            del content["simindex_catalog"]
            partitions = tuple(Partition(**partition) for partition in content.pop("partitions"))
            return cls(Config.from_dict(content.pop("config")), partitions, **content)
        except FormatError:
            raise
        except (KeyError, TypeError, ValueError) as exc:
            raise CorruptIndexError(f"{uri}: expected a whole catalog, found {exc!r}", path=uri) from exc

    @classmethod
    def load(cls, uri: str | os.PathLike[str]) -> Catalog:
        """Return the catalog that lies at a uri. Raises FileNotFoundError, and what `from_json` raises."""
        content: bytes | None = None
        if is_remote(os.fspath(uri)):
            objects = open_store(uri)
            where, content = objects.uri, objects.current(_NAME)
        else:
            where = str(local_path(uri))
            if os.path.isdir(where):
                raise FormatError(f"{where}: expected the catalog of a scaled index, found a folder")
            with suppress(FileNotFoundError, NotADirectoryError):  # refused below
                content = Path(where).read_bytes()
        if content is None:
            raise FileNotFoundError(
                f"{where}: expected the catalog of a scaled index, found none; scaleout.create makes one"
            )
        return cls.from_json(content, where)

    @classmethod
    def require_none(cls, uri: str | os.PathLike[str]) -> None:
        """Refuse a uri where a catalog lies. Raises FileExistsError, FormatError and CorruptIndexError."""
        with suppress(FileNotFoundError):
            cls._require(os.fspath(uri), cls.load(uri), None)

    def replace(self, uri: str | os.PathLike[str], old: Catalog | None) -> Catalog:
        """Put this catalog in the place of another one, whole, and return it."""
        if is_remote(os.fspath(uri)):
            return self._replace_in_store(open_store(uri), old)
        path = Path(located(uri))
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            self._require(str(path), type(self).load(path) if path.exists() or old is not None else None, old)
            with written_beside(path, self.to_json().encode("ascii")) as new:
                new.replace(path)
        return self

    def _replace_in_store(self, objects: Objects, old: Catalog | None) -> Catalog:
        prove(objects)
        content = objects.current(_NAME)
        found = None if content is None else type(self).from_json(content, objects.uri)
        self._require(objects.uri, found, old)
        if not objects.exchange(_NAME, content, self.to_json().encode("ascii")):
            raise CatalogChangedError(
                f"{objects.uri}: another process replaced the catalog at once; load it and begin again"
            )
        return self

    @staticmethod
    def _require(where: str, found: Catalog | None, old: Catalog | None) -> None:
        """Refuse to replace what is not expected there."""
        if old is None:
            if found is not None:
                raise FileExistsError(
                    f"{where}: expected nothing there, found a catalog; scaleout.open opens it"
                )
        elif found is None or (found.id, found.version) != (old.id, old.version):
            there = "none" if found is None else f"version {found.version} of {found.id}"
            raise CatalogChangedError(
                f"{where}: expected version {old.version} of the catalog {old.id}, found {there}; another "
                "process replaced it meanwhile. Load it and begin again"
            )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other programs of this machine, and of a file system with locks, from replacing the same file."""
    import fcntl

    with path.with_name(f"{path.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def digest_of(value: Any) -> str:
    """Return the XXH3-128 of the canonical JSON of a value, hexadecimal."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return xxhash.xxh3_128_hexdigest(canonical.encode("ascii"))
