"""A target that must be found wanting, or the fuzzer shows nothing."""

from __future__ import annotations

from collections.abc import Callable


def control(data: bytes) -> None:
    """Raise where three bytes in a row are right, to which coverage leads."""
    if data[1:2] == b"\x9c" and data[2:3] == b"\x21" and data[3:4] == b"\xe7":
        raise RuntimeError("found the way")


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]] = {
    "control": (control, lambda: [b"0000"]),
}
