"""A race on purpose: two threads sort into the same array, with the kernel's own function.

ThreadSanitizer must report it: that the tests beside it are silent shows nothing otherwise.
"""

import threading

import numpy as np

from simindex import _kernel

_KEYS = 1_000


def main() -> None:
    """Race some times; what is there to be seen is in the sanitizer's report."""
    keys = np.random.default_rng(1).integers(0, 1 << 63, (1, _KEYS), dtype=np.uint64)
    sorted_keys, numbers = np.zeros_like(keys), np.zeros(keys.shape, np.uint32)
    begin = threading.Barrier(2)

    def sort() -> None:
        begin.wait()
        for _ in range(200):
            _kernel.sort_tables(keys, _KEYS, sorted_keys, numbers)

    threads = [threading.Thread(target=sort) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
