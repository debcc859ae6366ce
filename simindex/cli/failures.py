"""Turn errors into one line on stderr and an exit code."""

from __future__ import annotations

from typing import Any

import click

from simindex.config import SimHashConfig as SimHashConfig
from simindex.config import WordShingles
from simindex.errors import Argument, Difference, IndexLockedError, SimIndexError, Worded

INTERRUPTED = 130


class CommandError(Exception):
    """The command cannot go on; the message says all there is to say."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


REPORTED = (CommandError, SimIndexError, OSError, ValueError, TypeError)
"""Errors that are printed in one line."""

_OTHERWISE = {
    "sink": "--output",
    "size": "--words or --chars",
    "config": "option of a new index",
}
"""The options of arguments that have another name."""


def option_of(argument: str) -> str:
    """Return the command-line option that sets an argument of the library: "--ignore-common" for
    "ignore_common", "--output" for "sink"."""
    name = argument.rpartition(".")[2]
    return _OTHERWISE.get(name, "--" + name.replace("_", "-"))


def is_option(option: str) -> bool:
    """Return whether the command that runs has this option; of "--words or --chars" the first counts."""
    parameters = click.get_current_context().command.params
    return any(option.partition(" ")[0] in parameter.opts for parameter in parameters)


def in_options(part: object) -> str:
    """Return a part of a message of the library, with options in place of arguments.

    >>> error = SimIndexError("expected ", Argument("exact", True), " or ", Argument("sink", "a.csv"))
    >>> str(error), error.say(in_options)
    ('expected exact=True or sink="a.csv"', 'expected --exact or --output a.csv')
    """
    if isinstance(part, Difference):
        one, other = _settings(part.name, part.one, part.other), _settings(part.name, part.other, part.one)
        return part.words.format(one, other)
    if not isinstance(part, Argument):
        return str(part)
    option, value = option_of(part.name), part.value
    if part.of == "Config" and value is not ...:
        return _settings(part.name, value, ...)
    if option == "--by" and not is_option(option):
        option, value = "--simhash", value == "simhash"
    if value is None or value is False:
        return f"no {option}"
    return option if value is ... or value is True else f"{option} {value}"


def describe(error: BaseException) -> str:
    """Return an error in one line, naming options instead of arguments."""
    from simindex.inputs import BadRowError

    if isinstance(error, IndexLockedError):
        waited = f", after {error.waited_seconds:,.1f} seconds still" if error.waited_seconds else ""
        remedy = "try again when it is done, or wait for it with --wait SECONDS"
        return f"{error.path}: another process is writing to this index{waited}; {remedy}"
    if isinstance(error, FileNotFoundError) and str(error.strerror).startswith("no simindex index"):
        return f"{error.filename}: no simindex index; simindex insert makes one"
    if isinstance(error, OSError) and not isinstance(error, SimIndexError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    message = error.say(in_options) if isinstance(error, Worded) else str(error)
    skips = "; --skip-bad-rows skips it" if isinstance(error, BadRowError) else ""
    return (message or type(error).__name__) + skips


def _settings(name: str, value: Any, other: Any) -> str:
    """Return the command-line option that gives a field of `Config` this value, as far as it differs from
    `other`; words where none does.

    >>> _settings("shingles", WordShingles(5), WordShingles(3)), _settings("simhash", None, SimHashConfig())
    ('--words 5', '--no-simhash')
    """
    if name == "simhash":
        if value is None or other is None:
            return "--no-simhash" if value is None else f"--max-distance {value.max_distance}"
        if value.max_distance != other.max_distance:
            return f"--max-distance {value.max_distance}"
        if value.shingles == other.shingles:
            return f"{value.blocks} blocks of fingerprints"
        name, value, other = "shingles", value.shingles, other.shingles
    if name != "shingles":
        return "--no-minhash" if name == "num_perm" and not value else f"{option_of(name)} {value}"
    kind = "words" if isinstance(value, WordShingles) else "chars"
    if (type(value), value.size) != (type(other), other.size):
        return f"--{kind} {value.size}"
    return f"--normalize '{' '.join(value.normalize) or 'none'}'"
