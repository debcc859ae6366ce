"""What a match is in a job, and how its rows are sketched."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

import simindex.index as face
from simindex.config import MOST_KEPT_SHINGLES, Config, SimHashConfig
from simindex.corpus.dedup.settings import JobSettings
from simindex.errors import ArgumentValueError
from simindex.queries.search import DEFAULT_MAX_CANDIDATES, Query, query_by


def config_for(
    config: Config | None,
    others: Iterable[str],
    by: str | None,
    max_distance: int | None,
    exact: bool,
    has_into: bool,
) -> Config:
    """Return the configuration of a job: that of the first index that exists among the paths `others`, else
    `config`, else the default one, which keeps all shingles where `exact` compares them, makes fingerprints
    only for "simhash", `max_distance` or `has_into`, and no MinHash rows for "simhash" without `has_into`.
    ConfigMismatchError: `config` differs from that of the index; ArgumentValueError: no index exists, and
    the seed of `config` is "random"."""
    for other in others:
        try:
            with face.open(other, "r") as index:
                found = index.config
        except FileNotFoundError:
            continue  # there is none, or a process was killed while it made one
        if config is not None and config != found:
            with face.open(other, "r", config):
                pass
        return found
    if config is not None and config.seed == "random":
        raise ArgumentValueError(
            "seed",
            "a number, for a job that is resumed needs the same one",
            '"random"',
            "draw one and keep it, or give an index that has one",
        )
    if config is not None:
        return config
    bits = SimHashConfig()
    if by == "simhash" and max_distance is not None and max_distance > bits.max_distance:
        bits = SimHashConfig(max_distance)
    # Without an index to fill, the half of a sketch that is not compared is not made.
    if by == "simhash" and not has_into:
        return Config(num_perm=0, simhash=bits)
    keep_shingles = MOST_KEPT_SHINGLES if exact and by != "simhash" else 0
    has_bits = has_into or max_distance is not None
    return Config(keep_shingles=keep_shingles, simhash=bits if has_bits else None)


def comparison_for(settings: JobSettings, others: list[str]) -> tuple[Query, Config]:
    """Return what a match is in a job, and how its documents are sketched: as `config_for` says, whose errors
    it raises, but with all shingles where these are compared and none of `others`, the paths of the indexes
    that it compares with, exists yet."""
    exact, by, max_distance = settings.compares_shingles, settings.by, settings.max_distance
    config = config_for(settings.config, others, by, max_distance, exact, settings.into is not None)
    asked = by, settings.threshold, max_distance, 1, settings.recall, exact
    query = query_by(config, DEFAULT_MAX_CANDIDATES, "deduplicate", *asked)
    if exact and not config.keep_shingles and not any(map(os.path.exists, others)):
        config = replace(config, keep_shingles=MOST_KEPT_SHINGLES)
    return query, config
