"""Arguments of `deduplicate` for a test that draws them by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from simindex.corpus import DedupSettings

_RARE = {field.name for field in fields(DedupSettings)}


def dedup_arguments(**options: Any) -> dict[str, Any]:
    """Return options as keyword arguments, those of `DedupSettings` as such a value.

    >>> dedup_arguments(mode="annotate", workers=2)["settings"].workers
    2
    """
    rare = {name: options.pop(name) for name in _RARE & options.keys()}
    return options | {"settings": DedupSettings(**rare)}
