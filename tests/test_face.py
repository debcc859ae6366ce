"""The public face: what its classes say of themselves, and what a checkout without a kernel says."""

import copy
import importlib.util
import inspect
import os
import pickle
import shutil
import subprocess
import sys
import typing
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import simindex
from simindex import Answers, Config, Layout, Match, Matches, Pair, Sketcher, corpus, scaleout

CLASSES = {name: value for name in simindex.__all__ if isinstance(value := getattr(simindex, name), type)}
ERRORS = {name for name, public in CLASSES.items() if issubclass(public, Exception)}
classes = pytest.mark.parametrize("public", CLASSES.values(), ids=CLASSES)


@pytest.mark.parametrize("room", [simindex, corpus, scaleout])
def test_rooms_that_load_late_list_their_names_and_no_others(room: ModuleType) -> None:
    assert dir(room) == sorted(room.__all__)
    assert all(getattr(room, name) is not None for name in room.__all__)


def test_name_that_is_none_is_an_error_for_type_checkers_too() -> None:
    """mypy complains of each of these, or it would complain of the comment that allows it."""
    with pytest.raises(AttributeError, match="'simindex' has no attribute 'nothing'"):
        _ = simindex.nothing  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"'simindex.corpus' has no attribute 'nothing'"):
        _ = corpus.nothing  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"'simindex.scaleout' has no attribute 'nothing'"):
        _ = scaleout.nothing  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """A value of each public class that can be pickled, by the name of its class."""
    text = "the quick brown fox jumps over the lazy dog"
    config = Config()
    sketcher = Sketcher(config)
    contained = simindex.ContainmentMatch("a", 1.0, 0.5, 0.5, "part of stored", False, 0.1, True, 0.9)
    passage = simindex.StoredPassage("a", 0, 9, 2, 11, 2, True)
    with simindex.open(tmp_path_factory.mktemp("face") / "index") as index:
        report = index.insert_many([("a", text, {"page": 7})])
        backup = index.backup(tmp_path_factory.mktemp("backup"))
        found = [
            report, backup, index.check(), simindex.Problem("page", "what was found"),
            simindex.RepairReport("news", "saved"),
            index["a"], index.stats(), config, config.shingles, config.simhash,
            simindex.CharShingles(9), Layout(), sketcher,
            sketcher.sketch(text), sketcher.sketch_many([text, ""]),
            Match("a", 0.5, 3), Matches([Match("a", 0.5, 3)], True, 9),
            Answers([Matches([Match("a", 0.5, 3)], True, 9)]), Pair("a", b"b", 0.5, 3),
            simindex.Cluster(["a", 7], True), contained,
            simindex.ContainmentMatches([contained], True, 9, 0.9),
            passage, simindex.StoredPassages([passage], True, 0.4), simindex.CommonPassage(0, 9, 2),
        ]  # fmt: skip
        store = f"file://{tmp_path_factory.mktemp('store')}/news"
        index.backup(store)
        found.append(simindex.restore(store, tmp_path_factory.mktemp("restored") / "index"))
    of_stores = {name for name in ERRORS if issubclass(CLASSES[name], simindex.StoreError)}
    found += [CLASSES[name](store, "what was expected and found") for name in of_stores]
    found += [simindex.RemovalLimitError(3, 4, 0.5), simindex.ArgumentError("a", "more", 1)]
    others = set(ERRORS) - of_stores - {"RemovalLimitError", "ArgumentError"}
    found += [CLASSES[name]("what was expected and found") for name in others]
    return {type(value).__name__: value for value in found}


def content(value: object) -> object:
    """What a value holds, for classes that do not compare by it."""
    if isinstance(value, Exception):
        return value.args, str(value), vars(value)
    if isinstance(value, Matches):
        return list(value), value.truncated, value.candidates
    if isinstance(value, simindex.ContainmentMatches):
        return list(value), value.truncated, value.num_shingles, value.expected_recall
    if isinstance(value, simindex.StoredPassages):
        return list(value), value.truncated, value.missed
    if isinstance(value, simindex.Cluster):
        return list(value), value.truncated
    if isinstance(value, Sketcher):
        return value.config, value.sketch("the quick brown fox")
    return list(value) if isinstance(value, simindex.SketchBatch) else value


@pytest.mark.parametrize("name", sorted(CLASSES.keys() - {"Clusters", "Index", "Pairs"}))
def test_value_survives_pickling(values: dict[str, object], name: str) -> None:
    copied = pickle.loads(pickle.dumps(values[name]))
    assert type(copied) is CLASSES[name]
    assert content(copied) == content(values[name])


def test_pairs_under_way_are_not_pickled(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "index") as index:
        pairs, clusters = index.pairs(), index.clusters()
    with pairs, pytest.raises(TypeError, match="pickle"):
        pickle.dumps(pairs)
    with clusters, pytest.raises(TypeError, match="pickle"):
        pickle.dumps(clusters)


@classes
def test_annotations_are_understood_from_outside(public: type) -> None:
    hints = typing.get_type_hints(public)
    assert not any(isinstance(hint, str) for hint in hints.values())
    own = [inspect.get_annotations(base).keys() for base in public.__mro__]
    assert hints.keys() == set().union(*own)


def test_annotations_name_the_types_that_they_mean() -> None:
    assert typing.get_type_hints(simindex.Record)["sketch"] is simindex.Sketch
    assert typing.get_type_hints(simindex.Sketch)["words"] == np.ndarray | None


def test_source_of_public_calls_is_found() -> None:
    assert inspect.getsource(simindex.open).startswith("def open(")
    for name, member in vars(simindex.Index).items():
        if inspect.isfunction(member):
            assert f"def {name}(" in inspect.getsource(member)


# ---- Python started in the source folder ----


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The sources as a fresh checkout has them: no compiled kernel."""
    package = Path(simindex.__file__).parent
    skipped = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(package, tmp_path / "simindex", ignore=skipped)
    (tmp_path / "simindex" / "_kernel").mkdir(exist_ok=True)
    return tmp_path


@pytest.mark.parametrize("code", ["import simindex", "from simindex import Sketch", "import simindex.tuning"])
def test_checkout_without_kernel_says_what_to_do(checkout: Path, code: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith(f"ImportError: {checkout / 'simindex'} holds the sources of simindex without")
    assert "start Python in another folder" in said
    assert "pip install -e ." in said


def test_copy_with_its_kernel_is_imported(checkout: Path) -> None:
    kernel = importlib.util.find_spec("simindex._kernel")
    assert kernel is not None
    assert kernel.origin is not None
    shutil.copy(kernel.origin, checkout / "simindex")
    done = subprocess.run(
        [sys.executable, "-c", "import simindex; print(simindex.__file__)"],
        cwd=checkout, env=os.environ | {"PYTHONSAFEPATH": ""}, capture_output=True, text=True, check=True,
        timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == str(checkout / "simindex" / "__init__.py")


def test_an_index_is_not_reversed_and_not_copied(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "index") as index:
        index.insert_many([("a", "one text"), ("b", "another text")])
        with pytest.raises(TypeError, match="not reversible"):
            reversed(index)
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=r"cannot copy or pickle an open index: open it again with "):
                copied(index)
        assert list(index) == ["a", "b"]


def test_streams_and_sketchers_say_what_they_are(tmp_path: Path) -> None:
    path = str(tmp_path / "index")
    with simindex.open(path) as index:
        index.insert("a", "one text of a few words")
        with index.pairs() as pairs, index.clusters(linkage="star") as clusters:
            assert repr(pairs) == f"<pairs of {path!r} by minhash, commit {pairs.snapshot}>"
            assert repr(clusters) == f"<clusters (star) of {path!r} by minhash, commit {pairs.snapshot}>"
    with corpus.join(path, [("x", "one text of a few words")]) as joined:
        assert repr(joined) == "<pairs of a join by minhash, 0 documents read>"
        assert [pair.a for pair in joined] == ["a"]
        assert repr(joined) == "<pairs of a join by minhash, 1 document read>"
    assert repr(Sketcher(Config(num_perm=64))) == f"Sketcher({Config(num_perm=64)!r})"
