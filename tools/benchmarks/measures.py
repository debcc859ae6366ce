"""What several jobs measure with: durations, and what the system says of this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Median, p99 and longest of some durations, in microseconds."""
    ordered = sorted(seconds)
    return {
        "median_us": ordered[len(ordered) // 2] * 1e6,
        "p99_us": ordered[int(len(ordered) * 0.99)] * 1e6,
        "longest_us": ordered[-1] * 1e6,
    }


def timed(call: Callable[[Any], object], arguments: Iterable[Any]) -> list[float]:
    durations = []
    for argument in arguments:
        start = time.perf_counter()
        call(argument)
        durations.append(time.perf_counter() - start)
    return durations


def proc_figure(file: str, name: str) -> int:
    """A figure of /proc/self, in bytes."""
    for line in Path("/proc/self", file).read_text().splitlines():
        if line.startswith(name):
            value = int(line.split()[1])
            return value * 1024 if line.endswith("kB") else value
    return 0


def anonymous_bytes() -> int:
    return proc_figure("status", "RssAnon")
