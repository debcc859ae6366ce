"""Parameters of commands have the values, and the errors, that typer itself would give them."""

from typing import Annotated, Any

import pytest
import typer
import typer.main

from simindex.cli import options
from simindex.cli.command import Command, with_options

ARGUMENTS = [
    "",
    "a",
    "a b c --number 3 --share 0.5 --name x --name y --flag",
    "a --number=7 --upper c",
    "a --no-such",
    "a --number",
    "a --number x",
    "a --number 0",
    "a --share half",
    "a --upper d",
    "--name x",
    "a --kind one",
    "a --kind three",
]


def _upper(value: str | None) -> str | None:
    if value == "d":
        raise typer.BadParameter("expected another letter")
    return None if value is None else value.upper()


def outcome(kind: type[Any], wrap: Any, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """What a command of that class takes of the arguments, or its exit code and what it says."""
    taken: dict[str, Any] = {}

    def run(
        files: Annotated[list[str], typer.Argument(metavar="FILE...")],
        number: Annotated[int | None, options.number("A number.")] = None,
        share: Annotated[float, options.fraction("A share.")] = 0.25,
        name: Annotated[list[str] | None, typer.Option()] = None,
        kind: Annotated[str | None, options.word(["one", "two"], "A kind.")] = None,
        upper: Annotated[str | None, typer.Option(callback=_upper)] = None,
        flag: Annotated[bool, typer.Option("--flag")] = False,
    ) -> None:
        taken.update(files=files, number=number, share=share, name=name, kind=kind, upper=upper, flag=flag)

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=kind)(wrap(run))
    with pytest.raises(SystemExit) as exit_:
        typer.main.get_command(app)(arguments, prog_name="program")
    said = capsys.readouterr().err
    taken = {key: list(value) if isinstance(value, tuple) else value for key, value in taken.items()}
    return exit_.value.code, said.splitlines()[-1:], {key: value or None for key, value in taken.items()}


@pytest.mark.parametrize("line", ARGUMENTS)
def test_parameters_have_what_typer_would_give_them(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    own = outcome(Command, with_options, line.split(), capsys)
    assert own == outcome(typer.core.TyperCommand, lambda run: run, line.split(), capsys)
    assert own[0] == (0 if own[2] else 2)
