"""Ray, for tests: of one node, with little memory, in a folder with a short name; and its end."""

import contextlib
import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

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
def one_node() -> Iterator[None]:
    """Ray on this machine, which ends whatever happens."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    # Names of sockets are 107 bytes at most, and the folders of tests are longer than that alone.
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(**OPTIONS, _temp_dir=folder)
            yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


SOON: dict[str, Any] = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2_000,
    "health_check_failure_threshold": 4,
}
"""Lets Ray take note of a lost node within seconds."""


class Nodes:
    """A cluster on this machine: a head without cores, and nodes of one core each."""

    def __init__(self, cluster: Any, count: int) -> None:
        self._cluster = cluster
        self._nodes = [self._new() for _ in range(count)]

    def _new(self) -> Any:
        return self._cluster.add_node(num_cpus=1, object_store_memory=80 << 20)

    def kill_node(self) -> None:
        """Kill a node with all that runs on it, and let another one join."""
        lost = self._nodes.pop(0)
        self._nodes.append(self._new())
        self._cluster.remove_node(lost, allow_graceful=False)

    def kill_worker(self, name: str) -> bool:
        """Kill -9 a process of Ray with such a name; returns whether there was one."""
        for node in self._nodes:
            for raylet in node.all_processes["raylet"]:
                for process in _below(raylet.process.pid):
                    with contextlib.suppress(OSError):
                        if name in Path(f"/proc/{process}/cmdline").read_text():
                            os.kill(process, signal.SIGKILL)
                            return True
        return False


def _below(process: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]) == process:
                found.append(int(folder.name))
    return found


@contextmanager
def nodes(count: int) -> Iterator[Nodes]:
    """Ray of some nodes on this machine, which end whatever happens."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    head = {
        "num_cpus": 0,
        "object_store_memory": 80 << 20,
        "include_dashboard": False,
        "_system_config": SOON,
        "temp_dir": folder,
    }
    cluster = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cluster = Cluster(initialize_head=True, head_node_args=head)
            ray.init(address=cluster.address, namespace="simindex", log_to_driver=False, logging_level=40)
            yield Nodes(cluster, count)
    finally:
        ray.shutdown()
        if cluster is not None:
            cluster.shutdown()  # type: ignore[no-untyped-call]
        shutil.rmtree(folder, ignore_errors=True)
