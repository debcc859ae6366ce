"""The house: who may import whom, who may know LMDB, who may print. The drawing in docs/architecture.md is
the list that these tests go by."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from conftest import LONGEST

import simindex

PACKAGE = Path(simindex.__file__).parent
DOCS = Path(__file__).parents[1] / "docs"
_NAMES, _WHAT = 14, 38  # columns of the drawing


def drawn_rooms() -> tuple[dict[str, set[str]], set[str]]:
    """(rooms that stand, each with those below it; rooms that are to come), as the drawing has them."""
    drawing = (DOCS / "architecture.md").read_text().split("## The rooms")[1].split("```")[1]
    lines = [line[_NAMES:_WHAT].split() for line in drawing.splitlines()]
    rooms = [name for names in lines for name in names]
    standing = [name for name in rooms if not name.endswith("*")]
    below = {name: set(standing[index + 1 :]) for index, name in enumerate(standing)}
    return below, {name.rstrip("*") for name in rooms} - set(standing)


BELOW, TO_COME = drawn_rooms()

FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))))


def attributes_of(path: Path) -> set[str]:
    return {node.attr for node in nodes_of(path) if isinstance(node, ast.Attribute)}


@cache
def imported(path: Path) -> frozenset[str]:
    """The modules that a file imports, in full: simindex.config, lmdb, os.path."""
    found: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def is_own(name: str) -> bool:
    return name.split(".")[0] == "simindex"


def roots(path: Path) -> set[str]:
    """The packages that a file imports."""
    return {name.split(".")[0] for name in imported(path)}


def test_every_room_is_drawn_and_stands_as_it_is_drawn() -> None:
    assert {room_of(path) for path in FILES} == BELOW.keys() - {"_kernel"}
    assert not any((PACKAGE / name).exists() for name in TO_COME)


def test_contributing_lists_the_folders_that_are_drawn_in_that_order() -> None:
    table = (DOCS.parent / "CONTRIBUTING.md").read_text().split("## Where things are")[1].split("## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert listed == [room for room in BELOW if (PACKAGE / room).is_dir()]


def test_imports_go_down() -> None:
    for path in FILES:
        room = room_of(path)
        rooms = {name.split(".")[1] for name in imported(path) if is_own(name) and "." in name}
        if room == "cli":
            # The uppermost room may use what the library's face offers, too.
            rooms -= set(simindex.__all__) - BELOW.keys()
        assert rooms <= BELOW[room] | ({room} if path.parent != PACKAGE else set()), path


def test_no_file_imports_itself_by_a_detour() -> None:
    """Inside a room, too: the files of the package can be read in an order."""
    modules = {
        ".".join(["simindex", *path.relative_to(PACKAGE).with_suffix("").parts]): path for path in FILES
    }
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = {name for name in imported(path) if is_own(name)}
        graph[module] = {
            name if name in modules else name.rpartition(".")[0]
            for name in names
            if name in modules or name.rpartition(".")[0] in modules
        } - {module}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(FILES)


OF_SYSTEMS = re.compile(r"fcntl|os\.fsync|posix_fa|sched_getaffinity|sys\.platform|/proc/")


def test_one_module_knows_what_operating_systems_differ_in() -> None:
    assert [path.name for path in FILES if OF_SYSTEMS.search(path.read_text())] == ["system.py"]


PUBLIC = ("cli", "compat", "corpus", "index", "inputs", "scaleout", "textbook", "tuning")


def is_inside(name: str) -> bool:
    """Whether a name comes from a module below the public packages, of which compat is one as a whole."""
    _, room, *below = name.split(".")
    return room != "compat" and len(below) > (room in PUBLIC)


def test_two_thirds_of_the_test_files_know_the_public_packages_alone() -> None:
    files = list(Path(__file__).parent.rglob("test_*.py"))
    names = ([name for name in imported(path) if name.startswith("simindex.")] for path in files)
    assert 3 * sum(any(map(is_inside, some)) for some in names) <= len(files)


def outside(*rooms: str) -> list[Path]:
    return [path for path in FILES if room_of(path) not in rooms]


def test_textbook_imports_nothing_installed() -> None:
    for path in FILES:
        assert roots(path) <= sys.stdlib_module_names | {"simindex"} or room_of(path) != "textbook", path


def test_only_storage_knows_lmdb() -> None:
    assert not [path for path in outside("storage") if "lmdb" in roots(path)]


def test_only_format_knows_bytes() -> None:
    """How numbers lie in bytes, and how values are packed and sealed."""
    for path in outside("format", "storage"):  # storage reads LMDB's own pages, not ours
        assert not roots(path) & {"struct", "msgpack"}, path
        assert not attributes_of(path) & {"to_bytes", "from_bytes"} or room_of(path) == "textbook", path
    for path in outside("format", "storage", "textbook", "sketching"):
        # The order of rows in a band word is the hashing contract's, and so sketching's.
        strings = {node.value for node in nodes_of(path) if isinstance(node, ast.Constant)}
        assert not strings & {"<u4", "<u8", ">u4", ">u8", "big", "little"}, path


def test_only_the_command_line_prints() -> None:
    for path in outside("cli"):
        functions = [node.func for node in nodes_of(path) if isinstance(node, ast.Call)]
        calls = {function.id for function in functions if isinstance(function, ast.Name)}
        assert not calls & {"print", "input", "breakpoint"}, path
        assert not attributes_of(path) & {"stdout", "stderr"}, path
        assert "stdin" not in attributes_of(path) or room_of(path) == "inputs", path
        assert not roots(path) & {"click", "rich"}, path
        assert "logging" not in roots(path) or path.name == "events.py", path


DOCUMENTED = {"_asdict", "_replace", "_fields", "_current_frames"}  # of NamedTuple, of sys


def foreign_names(path: Path) -> set[str]:
    """The names that a file has of other packages, the standard library too, and of their contents."""
    names: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names |= {
                alias.asname or alias.name.split(".")[0] for alias in node.names if not is_own(alias.name)
            }
        elif isinstance(node, ast.ImportFrom) and not is_own(node.module or ""):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def private_names(path: Path) -> list[tuple[ast.expr, str]]:
    """What stands before each attribute with an underscore, and its name."""
    attributes = [node for node in nodes_of(path) if isinstance(node, ast.Attribute)]
    private = [node for node in attributes if re.match(r"_[^_]", node.attr) and node.attr not in DOCUMENTED]
    return [(node.value, node.attr) for node in private]


def defined(path: Path) -> set[str]:
    """Functions, classes, variables, attributes that are set, and words, which slots are."""
    names: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


def test_no_private_name_of_another_package_is_used() -> None:
    """Their next version may have another. Of an object that another package made: a name that is set nowhere
    here is theirs."""
    own = set().union(*map(defined, [PACKAGE / "__init__.py", *FILES]))
    for path in FILES:
        foreign = foreign_names(path)
        for of, name in private_names(path):
            begin = of
            while isinstance(begin, ast.Attribute | ast.Call):
                begin = begin.value if isinstance(begin, ast.Attribute) else begin.func
            assert name in own, f"{path}: {name}"
            assert not (isinstance(begin, ast.Name) and begin.id in foreign), f"{path}: {name}"
        assert not [name for name in imported(path) if not is_own(name) and re.search(r"\b_[a-z]", name)], (
            path
        )


def test_the_command_line_uses_no_private_name_of_others() -> None:
    for path in FILES:
        assert not roots(path) & {"typer", "typer_slim"}, path
        if room_of(path) == "cli":
            others = [
                of
                for of, _ in private_names(path)
                if not isinstance(of, ast.Name) or of.id not in ("self", "cls")
            ]
            assert not others, path


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return set(done.stdout.split())


def test_library_loads_nothing_of_the_command_line() -> None:
    assert "numpy" not in loaded_by("import simindex")
    loaded = loaded_by("import simindex; simindex.open")
    assert {"simindex.storage.store", "lmdb", "msgpack", "numpy", "xxhash"} <= loaded
    assert not loaded & {"simindex.cli", "simindex.inputs", "click", "rich", "orjson"}


def test_library_imports_the_four_packages_and_no_other() -> None:
    installed: set[str] = set()
    for path in FILES:
        if room_of(path) not in ("cli", "inputs"):
            installed |= roots(path) - sys.stdlib_module_names - {"simindex"}
    assert installed == {"lmdb", "msgpack", "numpy", "xxhash"}


_LONGEST_FUNCTION = 60
"""Lines of code, docstrings, comments and blanks not counted."""


def lines_of(node: ast.expr | ast.stmt) -> set[int]:
    assert node.end_lineno is not None
    return set(range(node.lineno, node.end_lineno + 1))


def code_lines(nodes: Iterable[ast.AST], source: Iterable[str]) -> set[int]:
    """The numbers of the lines that hold code."""
    lines = {n for n, line in enumerate(source, 1) if line.strip() and not line.strip().startswith("#")}
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= lines_of(node)
    return lines


def test_functions_fit_a_screen() -> None:
    for path in FILES:
        lines = code_lines(nodes_of(path), path.read_text(encoding="utf-8").splitlines())
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef):
                assert len(lines & lines_of(node)) <= _LONGEST_FUNCTION, f"{path}: {node.name}"


def folder_of(name: str) -> Path | None:
    """The folder of a module of the package, or of what is imported from it."""
    for module in (name, name.rpartition(".")[0]):
        path = PACKAGE.parent.joinpath(*module.split("."))
        if path.with_suffix(".py").is_file():
            return path.parent
        if (path / "__init__.py").is_file():
            return path
    return None


def test_a_folder_and_its_parent_import_one_way() -> None:
    """A folder is a layer or a plug-in point: its parent uses it, or it uses its parent. Doors do not count,
    for they only pass names on, nor does the reader of inputs, which holds the table of formats. The package
    itself is no layer: each file in it is a room, with a place in the drawing."""
    arrows: set[tuple[Path, Path]] = set()
    for path in FILES:
        if (
            path.name in ("__init__.py", "__main__.py", "public.py")
            or path == PACKAGE / "inputs" / "reader.py"
        ):
            continue
        targets = {folder_of(name) for name in imported(path) if is_own(name)} - {None, path.parent}
        source = path if path.parent == PACKAGE else path.parent
        arrows |= {(source, target) for target in targets if target is not None}
    both = {(a, b) for a, b in arrows if (b, a) in arrows and (a in b.parents)}
    assert not both


# ---- tests ----


TESTS = Path(__file__).parent


def test_longest_files_are_there_and_named_once() -> None:
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)
