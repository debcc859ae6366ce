"""Stages, over Ray and as processes, beside one process: the figures of docs/scaleout.md, in short pieces.

Owns the job `scaleout` and the nodes that it runs on: processes of this machine. Called by jobs.py. Rates
are over wall time, of rounds by turns where two are compared; all of them are given.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import corpus
import uniform

import simindex
from simindex import scaleout
from simindex.corpus import deduplicate

Result = TypeVar("Result")

BATCH = 1_000
PARTITIONS = 8
STORE_BYTES = 400 << 20
_QUIET: dict[str, Any] = {"include_dashboard": False, "object_store_memory": STORE_BYTES}
_ENVIRONMENT = {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}


@contextmanager
def ray_nodes(*cores: int) -> Iterator[list[str]]:
    """Ray with a node on each of these cores, head and driver on the first; yields the nodes' places."""
    os.environ.update(_ENVIRONMENT)
    import ray
    from ray.cluster_utils import Cluster

    folder, before = tempfile.mkdtemp(prefix="r", dir="/tmp"), os.sched_getaffinity(0)
    os.environ["RAY_TMPDIR"] = folder  # sockets have short names, and the address is found by nobody else
    os.sched_setaffinity(0, {cores[0]})
    head = {"num_cpus": 0, "temp_dir": f"{folder}/ray"} | _QUIET
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        places = [f"simindex:{number}" for number in range(len(cores))]
        for core, place in zip(cores, places, strict=True):
            os.sched_setaffinity(0, {core})
            cluster.add_node(num_cpus=1, resources={place: 1}, **_QUIET)
        os.sched_setaffinity(0, {cores[0]})
        ray.init(address=cluster.address, namespace="simindex", log_to_driver=False, logging_level=40)
        yield places
    finally:
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]
        os.sched_setaffinity(0, before)
        shutil.rmtree(folder, ignore_errors=True)


def restoring(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """An index of made-up sketches backed up to a store that is a folder, and restored: bytes, and bytes a
    second of processor time."""
    count, store = options["sketches"] // uniform.BATCH * uniform.BATCH, folder / "store"
    config = simindex.Config(seed=1)
    with simindex.open(folder / "index", "x", config) as index:
        for first in range(0, count, uniform.BATCH):
            index.insert_many(enumerate(uniform.sketches(config, first), first))
        began = time.process_time()
        index.backup(f"file://{store}")
    between = time.process_time()
    simindex.restore(store, folder / "restored")
    used = {"backup": between - began, "restore": time.process_time() - between}
    num_bytes = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    rates = {f"{name}_bytes_a_second": num_bytes / seconds for name, seconds in used.items()}
    return {"documents": count, "bytes": num_bytes, **rates}


def deduplicating(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """A corpus deduplicated by two nodes of one core each, by turns with one core of one machine; lines in,
    lines out, in seconds."""
    cores, source, output = sorted(os.sched_getaffinity(0)), folder / "in.jsonl", folder / "out.jsonl"
    with source.open("w", encoding="utf-8") as file:
        texts = corpus.documents(options["documents"])
        file.writelines(json.dumps({"id": key, "text": text}) + "\n" for key, text in texts)
    jobs: dict[str, Callable[..., Any]] = {
        "one_core": partial(deduplicate, workers=1),
        "two_nodes": partial(scaleout.deduplicate, work=folder / "work"),
    }
    found: dict[str, Any] = {name: [] for name in jobs}
    written = set()
    with ray_nodes(cores[0], cores[-1]):
        for _ in range(options["rounds"]):
            for name, job in jobs.items():
                start = time.perf_counter()
                job(source, output, 0.8)
                found[name].append(time.perf_counter() - start)
                with output.open("rb") as file_written:
                    written.add(hashlib.file_digest(file_written, "blake2b").hexdigest())
                output.unlink()
                shutil.rmtree(f"{output}.dedup")
    return {"documents": options["documents"], "are_the_same": len(written) == 1, **found}


def stages(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """The same by the stages of the command line, two processes at a time, beside one process with one
    worker: seconds, and processor seconds, which other programs do not change; of a stage those of the
    process that needed most, as if each had a core."""
    source, found = folder / "in.jsonl", list[dict[str, Any]]()
    with source.open("w", encoding="utf-8") as file:
        texts = corpus.documents(options["documents"])
        file.writelines(json.dumps({"id": key, "text": text}) + "\n" for key, text in texts)
    for turn in range(options["rounds"]):
        one, many, work = (str(folder / f"{turn}-{name}") for name in ("one.jsonl", "many.jsonl", "work"))
        round_ = {"one": _processes(["dedup", str(source), "-o", one, "--workers", "1"])}
        planned = ["scaleout", "plan", str(source), "-o", many, "--work", work, "--parallel", "2"]
        round_["plan"] = _processes(planned)
        for name, count in (("sketch", 2), ("compare", 2), ("decide", 1), ("write", 2), ("finish", 1)):
            stage = ["scaleout", "stage", name, work]
            round_[name] = _processes(*([*stage, f"{share}/{count}"] for share in range(1, count + 1)))
        wall, needed = (sum(each[at] for name, each in round_.items() if name != "one") for at in (0, 1))
        ratios = {"ratio": round_["one"][0] / wall, "ratio_by_processor_time": round_["one"][1] / needed}
        found.append(round_ | ratios | {"are_the_same": filecmp.cmp(one, many, shallow=False)})
    return {"documents": options["documents"], "rounds": found}


def _processes(*commands: list[str]) -> tuple[float, float]:
    """Run commands at once; returns seconds, and processor seconds of the one that needed most."""
    began, most = time.perf_counter(), 0.0
    # An installed package is there as bytecode.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    children = [
        subprocess.Popen([sys.executable, "-P", "-m", "simindex.cli", *command], env=env)
        for command in commands
    ]
    for child, command in zip(children, commands, strict=True):
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise RuntimeError(f"{command}: expected exit code 0, found {child.returncode}")
        most = max(most, used.ru_utime + used.ru_stime)
    return time.perf_counter() - began, most


PIECES = {piece.__name__: piece for piece in (*(restoring, deduplicating, stages),)}


def scaled(options: dict[str, Any]) -> dict[str, Any]:
    """One piece of it."""
    folder = Path(tempfile.mkdtemp(prefix="simindex-bench-", dir=options.get("folder")))
    try:
        return PIECES[options["piece"]](folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
