"""Nodes of Ray on this machine that are killed and come back.

Owns which processes are a node's. Must not know what runs on them.
"""

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_worker_niceness", "0")  # or Ray takes minutes to start a process beside other work

import ray
from ray.cluster_utils import Cluster

PLACES = "simindex:a", "simindex:b"
STORE_BYTES = 80 << 20
STARTS = 5


class Nodes:
    """A Ray cluster on this machine: a head that only drives, and a node for each place.

    Args:
        head_cores: of the head; without any nothing of Ray's runs there.
        temporary: place -> the node's own folder of temporary files; default: that of this machine.
    """

    def __init__(self, head_cores: int = 1, temporary: Mapping[str, str] | None = None) -> None:
        quiet = {"include_dashboard": False, "num_cpus": head_cores, "object_store_memory": STORE_BYTES}
        self._temporary = dict(temporary or {})
        self._folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # names of sockets are short
        os.environ["RAY_TMPDIR"] = self._folder  # has the cluster's address: no other program is to find it
        head = {**quiet, "temp_dir": f"{self._folder}/ray"}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes: dict[str, Any] = {}
        for place in PLACES:
            self.start(place)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def start(self, place: str) -> None:
        own = {"TMPDIR": self._temporary[place]} if place in self._temporary else {}
        for attempt in range(STARTS):
            try:
                self._nodes[place] = self._cluster.add_node(
                    num_cpus=1,
                    resources={place: 1},
                    object_store_memory=STORE_BYTES,
                    wait=False,
                    env_vars=own,
                )
                return
            except Exception as exc:  # Ray gives a node half a minute to start, and has no type for it
                if "timed out during startup" not in str(exc) or attempt + 1 == STARTS:
                    raise

    def processes(self, place: str) -> list[int]:
        """Return all that a node has started."""
        (raylet,) = self._nodes[place].all_processes["raylet"]
        return descendants(raylet.process.pid)

    def kill(self, place: str) -> None:
        doomed = self.processes(place)
        node = self._nodes.pop(place)
        self._cluster.remove_node(node, allow_graceful=False)
        for pid in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        ray.shutdown()
        self._cluster.shutdown()  # type: ignore[no-untyped-call]
        shutil.rmtree(self._folder, ignore_errors=True)


def descendants(pid: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]
