"""What the kernel takes from Python: numbers of arguments, lengths of buffers, layouts of structs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simindex import Sketcher, _kernel
from simindex.config import Config
from simindex.format import kernel_structs
from simindex.sketching import alphabet

FUNCTIONS = [name for name in dir(_kernel) if callable(getattr(_kernel, name)) and name.islower()]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_refuses_a_number_of_arguments_that_is_not_its_own(name: str) -> None:
    wrong: list[tuple[bytes, ...]] = [(b"",) * 15]
    if name not in ("expect_missing_pages", "pages_missing"):
        wrong.append(())
    for arguments in wrong:
        with pytest.raises(TypeError):
            getattr(_kernel, name)(*arguments)


def sketch_arguments(documents: Sequence[object]) -> list[Any]:
    sketcher = Sketcher(Config(num_perm=16))
    plan = sketcher._plan
    tables = alphabet.class_table(), alphabet.fold_table(), alphabet.mapping("fold")
    room = np.zeros((len(documents), 2), "u8"), np.zeros(len(documents), "u8"), np.zeros(len(documents), "u1")
    counts = np.zeros(len(documents), "u4"), np.zeros((len(documents), 2), "u4")
    num_shingles = np.zeros(len(documents), "u4")
    return [plan, sketcher._functions, *tables, documents, *room, num_shingles, 5, counts[0], 8, counts[1]]


NAMES = [
    "plan", "functions", "classes", "folds", None, None, "words", "fingerprints", "present",
    "num_shingles", None, "kept_counts", None, "sample_counts",
]  # fmt: skip


@pytest.mark.parametrize("index", [n for n, name in enumerate(NAMES) if name])
def test_a_buffer_that_is_a_byte_short_is_named(index: int) -> None:
    arguments = sketch_arguments(["one", "two"])
    _kernel.sketch_texts(*arguments)
    whole = 16 if index == 3 else len(bytes(arguments[index]))
    arguments[index] = bytearray(whole - 1)
    with pytest.raises(
        ValueError, match=f"{NAMES[index]}: expected at least {whole} bytes, found {whole - 1}"
    ):
        _kernel.sketch_texts(*arguments)


def test_a_buffer_that_cannot_be_written_is_refused() -> None:
    for index, num_bytes in ((6, 16), (9, 4), (11, 4), (13, 8)):
        arguments = sketch_arguments(["one"])
        arguments[index] = bytes(num_bytes)
        with pytest.raises(BufferError):
            _kernel.sketch_texts(*arguments)


def test_a_document_that_is_no_str_is_refused() -> None:
    with pytest.raises(TypeError):
        _kernel.sketch_texts(*sketch_arguments(["one", b"two"]))


@pytest.mark.parametrize("widths", [bytes([0, 64]), bytes([1, 64]), bytes([32, 33]), bytes([110])])
def test_blocks_of_no_bits_or_of_more_than_there_are_are_refused(widths: bytes) -> None:
    """A shift by 64 and more is what the compiler wants it to be."""
    with pytest.raises(ValueError, match="widths: expected 1 bit or more each, 64 together"):
        _kernel.permute(np.ones(1, "u8"), widths, bytes(len(widths)), np.zeros(1, "u8"))


def test_buffers_are_let_go_after_a_failure() -> None:
    """A bytearray that is still held cannot grow."""
    held = bytearray(160)
    unfit: list[Any] = [bytearray(1), 7]
    for bad in unfit:
        with pytest.raises((TypeError, ValueError)):
            _kernel.permute(held, held, bytes(160), bad)
        held.append(0)


@pytest.mark.parametrize(
    "name",
    ["chunk_row", "table_row", "segment_row", "directory", "merge_source", "match", "pair_row", "long_run",
     "pair_cursor", "copy_cursor", "held_document", "shingle_run"],
)  # fmt: skip
def test_rows_are_as_long_as_the_structs_of_the_kernel(name: str) -> None:
    struct = getattr(kernel_structs, name.upper())
    num_bytes = struct.itemsize if isinstance(struct, np.dtype) else struct.size
    assert _kernel.STRUCT_BYTES[name] == num_bytes


KERNEL = Path(__file__).parents[2] / "simindex/_kernel"


def test_every_file_with_variants_is_tested_in_each(each_variant: int) -> None:
    assert _kernel.use_variant(each_variant) == each_variant
    names = {path.stem for path in KERNEL.glob("*.c") if "PER_CPU(" in path.read_text()}
    tests = Path(__file__).parent.glob("test_kernel_*.py")
    tested = {path.stem.removeprefix("test_kernel_") for path in tests if "usefixtures" in path.read_text()}
    assert names <= tested  # pairs and query: they call them
