"""The `simindex` command: `app`, a group of click, and `main`.

`commands` has the commands, one or a few of a kind in a file; beside it stand `root` (the list of commands,
and what becomes of their errors), `command` (how one is declared with click), `options` (what several
commands take, settings of a new index), `reading` (inputs, answers to their rows, keys), `output` (what is
printed, progress) and `failures` (errors to exit codes). Files are read by `simindex.inputs`. Only this
package prints. Results go to stdout, messages to stderr; exit 0 done, 1 failed, 2 wrong usage, 130
interrupted.

Invariant: importing stays light. A command is imported when it is named; rich, orjson and the optional
readers are imported where they are used, so that a missing one costs only those who ask for it. Without the
`cli` extra the import itself ends the process, for there is no caller who could do anything else.
"""

from __future__ import annotations

import importlib.util

for _name in ("click", "rich", "orjson"):
    if importlib.util.find_spec(_name) is None:
        raise SystemExit(
            f"simindex: the command line needs {_name}; install it with: pip install 'simindex[cli]'"
        )

from simindex.cli.root import app, main  # noqa: E402 - behind the check

__all__ = ["app", "main"]
