"""Render values as HTML tables for notebooks.

Invariant: whatever stands in a cell, what comes out is text in cells and can be encoded as UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MAX_ROWS = 50
"""Rows that are shown of a table; the rest is counted."""

MAX_CELL = 200
"""Characters that are shown of a cell."""


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """Return a table as HTML, numbers aligned right and everything else left.

    Args:
        columns: names of the columns; none: a table of names and values without a head.
        rows: as many cells each, cut at `MAX_CELL` characters; past `MAX_ROWS` they are only counted.
        note: a line below the table.

    >>> table("1 & 2", ("key",), [("<a>",)])[-41:]
    '&lt;a&gt;</td></tr></tbody></table></div>'
    """
    every = list(rows)
    head = "".join(f'<th style="{_LEFT}">{_escaped(name)}</th>' for name in columns)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in every[:MAX_ROWS])
    parts = [f"<div><strong>{_escaped(title)}</strong><table>"]
    if columns:
        parts.append(f"<thead><tr>{head}</tr></thead>")
    parts.append(f"<tbody>{body}</tbody></table>")
    if len(every) > MAX_ROWS:
        parts.append(f"<div>and {len(every) - MAX_ROWS:,} more</div>")
    if note:
        parts.append(f"<div>{_escaped(note)}</div>")
    return "".join((*parts, "</div>"))


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f'<td style="{_LEFT}">{_escaped("" if value is None else str(value))}</td>'
    shown = f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
    return f'<td style="{_RIGHT}">{shown}</td>'


_LEFT, _RIGHT = "text-align: left; vertical-align: top", "text-align: right; vertical-align: top"


def _escaped(text: str) -> str:
    import html  # with the names of all characters: loaded for a notebook

    shown = text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"
    return html.escape(shown.encode("utf-8", "replace").decode("utf-8"))


def of_bytes(count: int) -> str:
    """Return a number of bytes as people read it.

    >>> of_bytes(999), of_bytes(1_234_567)
    ('999 bytes', '1.2 MB')
    """
    size, unit = float(count), "bytes"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < 999.95:
            break
        size, unit = size / 1000, larger
    return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
