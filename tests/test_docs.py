"""The documents tell the truth: examples run, vectors and bytes are what they say, links lead somewhere."""

import doctest
import inspect
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import xxhash
from support.command_server import run_block
from support.commands import COMMANDS
from support.pages import ROOT, of_language, text_of
from support.stored import DATABASES, octets, places_in_filter

import simindex
from simindex import (
    CharShingles,
    Config,
    Index,
    Key,
    Layout,
    SimHashConfig,
    Sketcher,
    WordShingles,
    _kernel,
    textbook,
)
from simindex.config import HASHING_VERSION
from simindex.distinct import distinct
from simindex.format.keys import MAX_KEY_BYTES, encode_key, key_hashes
from simindex.format.layout import Geometry, SegmentEntry, page_shape
from simindex.format.meta import FORMAT_VERSION, decode_done, done_key, encode_done
from simindex.format.records import MAX_METADATA_BYTES, MAX_METADATA_DEPTH, decode_kept, encode_kept
from simindex.inputs.reader import SUFFIXES
from simindex.queries.search import DEFAULT_MAX_CANDIDATES
from simindex.sketching.permutations import make_plan, plan_for

README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guide.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def table_rows(page: Path, title: str) -> list[list[str]]:
    """The cells of the table whose first column has this title, without ` marks."""
    lines = iter(text_of(page).splitlines())
    for line in lines:
        if line.startswith(f"| {title} |"):
            next(lines)
            break
    rows: list[list[str]] = []
    for line in lines:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return rows


# ---- README ----


def test_readme_programs_print_what_stands_behind_them_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,), (shell,) = of_language(README, "python"), readme_commands(README)
    printed, written = of_language(README, "text")
    assert len(program.splitlines()) <= 8
    for _ in range(2):  # the first thing that anybody does is to run it once more
        exec(compile(program, "README.md", "exec"), {})
        assert capsys.readouterr().out == printed
        assert run_block(shell, tmp_path) == written


@pytest.mark.parametrize(
    ("page", "words"),
    [("README.md", 700), ("docs/start.md", 1_500), ("docs/architecture.md", 2_500),
     ("docs/performance.md", 2_000), ("docs/changelog.md", 1_500), ("docs/scaleout.md", 700)],
)  # fmt: skip
def test_page_is_short(page: str, words: int) -> None:
    assert len(text_of(ROOT / page).split()) <= words


def test_pages_without_the_reference_are_short() -> None:
    assert len(text_of(ROOT / "docs" / "changelog.md").splitlines()) <= 60
    assert len(prose(ROOT / "docs" / "words.md").split()) <= 400
    reference = {"format.md", "hashing.md", "command-line.md", "limits.md", "glossary.md", "same-text.md"}
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name not in reference]
    tokens = [token for page in pages for token in text_of(page).split()]
    assert sum(any(map(str.isalnum, token)) for token in tokens) <= 28_000  # bars of tables are no words


def test_guide_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = of_language(GUIDE, "python")
    for _ in range(2):
        exec(compile(first, "guide.md", "exec"), {})
        printed = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in printed[:2]] == ["a", "b"]
        assert printed[0] == "a 1.0 0"
        assert printed[2:] == ["a c", "a {'page': 7} 3"]
        exec(compile(second, "guide.md", "exec"), {})
    with simindex.open("pages.simindex", "r") as index:
        assert list(index) == [1, 2]


def readme_commands(page: Path) -> list[str]:
    return [block for block in of_language(page, "sh") if "simindex insert" in block]


def test_guide_commands_run_and_run_again(tmp_path: Path) -> None:
    (block,) = readme_commands(GUIDE)
    for _ in range(2):
        assert re.search(r"^a +\d\.\d{3} +\d+$", run_block(block, tmp_path), re.MULTILINE)
    with simindex.open(tmp_path / "ferries.simindex", "r") as index:
        assert list(index) == ["a"]


def commands() -> dict[str, set[str]]:
    """The options of every command; those of `scaleout` together."""
    options: dict[str, set[str]] = {}
    for name, command in COMMANDS.items():
        own = {opt for p in command.params if isinstance(p, click.Option) for opt in p.opts}
        options.setdefault(name.split()[0], set()).update(own)
    return options


def commands_in(page: Path) -> list[tuple[str, str]]:
    """The commands of simindex in blocks of the shell and in the text, each with its line."""
    lines = "\n".join(of_language(page, "sh")).replace("\\\n", " ").splitlines()
    lines += re.findall(r"`(simindex [a-z][^`]*)`", text_of(page))
    return [(m[1], line) for line in lines for m in re.finditer(r"^simindex ([a-z]+)", line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_that_a_page_names_exist(page: Path) -> None:
    known = commands()
    for name, line in commands_in(page):
        assert name in known, line
        options = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", line))
        assert options <= known[name] | {"--help"}, line


@pytest.mark.parametrize("page", [README, GUIDE], ids=["readme", "guide"])
def test_page_shows_the_main_commands(page: Path) -> None:
    assert {"insert", "query", "dedup", "curve"} <= {name for name, _ in commands_in(page)}
    inline = set(re.findall(r"`(--[a-z][a-z-]*)", text_of(page)))
    assert inline <= set().union(*commands().values())


RUN_ELSEWHERE = {
    "scaleout.md": "tests/scaleout/test_one_node.py",
    "thresholds.md": "tests/tuning/test_thresholds_page.py",
    "start.md": "tests/test_course.py",
    "coming-from.md": "tests/test_course.py",
}
"""Pages whose programs another file of tests runs, beside the folders course and howto."""


def test_no_page_has_a_program_that_no_test_runs() -> None:
    run = {
        "README.md",
        "guide.md",
        "format.md",
        "minhash-or-simhash.md",
        "same-text.md",
        "words.md",
        *RUN_ELSEWHERE,
    }
    pages = [page for page in PAGES if page.parent.name not in ("course", "howto") and page.name not in run]
    assert not [page.name for page in pages if re.search(r"^```(python|pycon)|^>>> ", text_of(page), re.M)]
    for page, tests in RUN_ELSEWHERE.items():
        assert page.removesuffix(".md") in (ROOT / tests).read_text(encoding="utf-8")


def test_page_on_the_command_line_names_what_exists() -> None:
    page = ROOT / "docs" / "command-line.md"
    known = commands()
    assert {row[0] for row in table_rows(page, "command")} == known.keys()
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text_of(page)))
    assert options <= set().union(*known.values()) | {"--help", "--install-completion"}
    suffixes = {name for row in table_rows(page, "input") for name in re.findall(r"\.[a-z]+", row[0])}
    assert suffixes == SUFFIXES.keys()
    assert [row[0] for row in table_rows(page, "code")] == ["0", "1", "2", "130"]


def test_guide_states_the_limits_of_the_code() -> None:
    text = text_of(GUIDE)
    assert f"{DEFAULT_MAX_CANDIDATES:,}" in text
    assert MAX_KEY_BYTES == 64 * 1024
    index = simindex.Index
    calls = simindex.open, index.query, index.insert_many, index.insert_many_if_new, index.pairs
    parameters = {name for call in calls for name in inspect.signature(call).parameters}
    assert set(re.findall(r"`(?:simindex\.)?([a-z_]+)=", text)) <= parameters


# ---- links ----


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made on GitHub."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!http)([^)\s]+)\)", prose(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in slugs(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_pages_name_exist(page: Path) -> None:
    for name in re.findall(r"`((?:simindex|tests|tools)/[\w/.-]+)`", text_of(page)):
        assert (ROOT / name).exists(), name


# ---- docs/hashing.md ----

HASHING = ROOT / "docs" / "hashing.md"


def vectors() -> list[dict[str, Any]]:
    """The texts with known answers: field -> value, `hash` -> list of (hash, shingle)."""
    (block,) = of_language(HASHING, "vectors")
    found = []
    for paragraph in block.strip().split("\n\n"):
        vector: dict[str, Any] = {"hash": []}
        for line in paragraph.splitlines():
            name, _, value = line.partition(" ")
            value = value.strip()
            if name == "hash":
                digits, _, shingle = value.partition(" ")
                vector["hash"].append((int(digits, 16), json.loads(shingle)))
            else:
                vector[name] = value
        vector["text"] = json.loads(vector["text"])
        kind, size = vector["shingles"].split()
        vector["kind"] = {"words": WordShingles, "characters": CharShingles}[kind]
        vector["size"] = int(size)
        vector["steps"] = () if vector["normalize"] == "none" else tuple(vector["normalize"].split())
        vector["seed"] = int(vector["seed"])
        for name in ("rows", "words"):
            values = vector.get(name, "none")
            vector[name] = None if values == "none" else [int(value, 16) for value in values.split()]
        vector["fingerprint"] = None if (hexed := vector["fingerprint"]) == "none" else int(hexed, 16)
        found.append(vector)
    return found


VECTORS = vectors()
vector_cases = pytest.mark.parametrize("vector", VECTORS, ids=[vector["#"] for vector in VECTORS])


def test_hashing_vectors_are_of_several_kinds() -> None:
    assert len(VECTORS) >= 12
    assert len({vector["seed"] for vector in VECTORS}) >= 2
    assert {vector["kind"] for vector in VECTORS} == {WordShingles, CharShingles}
    assert f"This is version {HASHING_VERSION}," in text_of(HASHING)


@vector_cases
def test_hashing_vector_equals_the_sketcher(vector: dict[str, Any]) -> None:
    shingles = vector["kind"](vector["size"], vector["steps"])
    simhash = SimHashConfig(shingles=WordShingles(1, vector["steps"]))
    config = Config(shingles=shingles, num_perm=16, simhash=simhash, seed=vector["seed"])
    sketch = Sketcher(config).sketch(vector["text"])
    assert (None if sketch.words is None else sketch.words.tolist()) == vector["words"]
    assert sketch.fingerprint == vector["fingerprint"]
    assert simindex.sketching.shingles.shingle_hashes(vector["text"], shingles, vector["seed"]).tolist() == [
        value for value, _ in vector["hash"]
    ]


@vector_cases
def test_hashing_vector_equals_the_textbook(vector: dict[str, Any]) -> None:
    text, seed = textbook.normalize(vector["text"], vector["steps"]), vector["seed"]
    if vector["kind"] is WordShingles:
        shingles = textbook.word_shingles(textbook.words(text), vector["size"])
    else:
        shingles = textbook.character_shingles(text, vector["size"])
    hash_of = textbook.word_shingle_hash if vector["kind"] is WordShingles else textbook.shingle_hash
    hashes = [hash_of(shingle, seed) for shingle in shingles]
    assert list(zip(hashes, shingles, strict=True)) == vector["hash"]
    if hashes:
        rows = textbook.similarity_rows(hashes, 16, seed)
        assert rows[:4] == vector["rows"]
        assert textbook.band_words(textbook.row_values(rows)) == vector["words"]
    features = [textbook.shingle_hash(word, seed) for word in textbook.words(text)]
    assert (textbook.simhash(features) if features else None) == vector["fingerprint"]


def test_hashing_tables_hold() -> None:
    for data, seed, expected in table_rows(HASHING, "bytes"):
        raw = b"" if data == "(none)" else bytes.fromhex(data)
        assert textbook.folded_hash(raw, int(seed)) == int(expected, 16)
        assert simindex.sketching.shingles.ready_hashes([raw], int(seed)).tolist() == [int(expected, 16)]
    rows = table_rows(HASHING, "seed")
    assert len(rows) == 2
    for seed, *values in rows:
        flat = [value for pair in textbook.row_coefficients(3, int(seed)) for value in pair]
        assert [*flat, *textbook.round_multipliers(3, int(seed))[0]] == [int(value, 16) for value in values]
        assert simindex.sketching.hash_family.row_coefficients(3, int(seed)).T.ravel().tolist() == flat
    keys = table_rows(HASHING, "key")
    assert len(keys) == 6
    for key, packed, expected in keys:
        encoded = encode_key(eval(key, {"__builtins__": {}}))
        assert encoded.hex(" ") == packed
        assert int(key_hashes([encoded])[0]) == int(expected, 16)


def test_hashing_weighted_example_holds() -> None:
    found = re.search(r"Weighted shingles `(\{.*?\})` .* fingerprint `([0-9a-f]{16})`", text_of(HASHING))
    assert found is not None
    weighted, expected = json.loads(found[1]), int(found[2], 16)
    assert Sketcher().sketch(weighted).fingerprint == expected
    hashed = [(textbook.shingle_hash(s, 1), w) for s, w in weighted.items() if w]
    assert textbook.weighted_simhash(hashed) == expected


def test_hashing_counts_of_classes_are_those_of_the_alphabet() -> None:
    alphabet = simindex.sketching.alphabet
    rows = {row[0]: row[2] for row in table_rows(HASHING, "class")}
    names = ("other", "word", "alone", "mark", "space", "flag", "modifier", "selector")
    kinds = Counter(names[kind & alphabet.CLASS_BITS] for kind in alphabet.class_table())
    counts = {name: int(count.replace(",", "")) for name, count in rows.items() if count}
    counts["alone"] += counts.pop("symbol")
    counts["mark"] += counts.pop("tag")
    assert counts == {name: kinds[name] for name in names[1:]}
    folds = alphabet.fold_table()
    several = int((folds[:, 2] > 0).sum())
    assert f"{len(folds):,} code points change, {several} of them" in text_of(HASHING)
    assert f"Unicode {alphabet.unicode_version()[:-2]}" in text_of(HASHING)


def test_hashing_collisions_of_kept_shingles_are_those_of_the_page() -> None:
    rows = table_rows(HASHING, "shingles of both documents together")
    assert len(rows) == 5
    for shingles, pairs, chance, moved in rows:
        count = int(shingles.replace(",", ""))
        expected = count * (count - 1) / 2 / 2**_kernel.KEPT_BITS
        assert pairs == f"{expected:.2g}"
        assert chance == f"{-math.expm1(-expected):.2g}"
        assert moved == f"{2 / count:.2g}"
        assert count > 20_000 or float(chance) < 0.001  # two documents of 10,000 at most
    # 3 M shingles: 16.4 pairs expected. The hashes are always the same; of others, Poisson's law lies outside
    # 2..45 once in a million.
    hashes = np.frombuffer(_kernel.hash_ready(range(3_000_000), 1), np.uint64)
    assert 2 <= len(distinct(hashes)) - len(_kernel.smallest_hashes(hashes, len(hashes))) // 8 <= 45


# ---- docs/format.md ----

FORMAT = ROOT / "docs" / "format.md"
EXAMPLE_SECONDS = 1_700_000_000


def hex_blocks() -> list[tuple[str, bytes, bytes]]:
    """(database, key, value) of every hex block of the page."""
    found = []
    for block in of_language(FORMAT, "hex"):
        first, *rest = (line.partition("#")[0].strip() for line in block.splitlines())
        database, key = first.split()
        found.append((database, bytes.fromhex(key), octets(" ".join(rest))))
    return found


BLOCKS = hex_blocks()
NOTE = BLOCKS[0]
WHOLE, CHUNKS, SAMPLED = (
    {(d, k): v for d, k, v in part} for part in (BLOCKS[1:-7], BLOCKS[-7:-2], BLOCKS[-2:])
)


def stored(index: Index) -> dict[tuple[str, bytes], bytes]:
    """Everything in the databases of an index."""
    with index._store.reading() as txn:
        found = {(name, key): bytes(value) for name in DATABASES for key, value in txn.items(name)}
        return {("main", b"manifest"): bytes(txn.get("main", b"manifest") or b""), **found}


@pytest.fixture
def fixed_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands still, but for the second that passes before a touch; the identity is that of the page."""
    clock, touch = [EXAMPLE_SECONDS], Index.touch

    def touch_later(index: Index, *keys: Key) -> int:
        clock[0] += 1
        return touch(index, *keys)

    monkeypatch.setattr("time.time_ns", lambda: clock[0] * 10**9)
    monkeypatch.setattr(Index, "touch", touch_later)
    monkeypatch.setattr("secrets.token_bytes", lambda count: bytes(range(count)))


@pytest.mark.usefixtures("fixed_clock")
@pytest.mark.parametrize("layout", ["", ", layout=simindex.Layout(chunk_bytes=1)"], ids=["whole", "chunks"])
def test_format_example_is_what_the_library_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"simindex": simindex}
    (example,) = of_language(FORMAT, "python")
    exec(compile(example.replace(", config)", f", config{layout})"), "format.md", "exec"), names)
    with names["index"] as index:
        found = stored(index)
    assert found == WHOLE if not layout else found.items() >= CHUNKS.items()


@pytest.mark.usefixtures("fixed_clock")
def test_format_example_with_sampled_shingles_is_what_the_library_writes(tmp_path: Path) -> None:
    text = "The quick brown fox jumps over the lazy dog"
    assert f'"{text}"' in text_of(FORMAT)
    config = Config(num_perm=8, simhash=None, containment=64)
    with simindex.open(tmp_path / "example", "x", config) as index:
        index.insert("fox", text)
        found = stored(index)
    assert found.items() >= SAMPLED.items()
    assert found.keys() - SAMPLED.keys() == {("meta", b"config")}


def test_format_shingle_table_is_as_the_page_says() -> None:
    """Without simindex.format: the keys of the example are the mixed hashes, rotated, and the number 0."""
    value = SAMPLED["segments", number(0) + b"\xff\xff" + bytes(4)]
    words = textbook.words("the quick brown fox jumps over the lazy dog")
    shingles = textbook.word_shingles(words, 3)
    hashes = [textbook.word_shingle_hash(shingle, 1) for shingle in shingles]
    mixed = textbook.sampled_hashes(hashes, 64)
    keys = sorted(x << 6 & 2**64 - 1 | x >> 58 << 26 for x in mixed)
    assert np.frombuffer(value, "<u8", 7, 24).tolist() == keys
    assert f"`1` gives `x = {textbook.sample_hash(1):x}`" in text_of(ROOT / "docs" / "hashing.md")


def number(value: int) -> bytes:
    return value.to_bytes(8, "big")


def test_format_example_of_a_note_holds() -> None:
    database, key, value = NOTE
    call = bytes(range(16))
    assert (database, key, value) == ("meta", done_key(258), encode_done(258, call, [3, 0, 1]))
    assert decode_done(key, value) == (call, [3, 0, 1])
    assert xxhash.xxh64_digest(key + value[:-8], 1) == value[-8:]


def test_format_examples_of_kept_shingles_hold() -> None:
    rows = table_rows(FORMAT, "hashes")
    assert len(rows) > 4
    for hashes, packed in rows:
        values = [] if hashes == "(none)" else [int(value) for value in hashes.split(", ")]
        assert encode_kept(np.array(values, np.uint64)).hex(" ") == packed
        assert decode_kept(bytes.fromhex(packed)).tolist() == values


def test_format_example_decodes_as_the_page_says() -> None:
    """Without simindex.format: widths, order and seals as the page has them."""
    seeds = {"documents": 0, "meta": 1, "segments": 2, "removed": 3, "groups": 4, "ages": 5}
    named = ", ".join(f"{seed} for `{database}`" for database, seed in seeds.items())
    assert f"seeded with a number for each database: {named}" in text_of(FORMAT)
    for (database, key), value in WHOLE.items():
        seed = seeds["meta" if database == "main" else database]
        assert xxhash.xxh64_digest(key + value[:-8], seed) == value[-8:]
    key = number(0) + b"\xff\xff" + bytes(4)
    value = WHOLE["segments", key][:-8]
    at = 0

    def take(dtype: str, count: int) -> list[int]:
        nonlocal at
        array = np.frombuffer(value, dtype, count, at)
        at += array.nbytes
        return list(array.tolist())

    texts = ["The quick brown fox", "the lazy dog sleeps"]
    sketcher = Sketcher(Config(num_perm=8))
    sketches = [sketcher.sketch(text) for text in texts]
    words = [int(sketch.words[0]) for sketch in sketches if sketch.words is not None]
    fingerprints = [sketch.fingerprint for sketch in sketches if sketch.fingerprint is not None]
    assert len(words) == len(fingerprints) == 2
    hashes = [xxhash.xxh64_intdigest(packed) for packed in (b"\xa3fox", b"\xc4\x01\x07", b"\x03")]
    assert list(zip(take("<u8", 3), take("<u4", 3), strict=True)) == sorted(
        (h, n) for n, h in enumerate(hashes)
    )
    assert (take("<u8", 1), take("<u4", 1)) == ([0], [2])
    assert list(zip(take("<u8", 2), take("<u4", 2), strict=True)) == sorted(
        (word, n) for n, word in enumerate(words)
    )
    for order in textbook.permutation_orders(4, 3):
        permuted = [
            textbook.permute(fingerprint, textbook.blocks(64, 4), order) for fingerprint in fingerprints
        ]
        found = list(zip(take("<u8", 2), take("<u4", 2), strict=True))
        assert found == sorted((p, n) for n, p in enumerate(permuted))
    assert take("<u8", 2) == words
    assert take("<u8", 2) == fingerprints
    assert take("<u4", 2) == [0, 1]
    assert at == len(value)


def test_format_block_seals_are_as_the_page_says() -> None:
    """Each of these chunks is one block, and its seal that of all bytes before it."""
    for (_, key), value in CHUNKS.items():
        seed = xxhash.xxh64_intdigest(key, 2) & (2**63 - 1)
        assert value[-8:] == xxhash.xxh64_intdigest(value[:-8], seed).to_bytes(8, "little")


def test_format_pages_are_as_the_page_says() -> None:
    """Columns of as many places as a page has rows, behind 16 bytes that the first page lacks."""
    keys, *_, sketch = (value for (database, _), value in CHUNKS.items() if database == "segments")
    assert len(keys) == len(sketch) == 4096 - 16
    rows = (4096 - 16 - 8) // 12
    assert np.frombuffer(keys, "<u4", 3, 8 * rows).tolist() == [2, 1, 0]
    assert not any(keys[24 : 8 * rows])
    assert not any(keys[8 * rows + 12 : -8])
    rows = (4096 - 16 - 8) // 20
    assert sketch[8 * rows :][:8] == bytes.fromhex("f5 06 e7 36 e3 ef 6e 5f")
    assert np.frombuffer(sketch, "<u4", 1, 16 * rows).tolist() == [1]


def test_format_fences_filter_and_bitmap_are_as_the_page_says() -> None:
    keys, fence, line, bitmap, sketch = (v for (database, _), v in CHUNKS.items() if database == "segments")
    assert fence[:-8] == keys[:8]
    hashes = [int.from_bytes(keys[at : at + 8], "little") for at in (0, 8, 16)]
    bits = set().union(*(places_in_filter(key, 64, 1, 1)[1] for key in hashes))
    assert int.from_bytes(line[:64], "little") == sum(1 << bit for bit in bits)
    words = {sketch[:8], bytes.fromhex("34 2a bb 0a ff c3 aa 75")}  # of both sketches: see the whole segment
    leading = {int.from_bytes(word, "little") >> 58 for word in words}
    assert int.from_bytes(bitmap[:8], "little") == sum(1 << bit for bit in leading)


def test_format_numbers_of_the_page_are_those_of_the_code() -> None:
    text = text_of(FORMAT)
    assert f"This is format version {FORMAT_VERSION}." in text
    assert f"up to {MAX_METADATA_DEPTH:,} arrays and maps inside one another" in text
    assert f"{MAX_METADATA_BYTES >> 30} GiB" in text
    rows = page_shape((8, 0, 4))[0], page_shape((8 * Config().bands, 8, 4))[0]
    assert rows[0] == _kernel.TABLE_BLOCK
    assert f"That is {rows[0]} entries of a sorted table, and {rows[1]} rows of a sketch column of" in text
    assert f"or {_kernel.WORDS_BLOCK} words of fences, a filter or a bitmap" in text
    config = Config()
    plan = plan_for(config.simhash)
    assert plan is not None
    blocks = len(plan.widths)
    tables = Geometry(config.bands, make_plan(blocks, 3).num_tables, Layout())
    sizes = (tables.segment_bytes(SegmentEntry(0, 0, n, n, 0, n, n, n)) for n in range(1, 10_000))
    most = next(n for n, size in enumerate(sizes, 1) if size > Layout().chunk_bytes)
    assert f"that is up to {most - 1:,} documents" in text


@pytest.mark.parametrize("page", ["minhash-or-simhash.md", "same-text.md", "words.md"])
def test_examples_at_a_prompt_run(page: str) -> None:
    found = doctest.testfile(str(ROOT / "docs" / page), module_relative=False, encoding="utf-8")
    assert found.attempted > 5
    assert not found.failed
