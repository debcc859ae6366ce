"""Deal the kills out to kinds of work: changes of an index, backups and jobs.

The work and its judgement are in lives, backups and jobs.
"""

from __future__ import annotations

from pathlib import Path

from attacks import faults
from attacks.killing.backups import back_up
from attacks.killing.jobs import JOBS, kill_a_job
from attacks.killing.lives import live
from attacks.killing.process import LIFE, Kill

_JOBS = 1, 4, 6, 9
"""Of ten lives."""


def kill_many(folder: Path, seed: int, rounds: int, only: int | None = None) -> list[Kill]:
    """Kill so many processes; returns what became of each.

    Of ten lives one is of an index that is backed up, and four are of jobs, each another one.
    """
    faults.watch(folder)
    kills: list[Kill] = []
    for life in range((rounds + LIFE - 1) // LIFE) if only is None else [only]:
        if life % 10 == 3:
            kills += back_up(folder, seed, life)
        elif life % 10 in _JOBS:
            number = seed - 1 + life // 10 * len(_JOBS) + _JOBS.index(life % 10)
            kills += kill_a_job(folder, seed, life, list(JOBS)[number % len(JOBS)])
        else:
            kills += live(folder, seed, life)
    return kills
