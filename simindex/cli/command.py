"""The commands, how they are found and parsed, how their help looks, and `main`, which runs one.

Arguments and options stand in the help by the names that a person knows, without the types of Python, and
examples as they are typed.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import difflib
import functools
import importlib.util
import inspect
import io
import itertools
import os
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import typer
import typer.core
import typer.main
import typer.models

from simindex.cli.failures import INTERRUPTED, REPORTED, describe, wrong_option
from simindex.cli.output import note, printable


class LazyGroup(typer.core.TyperGroup):
    """Commands that are imported when they are named: a shell waits for one of them, not for all.

    Attributes:
        package: whose modules they are: one has functions of the names of commands, and `EXAMPLES` of the one
            or by their names; one with `app` is a group.
        groups: heading of the help -> module -> its commands.
        modules: command -> its module.
    """

    package: str
    groups: ClassVar[dict[str, dict[str, tuple[str, ...]]]]
    modules: ClassVar[dict[str, str]]

    def __init_subclass__(cls) -> None:
        found = itertools.chain.from_iterable(modules.items() for modules in cls.groups.values())
        cls.modules = {command: module for module, commands in found for command in commands}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command."""
        if not args:
            return super().parse_args(ctx, args)  # shows the help
        rest = _parse(self, ctx, args, {})
        ctx._protected_args, ctx.args = rest[:1], rest[1:]
        return rest

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as typer calls it
        """Return the names of all commands."""
        return [*self.modules]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - as typer calls it
        """Return a command by its name, or `None`."""
        if cmd_name not in self.commands and cmd_name in self.modules:
            module = importlib.import_module(f"{self.package}.{self.modules[cmd_name]}")
            app = getattr(module, "app", None)
            if app is None:
                app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
                kind = getattr(module, "OwnCommand", Command)
                examples = module.EXAMPLES if isinstance(module.EXAMPLES, str) else module.EXAMPLES[cmd_name]
                app.command(cmd_name, cls=kind, epilog=examples)(with_options(getattr(module, cmd_name)))
            self.commands[cmd_name] = typer.main.get_command(app)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; in the place of one that is none, name what may be meant."""
        name = args[0]
        command = self.get_command(ctx, name)
        if command is not None:
            return name, command, args[1:]
        if any(f"--{name}" in parameter.opts for parameter in self.get_params(ctx)):
            of_command = f", or {ctx.command_path} COMMAND --help" if name == "help" else ""
            ctx.fail(f"{name!r} is an option: {ctx.command_path} --{name}{of_command}")
        if alike := difflib.get_close_matches(name, self.list_commands(ctx)):
            ctx.fail(f"No such command {name!r}. Did you mean {' or '.join(alike)}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as typer calls it
        """Write the commands under their headings."""
        width = max(map(len, self.modules))
        for heading, modules in self.groups.items():
            names = itertools.chain.from_iterable(modules.values())
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), self._about(name)) for name in names])

    def _about(self, command: str) -> str:
        """Return the first sentence of a command's help, without importing it."""
        found = importlib.util.find_spec(f"{self.package}.{self.modules[command]}")
        assert found is not None
        assert found.origin is not None
        with open(found.origin, encoding="utf-8") as file:
            _, _, run = file.read().partition(f"\ndef {command}(")
        first = " ".join(run.split('"""')[1].split("\n\n")[0].split())
        return re.split(r"(?<=[.;:]) ", first)[0].rstrip(";:.") + "."


_SECTION = re.compile(r"^([A-Z][a-z ]+):\n((?:(?: {4}.*)?\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(\w+)(?: (\S+))?: (.+(?:\n {8}.+)*)", re.MULTILINE)


def _docstring(documented: Any) -> str:
    """Return a docstring; where Python has stripped it (-OO) that of the source."""
    text = documented.__doc__ or ""
    if sys.flags.optimize > 1:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(documented))).body
        text = ast.get_docstring(node) or ""  # type: ignore[arg-type] # a function or a class
    return f"{inspect.cleandoc(text)}\n"


def _described(docstring: str) -> dict[str, tuple[str, str, str]]:
    """Return option -> (heading, metavar, help) as a docstring has them, below `Options:` and others."""
    return {
        name: (heading, metavar, " ".join(text.split()))
        for heading, entries in _SECTION.findall(docstring)
        for name, metavar, text in _ENTRY.findall(entries)
    }


def word(words: Sequence[str], help_: str = "") -> Any:
    """Return an option that takes one of some words."""

    def parse(text: str) -> str:
        if text not in words:
            raise typer.BadParameter(f"expected one of {', '.join(words)}; found {text!r}")
        return text

    def complete(incomplete: str) -> list[str]:
        return [name for name in words if name.startswith(incomplete)]

    return typer.Option(metavar="|".join(words), parser=parse, autocompletion=complete, help=help_)


def _declared(name: str, kind: Any, described: Mapping[str, tuple[str, str, str]], panel: str | None) -> Any:
    """Return the type of an option with its declaration: of its type, and of the docstring beside it."""
    parts = kind, *get_args(kind)
    shared = next((part for part in parts if get_origin(part) is Annotated), None)
    words = next((get_args(part) for part in parts if get_origin(part) is Literal), ())
    heading, metavar, text = described.get(name, ("Options", "", ""))
    new = typer.Argument if heading == "Arguments" else typer.Option
    option = copy.copy(shared.__metadata__[0]) if shared else word(words) if words else new()
    option.metavar, option.help = metavar or option.metavar, text or option.help
    if heading in ("Options", "Arguments"):
        option.rich_help_panel = option.rich_help_panel or panel
    else:
        option.rich_help_panel = heading
    if isinstance(option, typer.models.OptionInfo) and not isinstance(option.default, str):  # its name
        short = ["-o"] if name == "output" else []
        option.param_decls = [*short, f"--{name.rstrip('_').replace('_', '-')}"]
    return Annotated[shared.__origin__ if shared else kind, option]


@functools.cache
def with_options(run: Callable[..., None]) -> Callable[..., None]:
    """Return a command's function for typer, with an option for each field of its dataclasses.

    An option's help stands in the docstring of its function or class, or in the type that commands share; the
    fields of a class stand below its `heading`.
    """
    docstring, hints = _docstring(run), get_type_hints(run, include_extras=True)
    described = _described(docstring)
    made: dict[str, list[str]] = {}
    kinds: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(run).parameters.items():
        kind, panel = hints[name], None
        own = {name: (kind, parameter.default)}
        if dataclasses.is_dataclass(kind):
            types, panel = get_type_hints(kind, include_extras=True), getattr(kind, "heading", None)
            own = {field.name: (types[field.name], field.default) for field in dataclasses.fields(kind)}
            made[name] = [*own]
            for base in reversed(kind.__mro__[:-1]):  # type: ignore[union-attr] # a class
                described |= _described(_docstring(base))
        for option, (type_, default) in own.items():
            kinds[option] = _declared(option, type_, described, panel)
            how: dict[str, Any] = {"default": default, "annotation": kinds[option]}
            parameters.append(inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, **how))
    if unknown := described.keys() - kinds.keys():
        raise TypeError(f"{run.__name__}: docstrings describe options that it lacks: {sorted(unknown)}")

    @functools.wraps(run)
    def call(**values: Any) -> None:
        for name, own in made.items():
            values[name] = hints[name](**{option: values.pop(option) for option in own})
        run(**values)

    call.__doc__ = _SECTION.sub("", docstring).strip()
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what inspect looks for
    call.__annotations__ = kinds
    # Texts and flags have no parser, and stay as they are.
    call.parsers = {name: kind.__metadata__[0].parser for name, kind in kinds.items()}  # type: ignore[attr-defined] # for `Command.parse_args`
    return call


def _parse(command: Any, ctx: Any, args: list[str], parsers: Mapping[str, Any]) -> list[str]:
    """Set the parameters of a command: those that were typed by their parsers, others to their defaults.

    Typer would import pydantic, for as long as a query takes. A field that is named twice is refused: only
    the last one would count.

    Returns:
        The arguments that are left.
    """
    parser = command.make_parser(ctx)
    values, rest, typed = parser.parse_args(args=args)
    for parameter in command.get_params(ctx):
        if parameter.required and parameter not in typed:
            typed.append(parameter)
        elif parameter.expose_value:
            ctx.params[parameter.name] = parameter.default
    for parameter in sorted(dict.fromkeys(typed), key=attrgetter("is_eager"), reverse=True):
        if parameter.name.endswith("_field") and typed.count(parameter) > 1:
            wrong = "expected one field, found several"
            raise typer.BadParameter(wrong, ctx=ctx, param_hint=f"'{parameter.opts[0]}'")
        by_typer = parameter.process_value
        parameter.process_value = functools.partial(_value, parameter, parsers.get(parameter.name), by_typer)
        parameter.handle_parse_result(ctx, values, rest)
    ctx._opt_prefixes.update(parser._opt_prefixes)
    return list(rest)


def _value(
    parameter: Any, parse: Callable[[str], Any] | None, by_typer: Callable[..., Any], ctx: Any, value: Any
) -> Any:
    """Return the value of a parameter, as `process_value` of typer's own does."""
    if parameter.required and not value:
        return by_typer(ctx, value)  # says that it is missing
    if parse is not None and isinstance(value, str):
        value = parse(value)
    return value if parameter.callback is None else parameter.callback(ctx, parameter, value)


class Command(typer.core.TyperCommand):
    """A command, whose help is for people."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options and arguments; none may be left."""
        parsers = self.callback.parsers  # type: ignore[union-attr] # of `with_options`
        ctx.args = _parse(self, ctx, args, parsers)
        if ctx.args and not ctx.resilient_parsing:
            ctx.fail(f"Got unexpected extra argument(s) ({' '.join(map(printable, ctx.args))})")
        return ctx.args  # type: ignore[no-any-return]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what stands behind the name of the command in the usage line."""
        return ["[OPTIONS]", *(_in_usage(argument) for argument in _arguments(self, ctx))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options."""
        shown = [(_name(argument), argument.help or "") for argument in _arguments(self, ctx)]
        if shown:
            with formatter.section("Arguments"):
                formatter.write_dl(shown)
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            record = None if _is_argument(parameter) else parameter.get_help_record(ctx)
            if record is not None:
                heading = getattr(parameter, "rich_help_panel", None) or "Options"
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as typer calls it
        """Write the examples, line by line."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.strip().splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def _is_argument(parameter: Any) -> bool:
    return isinstance(parameter, typer.core.TyperArgument)


def _arguments(command: Command, ctx: Any) -> list[Any]:
    return [parameter for parameter in command.get_params(ctx) if _is_argument(parameter)]


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _in_usage(argument: Any) -> str:
    return _name(argument) if argument.required else f"[{_name(argument)}]"


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
        "Look after": {"care": ("check", "repair", "compact", "backup", "restore", "merge")},
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
