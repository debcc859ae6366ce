"""The figures of docs/performance.md and README.md: all of them come from the runs that docs/bench keeps.

`tools/bench --render` makes each block of a page between `<!-- bench: NAME -->` and `<!-- end -->` of these
runs, and the pictures. A test compares pages, pictures and runs.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tables import (
    build_table,
    corpus_table,
    figure,
    match_tables,
    memory_table,
    minhash_table,
    simhash_table,
    table,
    upkeep_table,
    weeks_table,
)

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "docs" / "bench"
PAGES = [ROOT / "README.md", ROOT / "docs" / "performance.md", ROOT / "docs" / "limits.md"]
PICTURES = ROOT / "docs" / "images"
TELLING_DOCUMENTS = 100_000
"""Peers that index fewer are timed for too short to be compared."""

BESIDE = {
    "gaoya": "gaoya",
    "Lance": "Lance",
    "rensa": "rensa (`RMinHash.from_token_sets`)",
    "datasketch (xxh32)": "datasketch 2",
}
"""The peers of the sentence on speed: how their names begin, and what the sentence calls them."""

NOT_MEASURED = "No run has measured this.\n"

_BLOCK = re.compile(r"(<!-- bench: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Results = dict[str, Any]


def load_runs(folder: Path = RUNS) -> dict[str, Results]:
    """Return the runs of a folder by their names."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def joined(runs: dict[str, Results]) -> Results:
    """Return the jobs of all runs, and the runs as "runs". Raises ValueError if two have the same job."""
    results: Results = {"runs": runs}
    came_from: dict[str, str] = {}
    for name, run in runs.items():
        for job, found in run.items():
            if job in ("machine", "command", "seconds") or not found:
                continue
            if job in came_from:
                raise ValueError(f"expected {job} in one run, found it in {came_from[job]} and {name}")
            came_from[job], results[job] = name, found
    return results


def render(text: str, results: Results) -> str:
    """Return a page with its blocks made anew; of jobs that no run has, NOT_MEASURED."""

    def made(block: re.Match[str]) -> str:
        try:
            content = BLOCKS[block[2]](results)
        except (KeyError, IndexError, StopIteration):
            content = NOT_MEASURED
        return f"{block[1]}{content.rstrip()}\n{block[3]}"

    return _BLOCK.sub(made, text)


def tables_of(run: Results) -> str:
    """Return the tables that a run is enough for, as they are on the pages."""
    blocks = (f"<!-- bench: {name} -->\n<!-- end -->\n" for name in BLOCKS if name not in _OF_PAGES)
    made = (render(block, joined({"bench": run})) for block in blocks)
    return "\n".join(block for block in made if NOT_MEASURED not in block)


def digest(folder: Path = RUNS) -> str:
    """Return what stands in each picture: of which runs it was made."""
    content = b"".join(path.read_bytes() for path in sorted(folder.glob("*.json")))
    return hashlib.sha256(content).hexdigest()


def publish(run: Results, name: str) -> None:
    """Keep a run, and render the pages and pictures."""
    RUNS.mkdir(exist_ok=True)
    (RUNS / f"{name}.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    render_all()


def render_all() -> None:
    """Write the pages and pictures anew."""
    import pictures

    results = joined(load_runs())
    for page in PAGES:
        page.write_text(render(page.read_text(encoding="utf-8"), results), encoding="utf-8")
    pictures.draw(results, PICTURES, digest())


def _runs_block(results: Results) -> str:
    lines, machines = [], []
    for name, run in results["runs"].items():
        machine = run["machine"]
        computer = f"{machine['processor']}, {machine['cores']} cores, {machine['system']}"
        machines.append(f"{computer}, Python {machine['python']}")
        lines.append(
            f"* [{name}](bench/{name}.json): {machine['date']}, commit {machine['commit']}, "
            f"`{run['command']}`"
        )
    peers = [peer for kind in ("peers", "simhash_peers", "matched_peers") for peer in results.get(kind, [])]
    versions = sorted({version for peer in peers for version in peer["version"].split(", ")})
    lines.append(f"* Machine: {'; '.join(sorted(set(machines)))}.")
    return "\n".join([*lines, f"* Peers: {', '.join(versions)}."])


def _ours(results: Results, documents: int) -> Results:
    ours: Results = next(build for build in results["builds"] if build["documents"] == documents)
    return ours


def _speed_block(results: Results) -> str:
    """The sentence of README: text to a durable index beside the peers, and a query."""
    peers = {
        shown: peer
        for begin, shown in BESIDE.items()
        for peer in results["peers"]
        if peer["name"].startswith(begin)
    }
    documents = next(iter(peers.values()))["documents"]
    ours = _ours(results, documents)
    rate = ours["documents_a_second"]
    ratios = [f"{rate / peer['documents_a_second']:.1f} times {name}" for name, peer in peers.items()]
    run = next(run for run in results["runs"].values() if run.get("peers"))
    caveat = "" if documents >= TELLING_DOCUMENTS else " Too short a run, on a busy machine, to compare by."
    return (
        f"One core, {documents:,} texts of a thousand characters, {run['machine']['date']}: {rate:,.0f} a "
        f"second become a durable index, {', '.join(ratios[:-1])} and {ratios[-1]}; a query from text takes "
        f"{ours['inserted']['median_us']:.0f} us.{caveat} [All figures](docs/performance.md), "
        "targets missed too.\n"
    )


def _peers_block(results: Results) -> str:
    builds = sorted(results["builds"], key=lambda build: build["documents"])
    own = results["sketch"]
    return (
        minhash_table(builds, results.get("peers", []))
        + f"\n`sketch_many` alone: {own['documents_a_second']:,.0f} documents/s "
        f"({own['slowest']:,.0f} to {own['fastest']:,.0f}).\n"
    )


def _growth_block(results: Results) -> str:
    lines = build_table(sorted(results["builds"], key=lambda build: build["documents"]))
    two, kept = results["workers"], results["kept"]
    bare, kept_bytes = kept["bytes_a_document"].values()
    return (
        f"{lines}\nTwo sketching threads insert {two['ratios'][0]:.2f} to {two['ratios'][-1]:.2f} times as "
        f"fast as one. With `keep_shingles={kept['keep']}` inserts go at {kept['ratio']:.2f} of the rate, "
        f"and a document takes {kept_bytes:,.0f} bytes in place of {bare:,.0f}.\n"
    )


def _targets_block(results: Results) -> str:
    """Targets with what was measured; `missed` where the worst figure misses."""
    builds = results["builds"]
    largest = max(builds, key=lambda build: build["documents"])
    middle = _ours(results, results["peers"][0]["documents"])
    single = [build["single_insert"]["median_ratio"] for build in builds]
    tails = [build["inserted"]["p99_us"] / build["inserted"]["median_us"] for build in builds]
    beyond = [run["growth"][-1]["documents_a_second"] for run in beyond_runs(results)]
    rows: list[tuple[str, list[float], float, int, bool]] = [
        ("text to a durable index, documents/s", [middle["documents_a_second"]], 250_000, 0, True),
        ("single insert, of a bare commit", single, 1.7, 2, False),
        ("p99 of a query, of the median", tails, 4, 1, False),
        ("inserts with two threads, of one", [results["workers"]["ratio"]], 1.7, 2, True),
        ("bytes a document, compacted", [largest["disk_bytes_a_document"]], 500, 0, False),
    ]
    if beyond:
        rows.append(("inserts beyond the memory, one thread, documents/s", beyond[:1], 100_000, 0, True))
    lines = []
    for name, values, target, digits, at_least in rows:
        met = min(values) >= target if at_least else max(values) <= target
        measured = figure(min(values), digits)
        if figure(max(values), digits) != measured:
            measured += f" to {figure(max(values), digits)}"
        bound = f"at {'least' if at_least else 'most'} {target:,}"
        lines.append([name, bound, measured, "met" if met else "**missed**"])
    return table(["target", "", "measured", ""], lines)


def beyond_runs(results: Results) -> list[Results]:
    """Return the runs of the job beyond, one for each number of workers."""
    return [run for name, run in results.items() if name.startswith("beyond") and run]


def _estimate_block(_: Results) -> str:
    command = [sys.executable, str(ROOT / "tools" / "estimate")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


BLOCKS: dict[str, Callable[[Results], str]] = {
    "runs": _runs_block,
    "speed": _speed_block,
    "peers": _peers_block,
    "simhash": lambda results: simhash_table(results["simhash"], results.get("simhash_peers", [])),
    "growth": _growth_block,
    "matches": lambda results: match_tables(results["matches"], results["matched_peers"]),
    "memory": lambda results: memory_table(beyond_runs(results)),
    "corpus": lambda results: corpus_table([results["dedup_1"], results["dedup_2"]]),
    "upkeep": lambda results: upkeep_table(results["upkeep"]),
    "weeks": lambda results: weeks_table(results["weeks"]),
    "estimate": _estimate_block,
    "targets": _targets_block,
}

_OF_PAGES = {"runs", "speed", "estimate", "targets"}
"""Blocks that are more than what a run measured."""


if __name__ == "__main__":
    render_all()
