"""The public names, and the house's layering: who may import whom, who may import lmdb, who may print."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import simindex

PACKAGE = Path(simindex.__file__).parent

# Imports go to earlier modules only. A new module gets its place here.
ORDER = (
    "errors",
    "checks",
    "parallel",
    "config",
    "alphabet",
    "textbook",
    "tuning",
    "shingles",
    "permutations",
    "sketch",
    "rows",
    "format",
    "pages",
    "environment",
    "transactions",
    "store",
    "tables",
    "merging",
    "view",
    "search",
    "pending",
    "copies",
    "writer",
    "ingest",
    "stats",
    "index",
    "inputs",
    "cli",
)

MODULES = {
    path: path.relative_to(PACKAGE).with_suffix("").parts[0]
    for path in sorted(PACKAGE.rglob("*.py"))
    if path != PACKAGE / "__init__.py"
}
STDIN = PACKAGE / "inputs" / "streams.py"  # "-" is an input
NAMES = [str(path.relative_to(PACKAGE)) for path in MODULES]


def imported(path):
    """The modules that a file imports, in full: simindex.config, lmdb, os.path."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            # "from simindex import x" may name a module or what the package offers.
            found |= (
                {f"{node.module}.{alias.name}" for alias in node.names}
                if node.module == "simindex"
                else set()
            )
            found |= {node.module} - {"simindex"}
    return found


def own(path):
    """The parts of simindex that a file imports: config, _kernel, cli."""
    return {name.split(".")[1] for name in imported(path) if name.startswith("simindex.")} | (
        {"__init__"} if "simindex" in imported(path) else set()
    )


def test_public_names_are_these():
    assert simindex.__all__ == [
        "CharShingles",
        "ClosedError",
        "Config",
        "ConfigMismatchError",
        "CorruptIndexError",
        "FormatError",
        "Index",
        "IndexFullError",
        "IndexLockedError",
        "InsertReport",
        "KeyExistsError",
        "Layout",
        "Match",
        "Matches",
        "ReadOnlyError",
        "Record",
        "SimHashConfig",
        "SimIndexError",
        "Sketch",
        "SketchBatch",
        "Sketcher",
        "Stats",
        "WordShingles",
        "__version__",
        "open",
        "textbook",
        "tuning",
    ]
    for name in simindex.__all__:
        assert getattr(simindex, name) is not None


def test_public_names_have_docstrings():
    for name in set(simindex.__all__) - {"__version__"}:
        assert getattr(simindex, name).__doc__


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        ("KeyExistsError", KeyError),
        ("ConfigMismatchError", ValueError),
        ("FormatError", ValueError),
        ("CorruptIndexError", Exception),
        ("IndexLockedError", Exception),
        ("IndexFullError", OSError),
        ("ReadOnlyError", TypeError),
        ("ClosedError", ValueError),
    ],
)
def test_error_is_a_simindex_error_and_what_a_caller_would_catch(error, builtin):
    assert issubclass(getattr(simindex, error), simindex.SimIndexError)
    assert issubclass(getattr(simindex, error), builtin)


def test_every_module_has_its_place():
    assert set(MODULES.values()) <= set(ORDER)


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_imports_go_to_earlier_modules_only(path):
    module = MODULES[path]
    if module == "cli":
        return  # the last one may use everything
    earlier = {"_kernel", *ORDER[: ORDER.index(module)]}
    same_folder = {module} if path.parent != PACKAGE else set()
    assert own(path) <= earlier | same_folder


def test_textbook_imports_nothing_of_ours_and_nothing_installed():
    names = imported(PACKAGE / "textbook.py")
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_only_the_store_imports_lmdb(path):
    roots = {name.split(".")[0] for name in imported(path)}
    assert ("lmdb" in roots) == (path.name == "store.py" and MODULES[path] == "store")


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_nothing_but_the_command_line_prints(path):
    if MODULES[path] == "cli":
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not calls & {"print", "input", "breakpoint"}
    assert not attributes & {"stdout", "stderr"}
    assert ("stdin" in attributes) == (path == STDIN)
    assert not {name.split(".")[0] for name in imported(path)} & {"logging", "warnings", "rich", "typer"}


def test_library_loads_nothing_of_the_command_line():
    code = "import simindex, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stdout.split())
    assert {"simindex.store", "lmdb", "msgpack", "numpy", "xxhash"} <= loaded
    assert not loaded & {"simindex.cli", "typer", "click", "rich", "orjson"}


def test_library_imports_the_four_packages_and_no_other():
    installed = set()
    for path, module in MODULES.items():
        if module != "cli":
            installed |= (
                {name.split(".")[0] for name in imported(path)} - sys.stdlib_module_names - {"simindex"}
            )
    assert installed == {"lmdb", "msgpack", "numpy", "xxhash"}


def test_inputs_ask_for_three_more_packages_and_import_them_only_when_a_file_needs_them():
    asked = set()
    for path in (PACKAGE / "inputs").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "optional_module":
                asked.add(ast.literal_eval(node.args[0]).split(".")[0])
    assert asked == {"orjson", "pyarrow", "zstandard"}
    code = "import simindex.inputs, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not set(done.stdout.split()) & (asked | {"simindex.cli", "typer", "rich"})
