"""The benchmark: every job in a process of its own, then tables (Markdown, JSON) and pictures.

Owns which jobs run and how results are shown; the jobs are in jobs.py, the peers in peers/.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import page
import peers
import pictures

import simindex

HERE = Path(__file__).resolve().parent

SCALED: dict[str, dict[str, Any]] = {
    "sharing": {"documents": 40_000, "rounds": 3, "batches": [100, 1_000]},
    "parts": {"documents": 200_000, "questions": 10_000, "rounds": 3, "numbers": [1, 5, 40]},
    "replicas": {"documents": 100_000, "questions": 10_000, "rounds": 3},
    "restoring": {"sketches": 2_200_000},
    "deduplicating": {"documents": 1_000_000, "rounds": 2},
    "stages": {"documents": 3_000_000, "rounds": 2},
}
"""Pieces of the job scaleout with their sizes."""


def run(job: str, options: dict[str, Any], note: str) -> dict[str, Any] | None:
    """Run a job in a new process; None, with the reason on stderr, where it fails."""
    print(f"{note} ...", file=sys.stderr, flush=True)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(HERE / "jobs.py"), job, json.dumps(options)],
        capture_output=True,
        text=True,
        env=os.environ | peers.ONE_THREAD,
        check=False,
    )
    print(f"    {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    if done.returncode:
        print("    failed: " + (done.stderr.strip().splitlines() or ["no message"])[-1], file=sys.stderr)
        return None
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def machine() -> dict[str, Any]:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    git = ["git", "-C", str(HERE.parents[1])]
    commit, changed = (
        subprocess.run([*git, *command], capture_output=True, text=True, check=False).stdout.strip()
        for command in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "simindex", "tools"])
    )
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": (commit or "unknown") + (", changed" if changed else ""),
        "processor": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "simindex": simindex.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--output", type=Path, default=Path("bench-results"), help="folder of tables and pictures"
    )
    parser.add_argument(
        "--documents", type=int, nargs="+", default=[100_000], help="sizes of the collections"
    )
    parser.add_argument(
        "--peer-documents", type=int, nargs="+", help="sizes for the peers (default: the smallest)"
    )
    parser.add_argument("--fingerprints", type=int, default=1_000_000)
    parser.add_argument("--beyond", type=int, default=6_000_000, help="made-up sketches of job beyond")
    parser.add_argument("--memory", type=int, default=1 << 30, help="bytes of memory of job beyond")
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[1], help="of the inserts of job beyond: a run with each"
    )
    parser.add_argument("--no-compact", action="store_true", help="job beyond ends as inserted")
    parser.add_argument(
        "--scaled", nargs="+", default=list(SCALED), choices=list(SCALED), help="pieces of job scaleout"
    )
    parser.add_argument("--seconds", type=int, default=360, help="of job weeks")
    parser.add_argument("--rounds", type=int, default=9, help="of job matches, whose best time counts")
    parser.add_argument("--peers", nargs="*", help="class names out of peers/; none: no peers")
    parser.add_argument(
        "--only",
        nargs="*",
        help="jobs out of sketch build peers simhash beyond matches dedup scaleout upkeep weeks; "
        "without it the first four",
    )
    parser.add_argument("--quick", action="store_true", help="10,000 documents")
    parser.add_argument(
        "--publish", metavar="NAME", help="keep the run as docs/bench/NAME.json, and render the pages of it"
    )
    parser.add_argument("--render", action="store_true", help="measure nothing, render pages and pictures")
    arguments = parser.parse_args()
    if arguments.render:
        page.render_all()
        return
    if arguments.quick:
        arguments.documents, arguments.fingerprints = [10_000], 100_000
    wanted = set(arguments.only or ["sketch", "build", "peers", "simhash"])
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    base = {"folder": str(output.resolve())}
    results: dict[str, Any] = {
        "machine": machine(),
        "command": shlex.join(["tools/bench", *sys.argv[1:]]),
        "builds": [],
        "peers": [],
        "simhash": [],
        "simhash_peers": [],
    }

    if "sketch" in wanted:
        results["sketch"] = run("sketch", base | {"documents": 50_000}, "sketches of 50,000 documents")
    if "build" in wanted:
        for count in arguments.documents:
            built = run("build", base | {"documents": count}, f"simindex, {count:,} documents")
            results["builds"] += [built] if built else []
        smallest = arguments.documents[0]
        for job, note in (("workers", "with two workers"), ("kept", "with kept shingles")):
            results[job] = run(job, base | {"documents": smallest}, note)
    if "peers" in wanted:
        names = arguments.peers
        for kind in peers.usable(peers.MINHASH_PEERS):
            if names is not None and kind.__name__ not in names:
                continue
            for count in arguments.peer_documents or arguments.documents[:1]:
                found = run(
                    "peer", base | {"documents": count, "peer": kind.__name__}, f"{kind.name}, {count:,}"
                )
                results["peers"] += [found | {"documents": count}] if found else []
    if "simhash" in wanted:
        count = arguments.fingerprints
        own = run("simhash", base | {"documents": count}, f"simindex, {count:,} fingerprints")
        results["simhash"] += [own | {"documents": count}] if own else []
        for kind in peers.usable(peers.SIMHASH_PEERS):
            if arguments.peers is not None and kind.__name__ not in arguments.peers:
                continue
            found = run(
                "simhash_peer", base | {"documents": count, "peer": kind.__name__}, f"{kind.name}, {count:,}"
            )
            results["simhash_peers"] += [found | {"documents": count}] if found else []
    if "dedup" in wanted:
        for workers in (1, 2):
            size = {"documents": arguments.documents[-1], "workers": workers}
            results[f"dedup_{workers}"] = run("dedup", base | size, f"dedup, {workers} workers")
    if "beyond" in wanted:
        size = {
            "documents": arguments.beyond,
            "memory_bytes": arguments.memory,
            "compact": not arguments.no_compact,
        }
        for workers in arguments.workers:
            note = f"{arguments.beyond:,} in {arguments.memory:,} bytes, {workers} workers"
            name = "beyond" if workers == arguments.workers[0] else f"beyond_{workers}"
            results[name] = run("beyond", base | size | {"workers": workers}, note)
    if "matches" in wanted:
        size = {"documents": arguments.documents[0], "rounds": arguments.rounds}
        results["matches"] = run("matches", base | size, f"matches of {size['documents']:,}")
        results["matched_peers"] = []
        for kind in peers.usable(peers.MINHASH_PEERS):
            if arguments.peers is None or kind.__name__ in arguments.peers:
                found = run("matched_peer", base | size | {"peer": kind.__name__}, kind.name)
                results["matched_peers"] += [found] if found else []
    if "scaleout" in wanted:
        for piece in arguments.scaled:
            size = base | SCALED[piece] | {"piece": piece}
            results[f"scaleout_{piece}"] = run("scaled", size, f"over Ray: {piece}")
    if "upkeep" in wanted:
        count = arguments.documents[-1] // 2
        results["upkeep"] = run("upkeep", base | {"documents": count}, f"maintenance of {count:,}")
    if "weeks" in wanted:
        size = {"documents": 50_000, "seconds": arguments.seconds}
        results["weeks"] = run("weeks", base | size, f"small changes for {arguments.seconds} s")
    write(results, output)
    if arguments.publish:
        page.publish(results, arguments.publish)


def write(results: dict[str, Any], output: Path) -> None:
    """Keep the figures, draw the pictures that they are enough for, and print such tables of the pages."""
    (output / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    (output / "bench.md").write_text(page.tables_of(results))
    pictures.draw(results, output)
    print(page.tables_of(results))


if __name__ == "__main__":
    main()
