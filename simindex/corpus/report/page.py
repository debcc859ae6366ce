"""Render a report as one HTML page that loads nothing.

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
    """Return the page that shows `data`, by the page.html, page.js and page.css of a package, whose script
    and style follow those that all pages share. Raises ValueError where `data` has a NaN or an infinity."""
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
        before, after = page.split(f"%{name}%")
        page = before + value + after
    return page


def _part(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
