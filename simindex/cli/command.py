"""How commands are found, and how their help looks.

Arguments and options stand in the help by the names that a person knows, without the types of Python, and
examples as they are typed.
"""

from __future__ import annotations

import importlib
from typing import Any

import typer
import typer.core
import typer.main


class LazyGroup(typer.core.TyperGroup):
    """Commands that are imported when they are named: a shell waits for one of them, not for all.

    Attributes:
        package: whose modules they are: one with `run` is a command, one with `app` a group.
        names: of the modules, in the order of the help.
    """

    package: str
    names: tuple[str, ...]

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as typer calls it
        """Return the names of all commands."""
        return list(self.names)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - as typer calls it
        """Return a command by its name, or `None`."""
        if cmd_name in self.names and cmd_name not in self.commands:
            module = importlib.import_module(f"{self.package}.{cmd_name}")
            app = getattr(module, "app", None)
            if app is None:
                app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
                kind = getattr(module, "OwnCommand", Command)
                app.command(cmd_name, cls=kind, epilog=module.EXAMPLES)(module.run)
            self.commands[cmd_name] = typer.main.get_command(app)
        return self.commands.get(cmd_name)


class Command(typer.core.TyperCommand):
    """A command, whose help is for people."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse a field that is named twice: only the last one would count."""
        _, _, given = self.make_parser(ctx).parse_args(args=[*args])
        for parameter in given:
            if str(parameter.name).endswith("_field") and given.count(parameter) > 1:
                raise typer.BadParameter(
                    "expected one field, found several", ctx=ctx, param_hint=f"'{parameter.opts[0]}'"
                )
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what stands behind the name of the command in the usage line."""
        return ["[OPTIONS]", *(_in_usage(argument) for argument in _arguments(self, ctx))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options."""
        shown = [(_name(argument), argument.help or "") for argument in _arguments(self, ctx)]
        if shown:
            with formatter.section("Arguments"):
                formatter.write_dl(shown)
        records = [p.get_help_record(ctx) for p in self.get_params(ctx) if not _is_argument(p)]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record is not None])

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
