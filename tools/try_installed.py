"""Try an installed simindex with nothing but itself: the README's programs and every example of the package.

Usage: python tools/try_installed.py README, in an empty folder; called by tools/package in environments that
have no test tools. Prints one line beginning with "passed"; exits 1 with the reason otherwise.
"""

import contextlib
import doctest
import importlib
import io
import pkgutil
import platform
import re
import sys
from pathlib import Path

import simindex


def run_readme(readme: Path) -> int:
    """Run the Python programs of the README, each of which prints the text behind it; their number."""
    blocks = re.compile(r"^```python\n(.*?)^```\n+```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    programs: list[tuple[str, str]] = blocks.findall(readme.read_text(encoding="utf-8"))
    for program, expected in programs:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, str(readme), "exec"), {})
        if printed.getvalue() != expected:
            sys.exit(f"{readme}: expected its program to print {expected!r}, found {printed.getvalue()!r}")
    if not programs:
        sys.exit(f"{readme}: expected a program with the text that it prints, found none")
    return len(programs)


def run_examples() -> int:
    """Run the examples in the docstrings of all modules; their number."""
    modules = [module.name for module in pkgutil.walk_packages(simindex.__path__, "simindex.")]
    count = 0
    for name in ["simindex", *(name for name in modules if not name.endswith(".__main__"))]:
        result = doctest.testmod(importlib.import_module(name))
        if result.failed:
            sys.exit(f"{name}: {result.failed} of {result.attempted} examples failed")
        count += result.attempted
    if not count:
        sys.exit("the installed package has no examples")
    return count


def main() -> None:
    installed = Path(simindex.__file__).resolve()
    if not installed.is_relative_to(Path(sys.prefix).resolve()):
        sys.exit(f"expected simindex in {sys.prefix}, found {installed}")
    programs, examples = run_readme(Path(sys.argv[1])), run_examples()
    print(f"passed: the README's programs ({programs}), {examples} examples ({platform.python_version()})")


if __name__ == "__main__":
    main()
