"""A plugin of pytest that hides what Linux alone has: `PYTHONPATH=tests pytest -p support.portable`."""

import os


def pytest_configure() -> None:
    for name in ("posix_fadvise", "sched_getaffinity"):
        delattr(os, name)
