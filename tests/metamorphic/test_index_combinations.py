"""Indexes built in all ways, and asked by every command: the answers depend neither on how the input was cut
into files, formats and batches, nor on workers, nor on the order of its rows. Brute force is the judge.
"""

import json
import random
from collections import defaultdict
from itertools import combinations as pairs_of
from pathlib import Path
from typing import Any

import pytest
from combinations import Combination, pairwise
from corpora import FORMATS, PACKINGS, SHARDS, Document, cut, made_up, same_family, star, write_shards
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.commands import Run
from support.indexes import problems_of
from support.samples import sample_of

import simindex

OPTIONS: dict[str, tuple[Any, ...]] = {
    "shards": SHARDS,
    "format": FORMATS,
    "packing": PACKINGS,
    "batch_size": (1, 7, 137, None),
    "workers": (1, 2),
    "if_new": (False, True),
    "calls": (1, 3),
    "shuffled": (False, True),
    "exact": (False, True),
    "removed": (False, True),
    "compacted": (False, True),
}
COMBINATIONS = pairwise(OPTIONS, lambda _: True)
DRAWN = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in OPTIONS.items()})


def run_json(run: Run, *arguments: object) -> list[dict[str, Any]]:
    ran = run(*arguments, "--json")
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


class Built:
    """An index that the command has built, and the documents that must be in it."""

    def __init__(self, run: Run, folder: Path, options: Combination, seed: int) -> None:
        self.run, self.folder, self.options = run, folder, options
        self.index = folder / "built.simindex"
        documents = made_up(120, seed)
        if options["shuffled"]:
            random.Random(seed).shuffle(documents)
        shards = cut(documents, options["shards"], seed)
        self.paths = write_shards(folder, shards, options["format"], options["packing"], seed)
        arguments: list[object] = ["--workers", options["workers"]]
        if options["batch_size"] is not None:
            arguments += ["--batch-size", options["batch_size"]]
        if options["exact"]:
            arguments += ["--keep-shingles", 128]
        if options["if_new"]:
            arguments += ["--if-new"]
        for call in range(options["calls"]):
            if paths := self.paths[call :: options["calls"]]:
                run_json(run, "insert", self.index, *paths, *arguments)
        read = [shard for call in range(options["calls"]) for shard in shards[call :: options["calls"]]]
        ordered = [row for shard in read for row in shard]
        kept = star(ordered, same_family, "first") if options["if_new"] else {row.id for row in ordered}
        self.documents = [row for row in ordered if row.id in kept]
        if options["removed"]:
            run_json(run, "remove", self.index, *(row.id for row in self.documents[::5]))
            del self.documents[::5]
        if options["compacted"]:
            assert run("compact", self.index).code == 0
        self.exact = ["--exact"] if options["exact"] else []

    @property
    def families(self) -> dict[int, set[str]]:
        found: dict[int, set[str]] = defaultdict(set)
        for row in self.documents:
            found[row.family].add(row.id)
        return found

    def check_list(self) -> None:
        assert [row["id"] for row in run_json(self.run, "list", self.index)] == [
            row.id for row in self.documents
        ]

    def check_pairs(self) -> None:
        found = run_json(self.run, "pairs", self.index, "--copies", "all", *self.exact)
        assert len(found) == len({frozenset((pair["a"], pair["b"])) for pair in found})
        expected = {frozenset(two) for ids in self.families.values() for two in pairs_of(sorted(ids), 2)}
        assert {frozenset((pair["a"], pair["b"])) for pair in found} == expected
        if self.exact:
            assert all(pair["exact"] for pair in found)

    def check_clusters(self) -> None:
        expected = {frozenset(ids) for ids in self.families.values() if len(ids) > 1}
        for linkage in ("components", "star"):
            found = run_json(self.run, "clusters", self.index, "--linkage", linkage, *self.exact)
            assert len(found) == len(expected)
            assert {frozenset(cluster["keys"]) for cluster in found} == expected

    def check_query(self) -> None:
        families = self.families
        for path in self.paths[:2]:
            for row in run_json(self.run, "query", self.index, "--input", path, *self.exact):
                family = next(d.family for d in self.all_documents if d.id == row["query"])
                assert {match["key"] for match in row["matches"]} == families.get(family, set())

    def check_join(self) -> None:
        others = [row._replace(id=f"o{row.id}") for row in self.all_documents[::3]]
        (self.folder / "others").mkdir()
        [path] = write_shards(self.folder / "others", [others], ".jsonl", "")
        found = run_json(self.run, "join", path, self.index, *self.exact)
        expected = {(a.id, b.id) for a in others for b in self.documents if same_family(a, b)}
        assert len(found) == len(expected)
        assert {(pair["a"], pair["b"]) for pair in found} == expected

    all_documents: list[Document]

    def check(self, seed: int) -> None:
        self.all_documents = made_up(120, seed)
        self.check_list()
        self.check_pairs()
        self.check_clusters()
        self.check_query()
        self.check_join()
        with simindex.open(self.index, "r") as index:
            assert not problems_of(index.path)


@pytest.mark.parametrize("number", sample_of(range(0, len(COMBINATIONS), 2), range(1, len(COMBINATIONS), 2)))
def test_answers_are_those_of_brute_force(run: Run, tmp_path: Path, number: int) -> None:
    Built(run, tmp_path, COMBINATIONS[number], number).check(number)


@pytest.mark.long
@settings(
    max_examples=settings().max_examples // 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # each has a folder of its own
)
@given(options=DRAWN, seed=st.integers(0, 1_000))
def test_answers_are_those_of_brute_force_in_any_combination(
    run: Run, tmp_path_factory: pytest.TempPathFactory, options: Combination, seed: int
) -> None:
    Built(run, tmp_path_factory.mktemp("drawn"), options, seed).check(seed)
