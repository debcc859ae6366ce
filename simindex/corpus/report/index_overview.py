"""The overview of an index: a duplicate is a document that is similar to one that was stored before it, and
clusters are the components of the pairs."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np

from simindex.all_pairs.edges import Forest, edges_between
from simindex.all_pairs.pair import Pair
from simindex.corpus.report.histograms import fresh_shares, labelled, most_bits, pairs_to_count, step_of
from simindex.corpus.report.overview import Bounds, Cluster, Member, Overview
from simindex.index import Index

_AT_ONCE = 100_000
_BOUNDED = "{:,} groups of documents with one prefix were not compared all with all; pairs may be missing."


def overview_of(index: Index, threshold: float, bounds: Bounds) -> Overview:
    """Count the pairs of an index from the threshold on, and list its largest clusters, with the earliest
    documents of each. An index without MinHash has pairs by its own distance, whatever the threshold.

    Memory: all keys, 4 bytes a document, some 200 bytes a duplicate.
    """
    keys, by_similarity = list(index), bool(index.config.num_perm)
    positions = {key: position for position, key in enumerate(keys)}
    nearest: dict[int, tuple[tuple[float, int], int, Pair]] = {}
    histogram: Counter[int] = Counter()
    forest, pairs = Forest(len(keys)), pairs_to_count(index, threshold)
    # What was stored since is not in the page.
    known = ((positions[p.a], positions[p.b], p) for p in pairs if p.a in positions and p.b in positions)
    while some := list(islice(known, _AT_ONCE)):
        forest.join(edges_between(*np.array([ends[:2] for ends in some]).T))
        for a, b, pair in some:
            histogram[step_of(pair.similarity, pair.distance)] += 1
            likeness = -1.0 if pair.similarity is None else pair.similarity, -(pair.distance or 0)
            if max(a, b) not in nearest or likeness > nearest[max(a, b)][0]:
                nearest[max(a, b)] = likeness, min(a, b), pair
    groups, begun = list[list[int]](), list[int]()
    for members, is_last in forest.groups():
        begun += members.tolist()
        if is_last:
            groups.append(begun)
            begun = []

    def cluster(group: list[int]) -> Cluster:
        numbers = {position: number for number, position in enumerate(group[: bounds.members])}
        members = [Member(keys[position]) for position in numbers]
        for position, number in numbers.items():
            if position in nearest:
                _, earlier, pair = nearest[position]
                members[number] = Member(keys[position], numbers[earlier], pair.similarity, pair.distance)
        return Cluster(len(group), members)

    measure = "fingerprints within the distance that the index was built for"
    if by_similarity:
        measure = f"similarity of {threshold:g} or more, estimated from signatures"
    return Overview(
        source=index.path,
        measure=measure,
        by_similarity=by_similarity,
        config=index.config,
        documents=len(keys),
        duplicates=len(nearest),
        num_clusters=len(groups),
        num_pairs=sum(histogram.values()),
        histogram=labelled(histogram, by_similarity, threshold, most_bits(index)),
        fresh=fresh_shares(len(keys), nearest),
        clusters=list(map(cluster, sorted(groups, key=lambda g: (-len(g), g[0]))[: bounds.clusters])),
        notes=[_BOUNDED.format(pairs.bounded.runs)] if pairs.bounded.runs else [],
    )
