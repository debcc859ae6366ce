"""`Scheme`: the tables, plans and sketcher that follow from a configuration.

Invariant: the blocks of the permutation tables are those that were stored at creation, so a later version's
better choice loses no table of an existing index.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

from simindex.config import Config, SimHashConfig, require_equal
from simindex.errors import FormatError, SimIndexError
from simindex.format.layout import Geometry, Layout
from simindex.format.meta import (
    CONFIG_KEY,
    IDENTITY_BYTES,
    Header,
    Manifest,
    decode_header,
    encode_header,
    encode_manifest,
    is_sealed_header,
)
from simindex.sketching.permutations import PermutationPlan, make_plan, plan_for
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE, origin_of
from simindex.storage.folder import keep_header, second_header
from simindex.storage.store import Store

_NO_PLAN = PermutationPlan(0, (), (), ())


@dataclass(frozen=True)
class Scheme:
    """The settings of an index and what follows from them; a result depends on nothing else."""

    config: Config
    tables: Geometry
    plan: PermutationPlan
    identity: bytes = bytes(IDENTITY_BYTES)

    @cached_property
    def origin(self) -> bytes:
        """The bytes that mark sketches as made with these settings."""
        return origin_of(self.config)

    @classmethod
    def of(cls, config: Config, layout: Layout, blocks: int) -> Scheme:
        """Return the scheme of a configuration whose fingerprints are cut into so many blocks."""
        plan = make_plan(blocks, config.simhash.max_distance) if config.simhash else _NO_PLAN
        shortest = min(plan.prefix_bits, default=64)
        has_shingles = config.containment > 0
        return cls(config, Geometry(config.bands, plan.num_tables, layout, shortest, has_shingles), plan)

    @property
    def header(self) -> Header:
        """The header that is stored of it."""
        return Header(self.tables.layout, len(self.plan.widths), self.config.to_dict(), self.identity)

    @cached_property
    def whole_sketch(self) -> int:
        """HAS_SIGNATURE | HAS_FINGERPRINT, as far as a sketch can have them."""
        config = self.config
        return (HAS_SIGNATURE if config.num_perm else 0) | (HAS_FINGERPRINT if config.simhash else 0)


def scheme_of(store: Store, config: Config | None, layout: Layout | None) -> Scheme:
    """Return the scheme by the header of a store; a new store is initialised first, with this configuration
    and layout or the default ones.

    Raises FormatError where the file is no index, and ConfigMismatchError where `config` is another than the
    stored one; `layout` counts for a new store alone.
    """
    if store.is_new:
        created = (config or Config()).drawn()
        plan = plan_for(created.simhash)
        new = Scheme.of(created, layout or Layout(), len(plan.widths) if plan else 0)
        import secrets  # with all of `random` and `hashlib`: loaded where an index is made

        new = replace(new, identity=secrets.token_bytes(IDENTITY_BYTES))
        store.initialise(CONFIG_KEY, encode_header(new.header), encode_manifest(Manifest()))
    with store.reading() as txn:
        value = txn.get("meta", CONFIG_KEY)
        if value is None:
            raise FormatError(f"{store.path}: an LMDB environment, but not a simindex index")
        stored = bytes(value)
    header, stored = _read_header(store, stored)
    store.known_by(CONFIG_KEY, stored)
    scheme = scheme_of_header(header, store.path)
    if config is not None:
        require_equal(scheme.config, config)
    return scheme


def _read_header(store: Store, stored: bytes) -> tuple[Header, bytes]:
    """Return the header and its stored bytes. Where these are damaged, the header is that of the copy beside
    the index. A writer stores the right bytes again where either is damaged, and returns them; a reader
    returns the damaged ones. Raises SimIndexError where neither can be read, or the first one is of another
    version."""
    second, is_other_right = second_header(store.path), False
    try:
        header = decode_header(stored, store.path)
    except SimIndexError:
        if is_sealed_header(stored):
            raise  # what another version meant
        with contextlib.suppress(SimIndexError):
            header = decode_header(second, store.path)
            is_other_right = True
        if not is_other_right:
            raise
        if not store.writable:
            return header, stored
        store.commit(lambda txn: txn.put("meta", CONFIG_KEY, second), True)
        return header, second
    if second != stored and store.writable:
        keep_header(store.path, stored)
    return header, stored


def _possible_blocks(simhash: SimHashConfig | None) -> Collection[int]:
    """Return each count of fingerprint blocks that an index of these settings may have; 0 alone without
    SimHash."""
    if simhash is None:
        return (0,)
    if simhash.blocks is not None:
        return (simhash.blocks,)
    return range(simhash.max_distance + 1, simhash.max_distance + 7)


def scheme_of_header(header: Header, where: str) -> Scheme:
    """Return the scheme of a stored header; `where` names the file in messages. Raises FormatError when its
    parts contradict one another."""
    config, blocks = Config.from_dict(header.config), header.blocks
    if isinstance(config.seed, str):
        raise FormatError(f"{where}: header: expected a number as the seed, found {config.seed!r}")
    if blocks not in _possible_blocks(config.simhash):
        raise FormatError(f"{where}: header: expected blocks that fit {config.simhash}, found {blocks}")
    return replace(Scheme.of(config, header.layout, blocks), identity=header.identity)
