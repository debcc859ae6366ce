"""An index over Ray beside an index in the process: the figures of docs/scaleout.md, in short pieces.

Owns the job `scaleout` and the nodes that it runs on: processes of this machine. Called by jobs.py. Rates
are over wall time, of rounds by turns where two are compared; all of them are given.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import corpus
import uniform

import simindex
from simindex import Sketch, Sketcher, scaleout
from simindex.batching import bytes_of_item, in_parts
from simindex.corpus import deduplicate
from simindex.scaleout.actors import SHARE
from simindex.scaleout.index import UNDER_WAY
from simindex.scaleout.wire import Routing

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


@contextmanager
def one_node(places: Sequence[str] = ()) -> Iterator[None]:
    """Ray of one node with all cores, and with places."""
    os.environ.update(_ENVIRONMENT)
    import ray

    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    options = {"log_to_driver": False, "logging_level": 40, "namespace": "simindex", "_temp_dir": folder}
    ray.init(address="local", resources=dict.fromkeys(places, 1), **(_QUIET | options))
    try:
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def inserted(index: Any, items: Any, count: int | None = None) -> float:
    """Insert; returns documents a second."""
    count = len(items) if count is None else count
    start = time.perf_counter()
    index.insert_many(items, batch_size=BATCH)
    return count / (time.perf_counter() - start)


def answered(index: Any, documents: Sequence[Any]) -> float:
    """Ask; returns questions a second."""
    start = time.perf_counter()
    index.query_many(documents)
    return len(documents) / (time.perf_counter() - start)


def median_us(call: Callable[[Any], object], arguments: Sequence[Any]) -> float:
    seconds = []
    for argument in arguments:
        start = time.perf_counter()
        call(argument)
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[len(seconds) // 2] * 1e6


def anonymous_bytes(pid: int) -> int:
    """Memory of a process that no file is behind."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def asked(count: int) -> dict[str, list[str]]:
    """Texts that are stored, and texts that nothing is like."""
    stored = [text for _, text in corpus.documents(count)]
    return {"match": stored, "no_match": [text for _, text in corpus.documents(count, seed=2)]}


def beside(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """One node against an index in the process: inserting, asking many, asking one."""
    count = options["documents"]
    items, texts = list(corpus.documents(count)), asked(min(count, 20_000))
    names = ("inserting", "query_many_match", "query_many_no_match")
    found: dict[str, Any] = {name: {"process": [], "ray": []} for name in names}
    found["inserting"] |= {"bare_actor": [], "naive_actor": []}
    with one_node():
        for number in range(options["rounds"]):
            alone = simindex.open(folder / f"alone-{number}", "x")
            scaled = scaleout.create(folder / f"catalog-{number}", partitions=PARTITIONS)
            both: dict[str, Any] = {"process": alone, "ray": scaled}
            for name, index in both.items():
                done = inserted(index, items)
                found["inserting"][name].append(done)
            found["inserting"]["bare_actor"].append(thrown_away(scaled, items))
            found["inserting"]["naive_actor"].append(naively(folder / f"naive-{number}", items))
            for kind, those in texts.items():
                for name, index in both.items():
                    done = answered(index, those)
                    found[f"query_many_{kind}"][name].append(done)
            if number + 1 == options["rounds"]:
                singles = texts["match"][:500]
                found["one_query_us"] = {
                    "process": median_us(alone.query, singles),
                    "ray": median_us(scaled.query, singles),
                    "bare_call_of_ray": median_us(bare_call(), singles),
                }
            alone.close()
            scaled.stop()
    return found


class Bare:
    """An actor that does nothing."""

    def call(self, value: str) -> str:
        """Return what it is given."""
        return value

    def take(self, *_: object) -> None:
        """Throw away what is sent."""


class Naive:
    """An actor with an index that it inserts into as it comes."""

    def __init__(self, path: str) -> None:
        self._index = simindex.open(path, "x")

    def take(self, items: list[tuple[Any, ...]]) -> None:
        """Insert them."""
        self._index.insert_many(items)


def sent(batches: Iterator[list[Any]]) -> None:
    """Send batches by functions that do so, and wait for all; a few are under way at a time."""
    import ray

    under_way: deque[list[Any]] = deque()
    for references in batches:
        under_way.append(references)
        if len(under_way) > UNDER_WAY:
            ray.get(under_way.popleft())
    while under_way:
        ray.get(under_way.popleft())


def thrown_away(index: scaleout.ScaledIndex, items: list[tuple[Any, ...]]) -> float:
    """Send what the index would send, to bare actors at its places; returns documents a second."""
    import ray

    actors: dict[str, Any] = {
        place: ray.remote(num_cpus=0, resources={place: SHARE})(Bare).remote()
        for place in index.catalog.places
    }
    ray.get([actor.call.remote("") for actor in actors.values()])
    routing, size = Routing(index.catalog, Sketcher(index.config)), BATCH * len(index.catalog.partitions)

    def batches() -> Iterator[list[Any]]:
        for part in in_parts(items, size, bytes_of_item):
            routed = routing.items(part.values)
            yield [actors[place].take.remote(pickle.dumps(own, protocol=5)) for place, own in routed.items()]

    start = time.perf_counter()
    sent(batches())
    return len(items) / (time.perf_counter() - start)


def naively(path: Path, items: list[tuple[Any, ...]]) -> float:
    """Insert by an actor as its author would first write it; returns documents a second."""
    import ray

    actor: Any = ray.remote(num_cpus=0)(Naive).remote(str(path))
    ray.get(actor.take.remote([]))
    start = time.perf_counter()
    sent([actor.take.remote(items[at : at + BATCH])] for at in range(0, len(items), BATCH))
    return len(items) / (time.perf_counter() - start)


def bare_call() -> Callable[[str], Any]:
    """Return a call of such an actor."""
    import ray

    actor: Any = ray.remote(num_cpus=0)(Bare)
    handle = actor.remote()
    return lambda value: ray.get(handle.call.remote(value))


def nodes(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Two nodes of one core each, the driver on the core of the first, against the first alone: rates, and
    processor time of the busier core, in microseconds a document or question."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    count = options["documents"]
    items, texts = list(corpus.documents(count)), asked(min(count, 20_000))
    names = ("inserting", "query_many_match", "query_many_no_match")
    found: dict[str, Any] = {name: {"one": [], "two": []} for name in (*names, "bare_actors")}
    found["us_of_the_busier_core"] = {name: {"one": [], "two": []} for name in names}

    def noted(kind: str, name: str, own: int, job: Callable[[], float]) -> None:
        rate, used = counted(cores, job)
        found[kind][name].append(rate)
        found["us_of_the_busier_core"][kind][name].append(used / own * 1e6)

    with ray_nodes(*cores) as places:
        for number in range(options["rounds"]):
            for name, those in (("one", places[:1]), ("two", places)):
                home = folder / f"{name}-{number}"
                folders = {place: str(home / place[-1]) for place in those}
                home.mkdir()
                index = scaleout.create(home / "catalog", partitions=PARTITIONS, places=folders)
                noted("inserting", name, count, partial(inserted, index, items))
                found["bare_actors"][name].append(thrown_away(index, items))
                for kind, some in texts.items():
                    noted(f"query_many_{kind}", name, len(some), partial(answered, index, some))
                index.stop()
    return found


def memory(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Memory of driver and host as an index grows: documents are made as they are inserted."""
    found = {}
    with one_node(), scaleout.create(folder / "catalog", partitions=PARTITIONS) as index:
        (host,) = (of["pid"] for of in index.status().values())
        rest, done = corpus.documents(max(options["sizes"])), 0
        for size in sorted(options["sizes"]):
            index.insert_many(islice(rest, size - done), batch_size=BATCH)
            done = size
            inserted = {"driver": anonymous_bytes(os.getpid()), "host": anonymous_bytes(host)}
            for _ in range(4):
                index.query_many(text for _, text in corpus.documents(5_000))
            asked_too = {"driver": anonymous_bytes(os.getpid()), "host": anonymous_bytes(host)}
            found[str(size)] = {"inserted": inserted, "asked": asked_too}
        index.stop()
    return found


def partitions(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """What a query costs by the number of partitions of one host."""
    count, found = options["documents"], {}
    items, texts = list(corpus.documents(count)), asked(min(count, 20_000))
    with one_node():
        for number in options["numbers"]:
            index = scaleout.create(folder / f"catalog-{number}", partitions=number)
            index.insert_many(items, batch_size=BATCH)
            index.compact()
            rates = {
                kind: [answered(index, those) for _ in range(options["rounds"])]
                for kind, those in texts.items()
            }
            found[str(number)] = rates | {"one_query_us": median_us(index.query, texts["match"][:300])}
            index.stop()
    return found


def hosts(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """The driver's processor time for a query, by the number of hosts: all of them processes of this machine,
    so that what a query takes by the clock says nothing."""
    count, found = options["documents"], {}
    items, texts = list(corpus.documents(count)), asked(options["queries"])["match"]
    names = [f"simindex:{number}" for number in range(max(options["numbers"]))]
    with one_node(names):
        for number in options["numbers"]:
            own = {name: str(folder / f"{number}-{name.partition(chr(58))[2]}") for name in names[:number]}
            index = scaleout.create(folder / f"catalog-{number}", partitions=16, places=own)
            index.insert_many(items, batch_size=BATCH)
            rounds = list[tuple[float, float]]()
            for _ in range(options["rounds"]):
                began = time.process_time(), time.thread_time()
                for text in texts:
                    index.query(text)
                used = time.process_time() - began[0], time.thread_time() - began[1]
                rounds.append((used[0] / len(texts) * 1e3, used[1] / len(texts) * 1e3))
            found[str(number)] = {"driver_and_its_python_thread_ms_a_query": rounds}
            index.stop()
    return found


def made_up(count: int, begin: int = 0) -> Iterator[tuple[int, Sketch]]:
    for first in range(begin, begin + count, uniform.BATCH):
        yield from enumerate(uniform.sketches(simindex.Config(seed=1), first), first)


def hundred(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Made-up sketches in few and many partitions: queries from one partition to a hundred."""
    count, found = options["sketches"] // uniform.BATCH * uniform.BATCH, {}
    absent = [sketch for _, sketch in made_up(uniform.BATCH, begin=2**40)]
    stored = [sketch for _, sketch in made_up(uniform.BATCH)]
    with one_node():
        for number in options["numbers"]:
            config = simindex.Config(seed=1)
            index = scaleout.create(folder / f"catalog-{number}", config, partitions=number)
            inserting = inserted(index, made_up(count), count)
            found[str(number)] = {
                "documents": count,
                "inserting_with_making_up": inserting,
                "query_many_no_match": [answered(index, absent) for _ in range(options["rounds"])],
                "query_many_match": [answered(index, stored) for _ in range(options["rounds"])],
                "one_query_us": median_us(index.query, absent[:300]),
            }
            index.stop()
    return found


def let_go(source: Path) -> list[Path]:
    """Let the system forget what it has in memory of the files of a folder; returns them."""
    files = [file for file in source.rglob("*") if file.is_file()]
    for file in files:
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return files


def copied(source: Path, target: Path) -> float:
    """Copy the files of a folder, and sync each; returns seconds."""
    files, start = let_go(source), time.perf_counter()
    for file in files:
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
        with place.open("rb") as opened:
            os.fsync(opened.fileno())
    return time.perf_counter() - start


def restoring(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """A lost place restored from its store, beside a plain copy of the store's files."""
    count, uri, store = options["sketches"] // uniform.BATCH * uniform.BATCH, folder / "catalog", folder / "s"
    cores = sorted(os.sched_getaffinity(0))
    with ray_nodes(cores[0], cores[-1]) as (lost, left):
        config, places = simindex.Config(seed=1), {lost: str(folder / "lost")}
        index = scaleout.create(uri, config, partitions=4, places=places, store=str(store))
        index.insert_many(made_up(count), batch_size=10 * BATCH)
        scaleout.backup(uri)
        index.stop()
        shutil.rmtree(folder / "lost")
        num_bytes = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
        copying = copied(store, folder / "copy")
        shutil.rmtree(folder / "copy")
        let_go(store)
        start = time.perf_counter()
        reports = scaleout.restore(uri, lost, {left: str(folder / "left")})
        seconds = time.perf_counter() - start
    restored = sum(report.documents for report in reports.values())
    rates = {"copied_bytes_a_second": num_bytes / copying, "restored_bytes_a_second": num_bytes / seconds}
    return {"documents": restored, "bytes": num_bytes, **rates}


def used_seconds(pids: Sequence[int]) -> float:
    """Processor seconds that processes have used so far."""
    ticks = 0
    for pid in pids:
        with suppress(FileNotFoundError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def on_core(core: int) -> list[int]:
    """The processes that may run on this core alone: those of a node of `ray_nodes`."""
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit() and os.sched_getaffinity(int(name)) == {core}:
                found.append(int(name))
    return found


def counted(cores: Iterable[int], job: Callable[[], Result]) -> tuple[Result, float]:
    """Run a job; returns what it returns, and processor seconds of the busier core: of the processes that are
    there at the end."""
    began = {pid: used_seconds([pid]) for core in cores for pid in on_core(core)}
    done = job()
    return done, max(
        sum(used_seconds([pid]) - began.get(pid, 0.0) for pid in on_core(core)) for core in cores
    )


def replicas(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """One replica and two by turns, driver and all on the same cores: questions a second, and processor time
    of the replicas and of the driver a question."""
    texts, store = asked(options["queries"]), str(folder / "store")
    with simindex.open(folder / "index", "x") as index:
        index.insert_many(corpus.documents(options["documents"]))
    scaleout.backup_index(folder / "index", store)
    found: dict[str, Any] = {kind: {"one": [], "two": [], "us_a_question": []} for kind in texts}
    with one_node():
        several = {"one": scaleout.replicas(store, 1), "two": scaleout.replicas(store, 2)}
        pids = list({of["pid"] for _ in range(8) for of in several["two"].status().values()})
        for kind, some in texts.items():
            for number in range(options["rounds"] + 1):
                for name, copies in several.items():
                    began = used_seconds(pids), used_seconds([os.getpid()])
                    rate = answered(copies, some)
                    used = used_seconds(pids) - began[0], used_seconds([os.getpid()]) - began[1]
                    if number:  # the first round opens files and connections
                        found[kind][name].append(rate)
                        found[kind]["us_a_question"].append(
                            [name, *(each / len(some) * 1e6 for each in used)]
                        )
        several["two"].stop()
    return found


def building(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """An index built of lines by two nodes of one core each, by turns with one process with one worker: wall
    seconds, and processor seconds, of the busier core and of the process."""
    cores, source = sorted(os.sched_getaffinity(0)), folder / "in.jsonl"
    with source.open("w", encoding="utf-8") as file:
        texts = corpus.documents(options["documents"])
        file.writelines(json.dumps({"id": key, "text": text}) + "\n" for key, text in texts)
    found: dict[str, Any] = {"one_process": [], "two_nodes": []}
    with ray_nodes(cores[0], cores[-1]) as places:
        for number in range(options["rounds"]):
            one = ["insert", str(folder / f"one-{number}"), str(source), "--workers", "1"]
            found["one_process"].append(_processes(one))
            own = {place: str(folder / f"{number}-{place[-1]}") for place in places}
            uri = folder / f"catalog-{number}"
            scaleout.create(uri, partitions=PARTITIONS, places=own).close()
            began = time.perf_counter()
            _, used = counted({cores[0], cores[-1]}, partial(scaleout.build, str(source), uri))
            found["two_nodes"].append((time.perf_counter() - began, used))
            with scaleout.open(uri) as index:
                assert len(index) == options["documents"]
                index.stop()
    return {"documents": options["documents"], **found}


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


PIECES = {
    piece.__name__: piece
    for piece in (
        *(beside, nodes, memory, partitions, hosts, hundred),
        *(restoring, replicas, building, deduplicating, stages),
    )
}


def scaled(options: dict[str, Any]) -> dict[str, Any]:
    """One piece of it."""
    folder = Path(tempfile.mkdtemp(prefix="simindex-bench-", dir=options.get("folder")))
    try:
        return PIECES[options["piece"]](folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
