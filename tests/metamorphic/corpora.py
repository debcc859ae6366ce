"""Made-up corpora in families of near copies, cut into shards of any format, and what must stay of them."""

import csv
import io
import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

import simindex
from simindex import Sketch

PACKINGS = ("", ".gz", ".xz", ".zst")
SHARDS = (1, 2, 5, 40)
FORMATS = (".jsonl", "blank.jsonl", ".json", ".csv", ".tsv", ".parquet", "mixed")
THRESHOLD = 0.8


class Document(NamedTuple):
    """A row of the corpus.

    Attributes:
        id: unique.
        family: documents of one family have a Jaccard similarity above 0.9, of two below 0.1.
        rank: text of four digits, for an order of its own; unique.
        text: what is compared.
    """

    id: str
    family: int
    rank: str
    text: str


def made_up(count: int, seed: int) -> list[Document]:
    """Documents of 60 to 65 words; a third are copies, equal or with words behind the text."""
    dice = random.Random(seed)
    words = [f"word{number}" for number in range(3_000)]
    ranks = dice.sample(range(10_000), count)
    families: list[list[str]] = []
    found: list[Document] = []
    for number in range(count):
        if families and dice.random() < 0.35:
            family = dice.randrange(len(families))
            text = [*families[family], *dice.choices(words, k=dice.choice([0, 1, 1, 2]))]
        else:
            family = len(families)
            text = dice.choices(words, k=dice.randint(60, 63))
            families.append(text)
        found.append(Document(f"r{number:04}", family, f"{ranks[number]:04}", " ".join(text)))
    return found


def cut(documents: Sequence[Document], shards: int, seed: int) -> list[list[Document]]:
    """Cut a corpus into shards in order: of several one is empty and one has a single row."""
    if shards == 1:
        return [list(documents)]
    dice = random.Random(seed)
    ends = sorted(dice.sample(range(2, len(documents)), min(shards, len(documents) - 2) - 1))
    if shards > 2:
        ends[0], ends[1] = 1, 1  # a shard of one row, and an empty one
    begins = [0, *ends]
    return [list(documents[a:b]) for a, b in zip(begins, [*ends, len(documents)], strict=True)]


def write_shards(
    folder: Path, shards: list[list[Document]], format_: str, packing: str, seed: int = 0
) -> list[Path]:
    """Write each shard to a file and return the paths."""
    dice = random.Random(seed)
    paths = []
    for number, rows in enumerate(shards):
        kind = dice.choice(FORMATS[:-1]) if format_ == "mixed" else format_
        suffix = "" if kind == ".parquet" else packing
        path = folder / f"shard{number:02}{'' if kind[0] == '.' else '-'}{kind}{suffix}"
        with fsspec.open(str(path), "wb", compression="infer") as file:
            file.write(_encoded(rows, kind))
        paths.append(path)
    return paths


def _encoded(rows: Iterable[Document], kind: str) -> bytes:
    values = [{"id": row.id, "rank": row.rank, "text": row.text} for row in rows]
    if kind == ".parquet":
        schema = pa.schema([(name, pa.string()) for name in ("id", "rank", "text")])
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(values, schema), sink, row_group_size=11)
        return sink.getvalue()
    if kind == ".json":
        return json.dumps(values).encode()
    if kind in (".csv", ".tsv"):
        lines = io.StringIO()
        writer = csv.DictWriter(lines, ["id", "rank", "text"], delimiter="," if kind == ".csv" else "\t")
        writer.writeheader()
        writer.writerows(values)
        return lines.getvalue().encode()
    between = "\n" if kind == ".jsonl" else "\n\n"
    return "".join(json.dumps(value) + between for value in values).encode()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read an output back, whatever its format."""
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    with fsspec.open(str(path), "rb", compression="infer") as file:
        content = file.read().decode()
    kind = next(suffix for suffix in path.suffixes if suffix not in PACKINGS)
    if kind == ".jsonl":
        return [json.loads(line) for line in content.splitlines()]
    return list(csv.DictReader(io.StringIO(content), delimiter="," if kind == ".csv" else "\t"))


# ---- the judge: brute force over the documents, which knows nothing of tables ----

Alike = Callable[[Document, Document], bool]


def same_family(a: Document, b: Document) -> bool:
    """Whether two documents are near copies; what the exact Jaccard similarity says at any threshold
    between 0.1 and 0.9 (test_the_families_are_what_jaccard_says)."""
    return a.family == b.family


def within_bits(documents: Iterable[Document], distance: int, config: simindex.Config) -> Alike:
    """Whether the fingerprints of two documents differ in at most so many bits."""
    sketcher = simindex.Sketcher(config)
    sketches: dict[str, Sketch] = {row.text: sketcher.sketch(row.text) for row in documents}
    return lambda a, b: sketches[a.text].hamming(sketches[b.text]) <= distance


def star(documents: Sequence[Document], alike: Alike, keep: str, stored: Sequence[Document] = ()) -> set[str]:
    """Return the ids that stay where each row goes that is like a stored one, or one kept before it.

    Args:
        keep: the order in which rows are decided, as `deduplicate` takes it.
        stored: documents of the index that they are compared with, too.
    """
    numbered = list(enumerate(documents))
    orders: dict[str, Callable[[tuple[int, Document]], Any]] = {
        "first": lambda row: row[0],
        "newest": lambda row: -row[0],
        "longest": lambda row: (-len(row[1].text), row[0]),
        "field:rank": lambda row: -int(row[1].rank),
    }
    kept = list(stored)
    ids = set()
    for _, row in sorted(numbered, key=orders[keep]):
        if not any(alike(other, row) for other in kept):
            kept.append(row)
            ids.add(row.id)
    return ids
