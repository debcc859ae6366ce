"""Ray of several nodes, for tests: processes of their own on this machine, and their end."""

import gc
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from typing import Any
from unittest import mock

import ray
from ray.cluster_utils import Cluster


@contextmanager
def several_nodes(count: int) -> Iterator[None]:
    """A head without cores, and so many nodes of one core each, which end whatever happens."""
    # Names of sockets are 107 bytes at most, and the folders of tests are longer than that alone.
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    # The address of the cluster is written below RAY_TMPDIR: other tests must not find it. Ray's own niceness
    # is the lowest priority; `simindex.scaleout` starts it with none.
    options = {"RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": folder, "RAY_worker_niceness": "0"}
    # Ray's workers import from the folder that it was started in: that must not be the checkout, whose
    # simindex/ may have no compiled kernel.
    try:
        with mock.patch.dict(os.environ, options), chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from _running(f"{folder}/ray", count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _running(folder: str, count: int) -> Iterator[None]:
    few: dict[str, Any] = {"object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "temp_dir": folder} | few)
    try:
        for _ in range(count):
            cluster.add_node(num_cpus=1, **few)
        ray.init(address=cluster.address, namespace="simindex", log_to_driver=False, logging_level=40)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]
        gc.collect()  # Ray leaves handles of processes that it has ended, which warn
