"""Render the report as one HTML page that loads nothing.

Invariant: data is one JSON value in ASCII, without "<", in an element that holds no script; the page makes
text of it and never markup. A policy in the page allows its own style and script by their digests, and
nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import Any

_REPORT = "simindex.corpus.report"


def page_of(data: dict[str, Any], package: str = _REPORT) -> str:
    """Return the page that shows `data`, the value that page.js reads.

    Args:
        package: whose page.html and page.js it is; a page.css of its own comes after the report's.

    >>> "<b>" in page_of({"title": "<b>"})
    False
    """
    script, style = _part(_REPORT, "shared.js") + _part(package, "page.js"), _part(_REPORT, "page.css")
    if package != _REPORT:
        style += _part(package, "page.css")
    page = _part(package, "page.html")
    values = {
        "POLICY": f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}",
        "STYLE": style,
        "SCRIPT": script,
        "DATA": json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
    }
    for name, value in values.items():  # data comes last, so that it is not looked through
        before, behind = page.split(f"%{name}%")
        page = before + value + behind
    return page


def _part(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
