"""What is one document, and which call is named where something else is handed over."""

import io
import re
from collections import Counter, OrderedDict, UserDict, deque
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from simindex import CharShingles, Config, Sketch, Sketcher, WordShingles

SKETCHER = Sketcher()
PARAGRAPH = "The quick brown fox jumps over the lazy dog near the old river bank. " * 3
SHORT_PARAGRAPH = "the quick brown fox jumps over the lazy dog"


class MinHash:
    """As datasketch's, as far as it is looked at."""

    hashvalues = np.zeros(128, dtype=np.uint64)

    def __len__(self) -> int:
        return 128


def of_module(module: str, name: str) -> Any:
    """An iterable of a class that another library could have."""
    made = type(name, (list,), {"__module__": module})
    return type("Derived", (made,), {})(["a text"])


NO_DOCUMENTS: list[tuple[Any, str]] = [
    (io.StringIO("a text\n"), "found StringIO, an open file; hand over its text, as file.read()"),
    (io.BytesIO(b"a text\n"), "an open file"),
    (Path("page.txt"), "a path; hand over the text, as path.read_text()"),
    (b"a text", "found bytes; decode a text first, as data.decode()"),
    (bytearray(b"a text"), "found bytearray; decode"),
    (memoryview(b"a text"), "found memoryview; decode"),
    (7, "found int; a fingerprint comes as Sketch.from_fingerprint(number)"),
    (np.uint64(7), "found uint64; a fingerprint comes as Sketch.from_fingerprint(number)"),
    (True, "found bool"),
    (1.5, "found float"),
    (None, "found NoneType"),
    (object(), "found object"),
    (MinHash(), "found MinHash; a MinHash goes into simindex.compat.datasketch.MinHashLSH"),
    (MinHash.hashvalues, "uint64; the rows of a signature come by Sketch.from_rows(array)"),
    (np.array(["a text", "another"], dtype=object), "object; many documents go to insert_many(zip(keys"),
    (np.zeros((2, 2), dtype=np.int64), "a NumPy array of 2 dimensions and int64"),
    (np.array(5), "a NumPy array of 0 dimensions"),
    (np.array([0.5, 1.5]), "a NumPy array of 1 dimensions and float64"),
    (of_module("pandas.core.series", "Series"), "of pandas, which is many documents: insert_many(zip("),
    (of_module("polars.series.series", "Series"), "of polars, which is many documents"),
    (pa.array(["a text"]), "found StringArray of pyarrow, which is many documents"),
    (pa.array(["a text"])[0], "found StringScalar; hand over its text, as column.to_pylist()"),
    (pa.table({"text": ["a text"]}), "found Table of pyarrow, which is many documents"),
    (SKETCHER.sketch_many(["a text"]), "found SketchBatch, which is many documents: insert_many(zip("),
    ([PARAGRAPH, PARAGRAPH], "found a list of 2 texts of 207 characters on average; many texts go to"),
    ([PARAGRAPH], "found a list of 1 texts"),
    (["Title", PARAGRAPH, PARAGRAPH], "found a list of 3 texts"),
    (np.array([PARAGRAPH, PARAGRAPH]), "found a list of 2 texts"),
]


@pytest.mark.parametrize(("document", "said"), NO_DOCUMENTS, ids=range(len(NO_DOCUMENTS)))
def test_no_document_is_refused_with_the_right_call(document: Any, said: str) -> None:
    with pytest.raises(TypeError, match=r"^document: expected a str, a collection of shingles") as caught:
        SKETCHER.sketch(document)
    assert said in str(caught.value)
    with pytest.raises(TypeError, match=re.escape(said)):
        SKETCHER.sketch_many(["a text", document])


@pytest.mark.parametrize(
    "document",
    [
        {PARAGRAPH, "b"},
        frozenset([PARAGRAPH]),
        (PARAGRAPH, PARAGRAPH),
        {PARAGRAPH: 1.0},
        Counter([PARAGRAPH]),
        OrderedDict({PARAGRAPH: 1}),
        UserDict({PARAGRAPH: 1}),
        {PARAGRAPH: 1}.keys(),
        deque([PARAGRAPH]),
        (text for text in [PARAGRAPH]),
        iter([PARAGRAPH]),
    ],
    ids=range(11),
)
def test_everything_but_a_list_is_taken_for_shingles_whatever_they_look_like(document: Any) -> None:
    assert SKETCHER.sketch(document).words is not None


@pytest.mark.parametrize(
    "document",
    [
        [],
        ["fox", "dog"],
        ["first text", "second text"],
        [SHORT_PARAGRAPH, "car"],
        ["https://example.org/" + "a" * 200],
        [1, 2, 3],
        [PARAGRAPH, 1],
        [PARAGRAPH.encode()],
        [" ".join(PARAGRAPH.split()[first : first + 9]) for first in range(9)],
    ],
    ids=range(9),
)
def test_a_list_of_what_may_be_shingles_is_one_document(document: Any) -> None:
    assert SKETCHER.sketch(document) == SKETCHER.sketch(iter(document))


def test_a_list_of_shingles_as_long_as_the_settings_make_them_is_one_document() -> None:
    for shingles in (WordShingles(30), CharShingles(120)):
        assert Sketcher(Config(shingles=shingles)).sketch([PARAGRAPH, PARAGRAPH[1:]]).words is not None


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint32, np.int8])
def test_an_array_of_numbers_is_the_set_of_them(kind: Any) -> None:
    assert SKETCHER.sketch(np.array([1, 2, 3], dtype=kind)) == SKETCHER.sketch([1, 2, 3])
    assert SKETCHER.sketch(np.array(["1", "2", "3"])) == SKETCHER.sketch([1, 2, 3])


def test_what_is_named_instead_works() -> None:
    assert SKETCHER.sketch(Sketch.from_rows(MinHash.hashvalues)).num_perm == 128
    assert SKETCHER.sketch(Sketch.from_fingerprint(7)).fingerprint == 7
    assert len(SKETCHER.sketch_many(pa.array([SHORT_PARAGRAPH]).to_pylist())) == 1
