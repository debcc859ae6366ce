"""How a command is declared: a function, click's decorators, and an option's help beside its name.

Options that several commands share are values of `Declared`, used as decorators. Options that belong together
are the fields of a frozen dataclass: `takes` adds them to a command, which gets one value of the class.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from simindex.cli.failures import INTERRUPTED, REPORTED, describe, in_options, is_option, option_of
from simindex.cli.output import note
from simindex.errors import ArgumentError

Run = TypeVar("Run", bound=Callable[..., Any])

# ---- types of values ----


class Parsed(click.ParamType):  # type: ignore[type-arg] # generic from click 8.4 on
    """What a function makes of the text on the command line; it raises BadParameter."""

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self.parse, self.name = parse, parse.__name__

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ARG002 - as click calls it
        """Return what the parser makes of a text; what is no text, as a default, is returned unchanged."""
        return self.parse(value) if isinstance(value, str) else value


class Words(click.Choice):  # type: ignore[type-arg] # generic from click 8.4 on
    """One of some words."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the word unchanged; BadParameter, which lists all words, for another one."""
        if value not in self.choices:
            self.fail(f"expected one of {', '.join(self.choices)}; found {value!r}", param, ctx)
        return value


def whole(least: int = 0) -> Callable[[str], int]:
    """Return a function that makes an integer of a text, and raises BadParameter for one below `least` or
    anything else."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[-+]?[0-9]{1,25}", text.strip()) or int(text) < least:
            raise click.BadParameter(f"expected an integer of at least {least}, found {text!r}")
        return int(text)

    return parse


def _share(text: str) -> float:
    """Return the number that was written on the command line, BadParameter where it is none. Whether it is
    between 0 and 1 is left to the library."""
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(
            f"expected a number from 0 to 1, like 0.8 for 80 %, found {text!r}"
        ) from None


# ---- options and arguments ----


class Option(click.Option):
    """An option, below a heading of the help."""

    def __init__(self, *names: Any, heading: str = "Options", **how: Any) -> None:
        super().__init__(*names, **how)
        self.heading = heading


class Argument(click.Argument):
    """An argument with a line in the help."""

    def __init__(self, *names: Any, metavar: str, about: str, **how: Any) -> None:
        super().__init__(*names, metavar=metavar, **how)
        self.title, self.about = metavar, about

    def get_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as click calls it
        """Return what stands for it in the usage line: [metavar], the metavar in square brackets unless the
        argument is required."""
        return [self.title if self.required else f"[{self.title}]"]


class OneField(Option):
    """The name of a field or column. Given twice it is refused: only the last one would count."""

    def __init__(self, *names: Any, default: str | None = None, **how: Any) -> None:
        given = None if default is None else (default,)
        super().__init__(*names, default=given, multiple=True, callback=self._only, metavar="NAME", **how)

    @staticmethod
    def _only(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> str | None:
        if len(values) > 1:
            raise click.BadParameter("expected one field, found several")
        return values[0] if values else None


@dataclasses.dataclass(frozen=True)
class Declared:
    """An option or an argument of a command, to be used as a decorator or as the field of a dataclass."""

    names: tuple[str, ...]
    how: dict[str, Any]

    def __call__(self, run: Run, heading: str = "Options") -> Run:
        """Add it to a command."""
        if self.how.get("cls") is Argument:
            return click.argument(*self.names, **self.how)(run)
        how: dict[str, Any] = {"cls": Option, "heading": heading} | self.how
        return click.option(*self.names, **how)(run)

    def but(self, **how: Any) -> Declared:
        """Return the same with some changes, as another default."""
        return Declared(self.names, self.how | how)

    def field(self) -> Any:
        """Return a dataclass field that has this option in its metadata, for `takes`, and its default value:
        False for a flag; where none is given () for an option that may be repeated, else ``None``."""
        default = self.how.get("default", () if self.how.get("multiple") else None)
        default = False if self.how.get("is_flag") else default
        return dataclasses.field(default=default, metadata={"option": self})


def option(*names: str, **how: Any) -> Declared:
    """Return an option, with what `click.option` takes: a decorator of a command or, by its `field`, a field
    of a dataclass."""
    return Declared(names, how)


def flag(*names: str, **how: Any) -> Declared:
    """Declare an option without a value."""
    return Declared(names, {"is_flag": True} | how)


def word(*names: str, words: Sequence[str], **how: Any) -> Declared:
    """Declare an option that takes one of some words."""
    return Declared(names, {"type": Words(words), "metavar": "|".join(words)} | how)


def number(name: str, *names: str, least: int = 1, metavar: str = "N", **how: Any) -> Declared:
    """Declare an option that takes an integer of at least `least`."""
    return option(name, *names, type=Parsed(whole(least)), metavar=metavar, **how)


def share(name: str, metavar: str = "S", **how: Any) -> Declared:
    """Declare an option that takes a share. Whether it is between 0 and 1 is left to the library."""
    return option(name, type=Parsed(_share), metavar=metavar, **how)


def argument(name: str, metavar: str, about: str, **how: Any) -> Declared:
    """Declare an argument; `metavar` stands for it in the help."""
    return Declared((name,), {"cls": Argument, "metavar": metavar, "about": about} | how)


def takes(name: str, kind: type) -> Callable[[Run], Run]:
    """Return a decorator that adds the fields of a dataclass to a command as options, under the class's
    `heading`. The command gets the dataclass's value as its argument of this name."""
    fields = dataclasses.fields(kind)
    heading = getattr(kind, "heading", "Options")

    def decorate(run: Run) -> Run:
        @functools.wraps(run)
        def call(**values: Any) -> Any:
            own = {field.name: values.pop(field.name) for field in fields}
            return run(**values, **{name: kind(**own)})

        for field in reversed(fields):
            field.metadata["option"](call, heading)
        return call  # type: ignore[return-value] # the same but for its arguments

    return decorate


# ---- commands ----


class Reported(click.Command):
    """A command whose errors are printed in one line; a wrong argument of the library is a wrong option."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command as click does. Errors of `REPORTED` are printed in one line and end it with their
        exit code, 1 if they have none; one of an argument that an option sets becomes a BadParameter. An
        interrupt ends it with 130, and a reader of stdout that is gone with 0."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader (`| head`) has what it wanted. Without this, Python would complain at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)
        except KeyboardInterrupt:
            note("simindex: interrupted")
            ctx.exit(INTERRUPTED)
        except REPORTED as exc:
            if isinstance(exc, ArgumentError) and exc.argument and is_option(name := option_of(exc.argument)):
                reason = exc.say(in_options).removeprefix(f"{exc.argument}: ")
                raise click.BadParameter(reason, param_hint=f"'{name}'") from exc
            note(f"simindex: {describe(exc)}")
            ctx.exit(getattr(exc, "exit_code", 1))
        return result


class Command(Reported):
    """A command, whose options stand below their headings, and its examples as they are typed."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write to the help the arguments, then the options below the heading of each; no empty section."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, Argument):
                sections["Arguments"].append((parameter.title, parameter.about))
            elif (record := parameter.get_help_record(ctx)) is not None:
                sections.setdefault(getattr(parameter, "heading", "Options"), []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as click calls it
        """Write the examples, line by line."""
        with formatter.section("Examples"):
            for line in (self.epilog or "").strip().splitlines():
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def command(
    name: str, examples: str, cls: type[Command] = Command
) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a command of a function, with `examples` at the end of its help."""
    return click.command(name, cls=cls, epilog=examples)


class LazyGroup(Reported, click.Group):
    """Commands that are imported when they are named: a shell waits for one of them, not for all.

    Attributes:
        package: where the modules lie.
        sections: heading of the help -> command -> its module, and a sentence for the list of commands. The
            module calls it as the shell does, or with `_` behind its name.
    """

    def __init__(
        self, *, package: str, sections: Mapping[str, Mapping[str, tuple[str, str]]], **how: Any
    ) -> None:
        super().__init__(**how)
        self.package, self.sections = package, sections
        self._modules = {name: of[0] for section in sections.values() for name, of in section.items()}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as click calls it
        """Return the names of all commands."""
        return [*self._modules]

    def get_command(self, ctx: Any, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as click calls it
        """Import the module of a command and return the command; ``None`` for an unknown name."""
        if cmd_name not in self._modules:
            return None
        module = importlib.import_module(f"{self.package}.{self._modules[cmd_name]}")
        found = getattr(module, f"{cmd_name}_", None) or getattr(module, cmd_name)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return (name, command, the other arguments) for the command that the first argument names. An
        unknown name is a UsageError, which says which option or commands may be meant."""
        name = args[0]
        if name not in self._modules:
            if any(f"--{name}" in parameter.opts for parameter in self.get_params(ctx)):
                of_command = f", or {ctx.command_path} COMMAND --help" if name == "help" else ""
                ctx.fail(f"{name!r} is an option: {ctx.command_path} --{name}{of_command}")
            if alike := difflib.get_close_matches(name, self.list_commands(ctx)):
                ctx.fail(f"No such command {name!r}. Did you mean {' or '.join(alike)}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as click calls it
        """Write the commands under their headings, without importing them."""
        width = max(map(len, self._modules))
        for heading, section in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), about) for name, (_, about) in section.items()])
