"""Ray, for tests: of one node, with little memory, in a folder with a short name; and its end."""

import gc
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

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
    os.environ.setdefault("RAY_worker_niceness", "0")  # or a busy machine starves hosts
    # Names of sockets are 107 bytes at most, and the folders of tests are longer than that alone.
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    # Ray lets its workers import from the driver's folder, and in a checkout that is the sources without
    # their kernel, not the simindex that is installed.
    before = os.getcwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(**OPTIONS, _temp_dir=folder)
            yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.shutdown()
            gc.collect()  # Ray leaves handles of processes that it has ended, which warn
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)
