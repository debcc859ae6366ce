"""Ray of several nodes, for tests: processes of their own on this machine, and their end."""

import gc
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from typing import Any

import ray
from ray.cluster_utils import Cluster


@contextmanager
def several_nodes(count: int) -> Iterator[None]:
    """A head without cores, and so many nodes of one core each, which end whatever happens."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    # As `simindex.scaleout` starts it: Ray's own is the lowest priority.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # Names of sockets are 107 bytes at most, and the folders of tests are longer than that alone.
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    few: dict[str, Any] = {"object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = None
    try:
        # Ray's workers import from the folder that they were started in: it must not be the checkout, whose
        # simindex/ may have no compiled kernel.
        with chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "temp_dir": folder} | few)
            for _ in range(count):
                cluster.add_node(num_cpus=1, **few)
            ray.init(address=cluster.address, namespace="simindex", log_to_driver=False, logging_level=40)
            yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.shutdown()
            if cluster is not None:
                cluster.shutdown()  # type: ignore[no-untyped-call]
            gc.collect()  # Ray leaves handles of processes that it has ended, which warn
        shutil.rmtree(folder, ignore_errors=True)
