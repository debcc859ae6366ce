"""The command `simindex`: its commands, and `main`, which runs one."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from simindex.cli.command import LazyGroup

_SECTIONS = {
    "Build": {
        "insert": ("insert", "Build an index, or add to it, from files."),
        "remove": ("removal", "Remove documents from an index."),
        "expire": ("removal", "Remove documents older than a time."),
    },
    "Ask": {
        "query": ("query", "Find the stored documents that are similar to a text."),
        "find": ("contained", "Find the stored documents that contain the rows of an input."),
        "passages": ("contained", "Find the passages of a text that stand in stored documents."),
        "pairs": ("pairs", "Print all pairs of similar documents, as they are found."),
        "clusters": ("pairs", "Print the clusters of similar documents."),
        "join": ("pairs", "Print the similar pairs between two indexes or inputs."),
        "explain": ("explain", "Show the passages that two texts share."),
        "get": ("records", "Show the metadata, times and fingerprints of documents."),
        "list": ("records", "Print the keys, one per line, in the order of insertion."),
        "export": ("records", "Write every document as a JSON line, in order of insertion."),
        "stats": ("stats", "Show the counts, sizes, settings and recall of an index."),
    },
    "Deduplicate a corpus": {
        "dedup": ("dedup", "Write a corpus without its near duplicates."),
        "decontaminate": ("decontaminate", "Write a corpus without the rows that contain given items."),
        "report": ("report", "Write a page on the near duplicates of an index or of a job."),
    },
    "Choose settings": {
        "tune": ("tune", "Find the settings for your texts from a sample of them."),
        "curve": ("curve", "Show how likely documents of each similarity are found."),
        "resketch": ("care", "Make an index with other settings from stored sketches."),
    },
    "Look after": {
        "check": ("care", "Check an index for damage."),
        "repair": ("care", "Copy the undamaged part of an index into a new one."),
        "compact": ("care", "Merge all segments, and free the space of removed documents."),
        "backup": ("care", "Copy an index in use to a folder or an object store."),
        "restore": ("care", "Make an index of a backup in an object store."),
        "merge": ("care", "Merge several indexes into a new one."),
    },
    "Many machines": {"scaleout": ("scaleout", "Jobs over many machines.")},
}


# ---- options before the command ----


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from simindex import __version__

        click.echo(f"simindex {__version__}")
        ctx.exit()


_COMPLETE_VARIABLE = "_SIMINDEX_COMPLETE"


def _completion(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    """Print the completion script of the user's shell, or, for --install-completion, add a line that loads
    it to the start file of bash or zsh, once, or write fish's file of it; then end the command. Fails for
    another shell. Does nothing where the option was not given."""
    if not wanted or ctx.resilient_parsing:
        return
    shell = os.path.basename(os.environ.get("SHELL", ""))
    kind = get_completion_class(shell)
    if kind is None:
        ctx.fail(f"expected bash, zsh or fish in the variable SHELL, found {shell!r}")
    script = kind(ctx.command, {}, "simindex", _COMPLETE_VARIABLE).source()
    if param.name == "show_completion":
        click.echo(script)
        ctx.exit()
    path, home = Path(f"~/.{shell}rc").expanduser(), Path.home()
    line = f'eval "$({_COMPLETE_VARIABLE}={shell}_source simindex)"\n'
    if shell == "fish":
        path = home / ".config/fish/completions/simindex.fish"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script)
    elif not path.exists() or line not in path.read_text():
        with path.open("a") as file:
            file.write(f"\n{line}")
    click.echo(f"completion is installed in {path}; it works in the next shell")
    ctx.exit()


def _first(name: str, callback: Any, help_: str) -> click.Option:
    """Return an option without a value that calls `callback` before any command is looked for."""
    return click.Option(
        [name], is_flag=True, is_eager=True, expose_value=False, callback=callback, help=help_
    )


app = LazyGroup(
    name="simindex",
    package="simindex.cli.commands",
    sections=_SECTIONS,
    params=[
        _first("--version", _print_version, "Print the version."),
        _first("--install-completion", _completion, "Install completion for the current shell."),
        _first(
            "--show-completion",
            _completion,
            "Show completion for the current shell, to copy it or customize the installation.",
        ),
    ],
    help="""A persistent similarity index: which stored documents are nearly the same as this one?

    An index is a folder; insert makes one. `simindex COMMAND --help` shows the options of a command, with
    examples.
    """,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)


def main() -> None:
    """Run the command that the arguments of the process name, and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A key that the terminal's encoding lacks is shown escaped; it is no reason to stop.
            stream.reconfigure(errors="backslashreplace")
    # NumPy's BLAS has little to multiply here; its threads would cost each command 0.1 s of processor time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    app(prog_name="simindex")
