"""The overview of a finished deduplication or decontamination, by its journal and its report of removed rows.

Each cluster is a star: a kept document, or one of another index, or an item of `decontaminate`, and the rows
that were removed because they are like it, or hold it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

from simindex.config import Config
from simindex.corpus.dedup.journal import JOURNAL, Journal, read_journal
from simindex.corpus.dedup.paragraphs import Cut
from simindex.corpus.report.histograms import fresh_shares, labelled, step_of
from simindex.corpus.report.overview import CONTAMINATION, DUPLICATES, Bounds, Cluster, Member, Name, Overview
from simindex.errors import SimIndexError
from simindex.inputs import Source, sound
from simindex.jsonable import key_of


def is_journal(path: str) -> bool:
    """Return whether `path` is a folder with a file of a journal's name, as ``OUTPUT.dedup`` is."""
    return os.path.isfile(os.path.join(path, JOURNAL))


def _found_for(row: dict[str, Any]) -> Iterator[tuple[Member, float | None, int | None]]:
    """Yield what a row of the report of removed rows was removed for, with its similarity and distance: the
    kept row; or each item that it holds, with its share and no distance."""
    if "items" not in row:
        origin = row["kept_input"], row["kept_row"]
        yield Member(key_of(row["duplicate_of"]), origin=origin), row["similarity"], row["distance"]
    for item in row.get("items", ()):
        origin = item["item_input"], item["item_row"]
        yield Member(key_of(item["item"]), origin=origin), item["share"], None


def overview_of_job(folder: str, bounds: Bounds) -> Overview:
    """Count the removed rows of the finished job whose journal is in `folder`, and list its largest stars:
    the kept row, or the item, is the first member of each.

    Memory: some 100 bytes a removed row and 200 a cluster.

    Raises:
        SimIndexError: the job has not finished, or its journal is damaged; FileNotFoundError: there is none.
    """
    path = os.path.join(folder, JOURNAL)
    found = read_journal(path)
    job, state = found["job"], found["state"]
    try:
        config, threshold = Config.from_dict(job["config"]), job["threshold"]
        removed_path = job["outputs"][1] or Journal(folder, {}).removed_path
        by_similarity = bool(config.num_perm) and job["by"] != "simhash"
        inputs = [path for path, *_ in job["inputs"]]
        cut = None if job["paragraphs"] is None else Cut(*job["paragraphs"])
    except (KeyError, TypeError, IndexError, ValueError) as exc:
        raise SimIndexError(f"{path}: expected the journal of a deduplication, found another file") from exc
    if state["phase"] != "done":
        raise SimIndexError(
            f"{folder}: expected a finished job, found one that is {state['phase']}; "
            "start simindex dedup again with the same arguments"
        )
    stars, sizes = dict[Name, list[Member]](), Counter[Name]()
    histogram, removed = Counter[int](), list[int]()
    with Source(removed_path).lines() as lines:
        for row in map(json.loads, sound(lines)):
            removed.append(row["number"])
            for kept, similarity, distance in _found_for(row):
                sizes[kept.name] += 1
                histogram[step_of(similarity if by_similarity else None, distance)] += 1
                members = stars.setdefault(kept.name, [kept])
                if len(members) < bounds.members:
                    of_row = row["input"], row["row"]
                    members.append(Member(key_of(row["id"]), 0, similarity, distance, of_row))
    noun, kept_rows = ("document", "rows") if cut is None else ("paragraph", "paragraphs")
    measure = f"removed by the distance of fingerprints to a kept {noun}"
    if by_similarity:
        measure = f"removed by a similarity of {threshold:g} or more to a kept {noun}"
    if of_items := job.get("call") == "decontaminate":
        measure = f"an item of which {threshold:g} or more of the shingles are in a document"
    documents, bounded = int(state["read"]), int(state["bounded"])
    note = (
        f"For {bounded:,} kept {kept_rows} a limit on candidates was hit, so they may have duplicates still."
    )
    largest = sorted(stars, key=lambda name: -sizes[name])[: bounds.clusters]
    return Overview(
        source=folder,
        measure=measure,
        by_similarity=by_similarity,
        config=config,
        documents=documents,
        duplicates=int(state["removed"]),
        num_clusters=len(stars),
        num_pairs=sum(histogram.values()),
        histogram=labelled(histogram, by_similarity, threshold, max(histogram, default=0)),
        fresh=fresh_shares(documents, removed),
        clusters=[Cluster(sizes[name] + 1, stars[name]) for name in largest],
        notes=[note] if bounded else [],
        names=CONTAMINATION if of_items else DUPLICATES,
        inputs=inputs,
        cut=cut,
    )
