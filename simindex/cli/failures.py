"""Turn errors into one line on stderr and an exit code."""

from __future__ import annotations

import re
from typing import Any

from simindex.config import SimHashConfig as SimHashConfig
from simindex.config import WordShingles
from simindex.errors import ConfigMismatchError, IndexLockedError, KeyExistsError, SimIndexError

INTERRUPTED = 130


class CommandError(Exception):
    """The command cannot go on; the message says all there is to say."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


_ARGUMENTS = re.compile(
    r"against|at_most|before|bands|containment|in_kept|into|keep|keep_shingles|max_candidates|max_distance|normalize|num_perm|precision"
    r"|recall|removed|rows|sample|seed|sink|size|split|threshold"
)
"""Arguments of the library that come from options as they were typed: a wrong one is wrong usage."""

_OPTIONS = {"sink": "--output", "size": "--words or --chars"}
"""The options of those that are called otherwise."""

_CALLS = {
    "newest, field:NAME or a callable": "newest or field:NAME",
    'query_simhash(), or by="simhash"': "--simhash",
    'take by="minhash"': "leave --simhash out",
    'by="simhash"': "--simhash",
    "force=True": "--force",
    "give it one, as tzinfo=timezone.utc": "write the column with one, as UTC, or leave it out, as "
    "--metadata-field does that keeps another",
    "pairs=...": "--pairs FILE",
    'direction="in_stored"': "--direction in_stored",
    "Config(keep_shingles=...), or give the texts": "--keep-shingles N",
    "Config(keep_shingles=...)": "--keep-shingles N",
    "Config(containment=1)": "--containment 1",
    "num_perm > 0 beside it": "--num-perm above 0 beside it",
    "or SimHash (simhash=...)": "or no --no-simhash",
    "exact=True": "--exact",
    "ignore_common compares": "--ignore-common compares",
    "built with num_perm=0": "built with --no-minhash, for --simhash or --by simhash only",
    "built with simhash=None": "built with --no-simhash",
    "open it with config=None": "leave these options out",
}
"""What the library's messages advise, as options."""

_OF_A_JOB = re.compile(
    r"\b(against|by|exact|explain|in_kept|into|keep|level|max_distance|min_words|mode|recall|removed|sink|split"
    r"|threshold)=('[^']*'|\w+(?:\.\w+)*)"
)
"""An argument with its value, as messages about jobs have it."""

REPORTED = (CommandError, SimIndexError, OSError, ValueError, TypeError)
"""Errors that are printed in one line."""


def wrong_option(error: BaseException) -> tuple[str, str] | None:
    """Return the option that the library says is wrong, and why; ``None`` if it says another thing.

    >>> wrong_option(ValueError("num_perm: expected a multiple of 8 in 0..1024, found 100"))
    ('--num-perm', 'expected a multiple of 8 in 0..1024, found 100')
    """
    name, colon, reason = str(error).partition(": ")
    if isinstance(error, SimIndexError) or not isinstance(error, ValueError | TypeError) or not colon:
        return None
    name = name.rpartition(".")[2]
    if not _ARGUMENTS.fullmatch(name):
        return None
    return _option_of(name), in_options(reason)


def _option_of(argument: str) -> str:
    return _OPTIONS.get(argument, "--" + argument.replace("_", "-"))


def describe(error: BaseException) -> str:
    """Return an error in one line, naming options instead of arguments."""
    from simindex.corpus.dedup.journal import JobError
    from simindex.inputs import BadRowError

    if isinstance(error, KeyExistsError):
        return (
            f"key {error.key!r} is in the index already, or twice in the input; "
            "use --on-conflict skip or --on-conflict replace"
        )
    if isinstance(error, IndexLockedError):
        waited = f", after {error.waited_seconds:,.1f} seconds still" if error.waited_seconds else ""
        remedy = "try again when it is done, or wait for it with --wait SECONDS"
        return f"{error.path}: another process is writing to this index{waited}; {remedy}"
    if isinstance(error, FileNotFoundError) and str(error.strerror).startswith("no simindex index"):
        return f"{error.filename}: no simindex index; simindex insert makes one"
    if isinstance(error, OSError) and not isinstance(error, SimIndexError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    message = str(error) or type(error).__name__
    if isinstance(error, BadRowError):
        message += "; --skip-bad-rows skips it"
    if isinstance(error, JobError):
        message = _OF_A_JOB.sub(_as_option, message)
    if isinstance(error, ConfigMismatchError):
        for name, (old, new) in error.fields.items():
            stored, wanted = _settings(name, old, new), _settings(name, new, old)
            message = message.replace(f"{name}: stored {old!r}, asked for {new!r}", f"{stored}, not {wanted}")
            message = message.replace(f"{name}: {old!r} and {new!r}", f"{stored} and {wanted}")
        message = message.replace("the index has another configuration (", "the index has other settings (")
    return in_options(message)


def _settings(name: str, value: Any, other: Any) -> str:
    """Return a field of `Config` as the options that make it, where it differs from another value of it.

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
        return "--no-minhash" if name == "num_perm" and not value else f"{_option_of(name)} {value}"
    kind = "words" if isinstance(value, WordShingles) else "chars"
    if (type(value), value.size) != (type(other), other.size):
        return f"--{kind} {value.size}"
    return f"--normalize '{' '.join(value.normalize) or 'none'}'"


def _as_option(argument: re.Match[str]) -> str:
    """Return an argument of a call as an option.

    >>> _OF_A_JOB.sub(_as_option, "with threshold=0.8, exact=True, by=None, sink='a.jsonl'")
    'with --threshold 0.8, --exact, no --by, --output a.jsonl'
    """
    option, value = _option_of(argument[1]), argument[2].strip("'")
    if value in ("None", "False"):
        return f"no {option}"
    return option if value == "True" else f"{option} {value}"


_METHOD = re.compile(r"^[a-z_]+(?= needs )|^[a-z_]+: (?=ignore_common )")
"""The method that lacks something of an index."""

_OF_LIMITS = re.compile(r" \(Limits\.\w+\)")
"""What sets a limit in a program, beside the option."""


def in_options(message: str) -> str:
    """Return what the library says, with options in place of arguments.

    >>> in_options("expected a line of at most 1 KiB, found more; --max-row (Limits.row) sets the limit")
    'expected a line of at most 1 KiB, found more; --max-row sets the limit'
    """
    message = _METHOD.sub(lambda name: "" if ":" in name[0] else "this", _OF_LIMITS.sub("", message))
    for call, option in _CALLS.items():
        message = message.replace(call, option)
    return message
