"""Ray for tests: of one node with little memory, and of several, processes of their own on this machine."""

import gc
import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import ray
from ray.cluster_utils import Cluster

# ---- rays ----

OPTIONS: dict[str, Any] = {
    "address": "local",
    "num_cpus": 2,
    "object_store_memory": 80 << 20,  # the least that Ray takes
    "include_dashboard": False,
    "log_to_driver": False,
    "logging_level": 40,
    "namespace": "simindex",
}


@contextmanager
def _folder() -> Iterator[str]:
    """Give Ray a folder of its own, and let it and its workers start in it.

    Names of sockets are 107 bytes at most, and the folders of tests are longer than that alone. Ray's workers
    import from the folder that it was started in: that must not be the checkout, whose simindex/ may have no
    compiled kernel. The address of a cluster is written below RAY_TMPDIR, where other tests must not find it.
    Ray's own niceness is the lowest priority, which starves hosts on a busy machine.
    """
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    options = {"RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": folder, "RAY_worker_niceness": "0"}
    try:
        with mock.patch.dict(os.environ, options), chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def one_node() -> Iterator[None]:
    """Ray on this machine, which ends whatever happens."""
    with _folder() as folder:
        try:
            ray.init(**OPTIONS, _temp_dir=folder)
            yield
        finally:
            ray.shutdown()
            gc.collect()  # Ray leaves handles of processes that it has ended, which warn


# ---- ray nodes ----

_NOTICES: dict[str, Any] = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 250,
    "health_check_failure_threshold": 3,
    "health_check_timeout_ms": 20_000,
}
"""Ray notices within a second that a node is gone, and takes no slow one for one that is."""


@contextmanager
def several_nodes(count: int) -> Iterator[Callable[[int], None]]:
    """A head without cores, and so many nodes of one core each, which end whatever happens. They have the
    resources "simindex:0", "simindex:1" and so on.

    Yields:
        A function that kills a node.
    """
    with _folder() as folder:
        yield from _running(f"{folder}/ray", count)


def _running(folder: str, count: int) -> Iterator[Callable[[int], None]]:
    few: dict[str, Any] = {"object_store_memory": 80 << 20, "include_dashboard": False}
    head = {"num_cpus": 0, "temp_dir": folder, "_system_config": _NOTICES} | few
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        nodes = [cluster.add_node(num_cpus=1, resources={f"simindex:{at}": 1}, **few) for at in range(count)]
        ray.init(address=cluster.address, namespace="simindex", log_to_driver=False, logging_level=40)

        def kill(at: int) -> None:
            (raylet,) = nodes[at].all_processes["raylet"]
            for pid in _with_descendants(raylet.process.pid):
                with suppress(ProcessLookupError):  # it has ended with its parent
                    os.kill(pid, signal.SIGKILL)
            cluster.remove_node(nodes[at], allow_graceful=False)

        yield kill
    finally:
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]
        gc.collect()  # Ray leaves handles of processes that it has ended, which warn


def _with_descendants(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            with suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, children.read_text().split())
    return found
