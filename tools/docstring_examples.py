"""Let the site show the examples of docstrings as code.

griffe takes lines that begin with >>> for code in a section called Examples only; here an example stands
where it explains something. `tools/site.yml` names this extension.
"""

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Put a fence around the examples in each docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was just loaded."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a docstring whose examples, from a line with >>> to the next empty one, are fenced blocks."""
    lines: list[str] = []
    margin: str | None = None
    for line in text.splitlines():
        if margin is None and line.lstrip().startswith(">>> "):
            margin = line[: len(line) - len(line.lstrip())]
            lines.append(f"{margin}```pycon")
        elif margin is not None and not line.strip():
            lines.append(f"{margin}```")
            margin = None
        lines.append(line)
    if margin is not None:
        lines.append(f"{margin}```")
    return "\n".join(lines)
