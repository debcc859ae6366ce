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
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import corpus
import uniform

import simindex
from simindex import scaleout
from simindex.corpus import DedupSettings, deduplicate

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
        names = [f"simindex:{number}" for number in range(len(cores))]
        for core, name in zip(cores, names, strict=True):
            os.sched_setaffinity(0, {core})
            cluster.add_node(num_cpus=1, resources={name: 1}, **_QUIET)
        os.sched_setaffinity(0, {cores[0]})
        ray.init(address=cluster.address, namespace="simindex", log_to_driver=False, logging_level=40)
        yield names
    finally:
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]
        os.sched_setaffinity(0, before)
        shutil.rmtree(folder, ignore_errors=True)


def used_seconds(pid: int) -> float:
    """Processor seconds that a process has used so far."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


class Driver:
    """Inserts texts of its own into a shared index, as an actor: a process of its own."""

    def __init__(self, path: str, number: int, count: int) -> None:
        self._index = scaleout.shared(path)
        self._items = [(f"{number} {key}", text) for key, text in corpus.documents(count, seed=number)]

    def insert(self, batch: int) -> tuple[float, int]:
        """Insert all; returns the processor seconds that it took here."""
        began = time.process_time()
        report = self._index.insert_many_if_new(self._items, batch_size=batch, workers=1)
        return time.process_time() - began, report.inserted


def sharing(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Two drivers that fill a shared index, by turns with one process: texts a second, and processor time of
    the process, of the owner and of the busier driver, in microseconds a text."""
    import ray

    count, found = options["documents"], dict[str, Any]()
    with ray_nodes(*sorted(os.sched_getaffinity(0))[:1]):
        for turn in range(options["rounds"]):
            for batch in options["batches"]:
                items = [item for n in (1, 2) for item in corpus.documents(count // 2, seed=n)]
                items = [(str(at), text) for at, (_, text) in enumerate(items)]
                rows = found.setdefault(f"batches of {batch}", [])
                with simindex.open(folder / f"one-{turn}-{batch}", "x") as one:
                    began = time.perf_counter(), time.process_time()
                    alone = one.insert_many_if_new(items, batch_size=batch, workers=1).inserted
                    used = time.perf_counter() - began[0], time.process_time() - began[1]
                path = str(folder / f"shared-{turn}-{batch}")
                index = scaleout.shared(path)
                actor: Any = ray.remote(num_cpus=0)(Driver)
                drivers = [actor.remote(path, number, count // 2) for number in (1, 2)]
                ray.get([driver.__ray_ready__.remote() for driver in drivers])
                index.insert_many_if_new([("first", ["for", "its", "imports"])])
                (owner,) = actors_of("Owner")
                before, start = used_seconds(owner), time.perf_counter()
                done = ray.get([driver.insert.remote(batch) for driver in drivers])
                wall, owned = time.perf_counter() - start, used_seconds(owner) - before
                assert sum(inserted for _, inserted in done) == alone
                rows.append(
                    {
                        "process_texts_a_second": count / used[0],
                        "shared_texts_a_second": count / wall,
                        "process_us_a_text": used[1] / count * 1e6,
                        "owner_us_a_text": owned / count * 1e6,
                        "driver_us_a_text": max(seconds for seconds, _ in done) / (count // 2) * 1e6,
                    }
                )
                index.stop()
    return found


def actors_of(name: str) -> list[int]:
    """The processes of actors of a class that this Ray has started."""
    mark, found = f"RAY_TMPDIR={os.environ['RAY_TMPDIR']}".encode(), list[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            title, own = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
            if title.startswith(f"ray::{name}".encode()) and mark in own:
                found.append(int(folder.name))
    return found


_SEEDS = {"match": 1, "no_match": 2}


def replicas(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Questions to replicas of a backup: microseconds of processor time of the replicas and of the driver."""
    with simindex.open(folder / "index", "x") as index:
        index.insert_many(corpus.documents(options["documents"]))
        index.backup(f"file://{folder / 'store'}")
    count, found = options["questions"], dict[str, Any]()
    texts = {name: [text for _, text in corpus.documents(count, seed=seed)] for name, seed in _SEEDS.items()}
    with ray_nodes(*sorted(os.sched_getaffinity(0))[:1]):
        copies = scaleout.replicas(str(folder / "store"), 2, cores=0, folder=str(folder))
        pids = actors_of("Replica")
        for kind, some in texts.items():
            for _ in range(options["rounds"] + 1):
                before = sum(map(used_seconds, pids)), time.process_time()
                copies.query_many(some)
                used = sum(map(used_seconds, pids)) - before[0], time.process_time() - before[1]
                found.setdefault(kind, []).append([each / len(some) * 1e6 for each in used])
        copies.stop()
    return found


def parts(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """The same documents in one part and in several: microseconds of processor time of a question."""
    count, questions = options["documents"], options["questions"]
    items = list(corpus.documents(count))
    found = dict[str, Any]()
    for number in options["numbers"]:
        several, each = list[simindex.Index](), -(-count // number)
        for at in range(number):
            several.append(simindex.open(folder / f"{number}-{at}", "x"))
            several[-1].insert_many(items[at * each : (at + 1) * each])
        for kind, seed in _SEEDS.items():
            texts = [text for _, text in corpus.documents(questions, seed=seed)]
            for _ in range(options["rounds"]):
                began = time.process_time()
                scaleout.merge_matches([index.query_many(texts, 0.8, 10, workers=1) for index in several], 10)
                used = (time.process_time() - began) / questions * 1e6
                found.setdefault(f"{number}, {kind}", []).append(used)
        for index in several:
            index.close()
    return found


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
        "one_core": partial(deduplicate, settings=DedupSettings(workers=1)),
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


PIECES = {piece.__name__: piece for piece in (sharing, replicas, parts, restoring, deduplicating, stages)}


def scaled(options: dict[str, Any]) -> dict[str, Any]:
    """One piece of it."""
    folder = Path(tempfile.mkdtemp(prefix="simindex-bench-", dir=options.get("folder")))
    try:
        return PIECES[options["piece"]](folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
