"""`dedup` in all its ways at once: what stays depends neither on how the input is cut into files, formats and
batches nor on workers and interruptions. Brute force is the judge.

Every pair of two options is in one of the combinations that always run; `--hypothesis-profile long` draws
more of them.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from combinations import Combination, pairwise
from corpora import (
    FORMATS,
    PACKINGS,
    SHARDS,
    THRESHOLD,
    cut,
    made_up,
    read_rows,
    same_family,
    star,
    within_bits,
    write_shards,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.commands import Run
from support.dedup_settings import dedup_arguments
from support.faults import stopping_at
from support.samples import sample_of

import simindex
from simindex import Config, SimHashConfig
from simindex.corpus import deduplicate
from simindex.textbook import jaccard, word_shingles

OPTIONS: dict[str, tuple[Any, ...]] = {
    "shards": SHARDS,
    "format": FORMATS,
    "packing": PACKINGS,
    "batch_size": (1, 7, 137, None),
    "workers": (1, 2),
    "mode": ("remove", "annotate", "report-only"),
    "keep": ("first", "newest", "longest", "field:rank"),
    "by": ("minhash", "simhash"),
    "exact": (False, True),
    "explain": (False, True),
    "output": ("out.jsonl", "out.jsonl.zst", "out.csv.xz", "out.tsv.gz", "out.parquet"),
    "against": (False, True),
    "into": (False, True),
}


def is_allowed(options: Combination) -> bool:
    """Whether `deduplicate` takes the combination at all; a report is JSON lines."""
    if options["mode"] == "report-only" and ".jsonl" not in options["output"]:
        return False
    return not (options["by"] == "simhash" and options["exact"])


COMBINATIONS = pairwise(OPTIONS, is_allowed)


class Judged:
    """A corpus in a folder, and what must stay of it."""

    def __init__(self, folder: Path, options: Combination, seed: int) -> None:
        self.options, self.folder = options, folder
        self.documents = made_up(150, seed)
        self.stored = [row._replace(id=f"s{row.id}") for row in self.documents[3::17]]
        shards = cut(self.documents, options["shards"], seed)
        self.paths = write_shards(folder, shards, options["format"], options["packing"], seed)
        config = Config(simhash=SimHashConfig(3)) if options["by"] == "simhash" else Config()
        alike = within_bits(self.documents, 3, config) if options["by"] == "simhash" else same_family
        self.others = {}
        for name in ("against", "into"):
            if options[name]:
                self.others[name] = folder / f"{name}.simindex"
                keep = 64 if options["exact"] else 0
                stored_config = Config(simhash=config.simhash, keep_shingles=keep)
                with simindex.open(self.others[name], "x", stored_config) as index:
                    index.insert_many((row.id, row.text) for row in self.stored)
        self.files_before = self.files_of_against()
        stored = self.stored if self.others else []
        self.kept = star(self.documents, alike, options["keep"], stored)
        self.alike = alike

    def files_of_against(self) -> dict[Path, bytes]:
        files = self.folder.glob("against.simindex/*")
        return {path: path.read_bytes() for path in files if "lock" not in path.name}

    def check(self, counts: dict[str, Any]) -> None:
        """Compare output, report, counts and indexes with what brute force says."""
        assert self.files_of_against() == self.files_before
        rows, kept = {row.id: row for row in self.documents}, self.kept
        assert (counts["read"], counts["kept"]) == (len(rows), len(kept))
        assert counts["removed"] == len(rows) - len(kept)
        output = self.folder / self.options["output"]
        mode = self.options["mode"]
        report = output if mode == "report-only" else self.folder / f"{output.name}.dedup" / "removed.jsonl"
        removed = read_rows(report)
        assert [row["id"] for row in removed] == [id_ for id_ in rows if id_ not in kept]
        known = rows | {row.id: row for row in self.stored}
        for row in removed:
            assert self.alike(known[row["id"]], known[row["duplicate_of"]]), row
            assert row["duplicate_of"] in kept or row["duplicate_of"] not in rows
        if mode == "remove":
            found = read_rows(output)
            assert [row["id"] for row in found] == [id_ for id_ in rows if id_ in kept]
            assert all(
                (row["text"], row["rank"]) == (rows[row["id"]].text, rows[row["id"]].rank) for row in found
            )
        elif mode == "annotate":
            found = read_rows(output)
            assert [row["id"] for row in found] == list(rows)
            of_removed = {row["id"]: row["duplicate_of"] for row in removed}
            assert {row["id"]: row["duplicate_of"] for row in found if row["duplicate_of"]} == of_removed
            for row in found:
                named = row["id"] if row["id"] in kept else row["duplicate_of"]
                cluster = list(rows).index(named) if named in rows else ""
                assert str("" if row["cluster"] is None else row["cluster"]) == str(cluster)
        if self.options["into"]:
            with simindex.open(self.others["into"], "r") as index:
                assert set(index) == kept | {row.id for row in self.stored}


def arguments_of(judged: Judged) -> dict[str, Any]:
    """The same job for `deduplicate`, which explains, too."""
    options = judged.options
    names = ("keep", "mode", "by", "exact", "explain", "workers")
    size = {} if options["batch_size"] is None else {"batch_size": options["batch_size"]}
    return dedup_arguments(**{name: options[name] for name in names} | size, **judged.others)


def command_of(judged: Judged) -> list[object]:
    options = judged.options
    arguments: list[object] = ["dedup", *judged.paths, "-o", judged.folder / options["output"]]
    arguments += ["--threshold", THRESHOLD] if options["by"] == "minhash" else ["--by", "simhash"]
    arguments += ["--keep", options["keep"], "--mode", options["mode"], "--workers", options["workers"]]
    for name, path in judged.others.items():
        arguments += [f"--{name}", path]
    if options["batch_size"] is not None:
        arguments += ["--batch-size", options["batch_size"]]
    return [*arguments, *["--exact"] * options["exact"], "--json"]


def run_in(run: Run, folder: Path, options: Combination, seed: int) -> None:
    judged = Judged(folder, options, seed)
    if options["explain"]:
        report = deduplicate(judged.paths, folder / options["output"], THRESHOLD, **arguments_of(judged))
        judged.check(report._asdict())
        return
    ran = run(*command_of(judged))
    assert ran.code == 0, ran.err
    judged.check(json.loads(ran.out))


def test_the_families_are_what_jaccard_says() -> None:
    documents = made_up(150, 1)
    shingles = [frozenset(word_shingles(row.text.split(), 3)) for row in documents]
    for a, first in enumerate(documents):
        for b, second in enumerate(documents[:a]):
            similarity = jaccard(shingles[a], shingles[b])
            assert similarity > 0.9 if same_family(first, second) else similarity < 0.1


@pytest.mark.parametrize("number", range(len(COMBINATIONS)))
def test_dedup_keeps_what_brute_force_keeps(run: Run, tmp_path: Path, number: int) -> None:
    run_in(run, tmp_path, COMBINATIONS[number], number)


PARAGRAPHS: dict[str, tuple[Any, ...]] = {
    name: OPTIONS[name] for name in ("shards", "format", "packing", "batch_size", "workers", "output")
}
OF_PARAGRAPHS = pairwise(PARAGRAPHS, lambda _: True)


@pytest.mark.parametrize(
    "number", sample_of(range(0, len(OF_PARAGRAPHS), 2), range(1, len(OF_PARAGRAPHS), 2))
)
def test_dedup_by_paragraphs_keeps_what_brute_force_keeps(run: Run, tmp_path: Path, number: int) -> None:
    options = OF_PARAGRAPHS[number]
    parts = made_up(150, number)
    rows = [
        parts[at]._replace(text="\n".join(part.text for part in parts[at : at + 3]))
        for at in range(0, 150, 3)
    ]
    paths = write_shards(
        tmp_path, cut(rows, options["shards"], number), options["format"], options["packing"], number
    )
    arguments: list[object] = ["--level", "paragraph", "--workers", options["workers"]]
    if options["batch_size"] is not None:
        arguments += ["--batch-size", options["batch_size"]]
    ran = run("dedup", *paths, "-o", tmp_path / options["output"], *arguments)
    assert ran.code == 0, ran.err
    kept = star(parts, same_family, "first")
    left = {
        row.id: "\n".join(part.text for part in parts[3 * at : 3 * at + 3] if part.id in kept)
        for at, row in enumerate(rows)
    }
    found = [(row["id"], row["text"]) for row in read_rows(tmp_path / options["output"])]
    assert found == [(id_, text) for id_, text in left.items() if text]


@pytest.mark.parametrize(
    "number",
    sample_of(range(0, len(COMBINATIONS), 12), (n for n in range(0, len(COMBINATIONS), 4) if n % 12)),
)
def test_dedup_goes_on_to_the_same_bytes(tmp_path: Path, number: int) -> None:
    """Broken off three times in the second reading, and gone on with by other batches and workers."""
    options = COMBINATIONS[number] | {"into": False}
    judged = Judged(tmp_path, options, number)
    how: dict[str, Any] = {name: options[name] for name in ("mode", "keep", "exact", "explain", "by")}
    how |= {name: path for name, path in judged.others.items() if name == "against"}
    whole, broken = tmp_path / "whole" / options["output"], tmp_path / "broken" / options["output"]
    for path in (whole, broken):
        path.parent.mkdir()
    deduplicate(judged.paths, whole, **dedup_arguments(**how))
    dice = random.Random(number)
    for until in sorted(dice.sample(range(1, 150), 3)):
        with pytest.raises(KeyboardInterrupt):
            deduplicate(
                judged.paths,
                broken,
                **dedup_arguments(
                    **how,
                    progress=stopping_at(until),
                    batch_size=dice.choice([1, 7, 20]),
                    workers=dice.choice([1, 2]),
                ),
            )
    report = deduplicate(judged.paths, broken, **dedup_arguments(**how))
    assert (report.read, report.kept) == (150, len(judged.kept))
    for name in (options["output"], f"{options['output']}.dedup/removed.jsonl"):
        assert (broken.parent / name).exists() == (whole.parent / name).exists()
        if (whole.parent / name).exists():
            assert (broken.parent / name).read_bytes() == (whole.parent / name).read_bytes()


DRAWN = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in OPTIONS.items()}).filter(
    is_allowed
)


@pytest.mark.long
@settings(
    max_examples=settings().max_examples // 8,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # each has a folder of its own
)
@given(options=DRAWN, seed=st.integers(0, 1_000))
def test_dedup_keeps_what_brute_force_keeps_in_any_combination(
    run: Run, tmp_path_factory: pytest.TempPathFactory, options: Combination, seed: int
) -> None:
    run_in(run, tmp_path_factory.mktemp("drawn"), options, seed)
