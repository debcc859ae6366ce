"""The `simindex` command: the typer app, its commands, and `main`.

`commands` has the commands, one or a few of a kind in a file; beside it stand `options` (what several
commands take), `creation` (settings from options), `reading` (inputs, answers to their rows, keys), `output`
(what is printed, progress) and `failures` (errors to exit codes). Files are read by `simindex.inputs`. Only
this package prints. Results go to stdout, messages to stderr; exit 0 done, 1 failed, 2 wrong usage, 130
interrupted.

Invariant: importing stays light. A command is imported when it is named; rich, orjson and the optional
readers are imported where they are used, so that a missing one costs only those who ask for it. Without the
`cli` extra the import itself ends the process, for there is no caller who could do anything else.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from typing import Annotated, Any, ClassVar

for _name in ("typer", "rich", "orjson"):
    if importlib.util.find_spec(_name) is None:
        raise SystemExit(
            f"simindex: the command line needs {_name}; install it with: pip install 'simindex[cli]'"
        )

import typer  # noqa: E402 - behind the check

from simindex.cli.command import LazyGroup  # noqa: E402
from simindex.cli.failures import INTERRUPTED, REPORTED, describe, wrong_option  # noqa: E402
from simindex.cli.output import note  # noqa: E402


class Commands(LazyGroup):
    """The commands, with their errors in one line."""

    package = "simindex.cli.commands"
    groups: ClassVar = {
        "Build": {"insert": ("insert",), "removal": ("remove", "expire")},
        "Ask": {
            "query": ("query",),
            "contained": ("find", "passages"),
            "pairs": ("pairs", "clusters", "join"),
            "explain": ("explain",),
            "records": ("get", "list", "export"),
            "stats": ("stats",),
        },
        "Deduplicate a corpus": {
            "dedup": ("dedup",),
            "decontaminate": ("decontaminate",),
            "report": ("report",),
        },
        "Choose settings": {"tune": ("tune",), "curve": ("curve",), "care": ("resketch",)},
        "Look after": {"care": ("check", "repair", "compact", "backup", "merge")},
        "Many machines": {"scaleout": ("scaleout",)},
    }

    def invoke(self, ctx: Any) -> Any:
        """Run a command; see `typer.core.TyperGroup`."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader (`| head`) has what it wanted. Without this, Python would complain at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            note("simindex: interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except REPORTED as exc:
            wrong = wrong_option(exc)
            if wrong is not None:
                raise typer.BadParameter(wrong[1], param_hint=f"'{wrong[0]}'") from exc
            note(f"simindex: {describe(exc)}")
            raise typer.Exit(getattr(exc, "exit_code", 1)) from exc
        return result


app = typer.Typer(
    name="simindex",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from simindex import __version__

        sys.stdout.write(f"simindex {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A persistent similarity index: which stored documents are nearly the same as this one?

    An index is a folder; insert makes one. `simindex COMMAND --help` shows the options of a command, with
    examples.
    """


def main() -> None:
    """Run the command that the arguments of the process name, and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A key that the terminal's encoding lacks is shown escaped; it is no reason to stop.
            stream.reconfigure(errors="backslashreplace")
    # NumPy's BLAS has little to multiply here; its threads would cost each command 0.1 s of processor time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    app(prog_name="simindex")
