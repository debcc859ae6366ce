"""Fingerprints made elsewhere, in and out of the command line."""

import json
from pathlib import Path

import pytest
from support.commands import Run, matches_of, must_say, stored
from support.texts import FOX, json_lines

import simindex

NUMBER = 0xFEDC_BA98_7654_3210
SIGNED = NUMBER - (1 << 64)


@pytest.mark.parametrize(
    ("value", "base"),
    [
        (NUMBER, 16),
        (SIGNED, 16),
        ("fedcba9876543210", 16),
        (" 0xFEDCBA9876543210", 16),
        (str(NUMBER), 10),
        (str(SIGNED), 10),
    ],
)
def test_fingerprint_is_read_in_every_form(run: Run, value: object, base: int) -> None:
    options = ["--fingerprint-field", "fp", "--fingerprint-base", base]
    row = json_lines([{"id": "a", "fp": value}])
    assert run("insert", "ix", "-", *options, "--no-minhash", stdin=row).code == 0
    with simindex.open("ix", "r") as index:
        assert index["a"].sketch.fingerprint == NUMBER
    line = json.loads(run("query", "ix", "--input", "-", *options, "--json", stdin=row).out)
    assert line["matches"][0]["distance"] == 0


@pytest.mark.parametrize(
    ("value", "base", "reason"),
    [
        ("18364758544493064720", 16, "expected 1 to 16 hexadecimal digits, found '18364758544493064720'; "),
        ("fedc", 10, "expected a decimal integer of 64 bits, found 'fedc'; --fingerprint-base 16 reads"),
        ("", 16, "expected 1 to 16 hexadecimal digits, found ''"),
        ("1_0", 10, "expected a decimal integer of 64 bits, found '1_0'"),
        (1 << 64, 16, "expected "),
        (None, 16, "expected a fingerprint, an integer or its digits, found null"),
        (True, 16, "expected a fingerprint, an integer or its digits, found bool"),
        (1.0, 16, "expected a fingerprint, an integer or its digits, found float"),
        ([1], 16, "expected a fingerprint, an integer or its digits, found list"),
    ],
)
def test_fingerprint_that_is_none_is_a_bad_row(run: Run, value: object, base: int, reason: str) -> None:
    options = ["--fingerprint-field", "fp", "--fingerprint-base", base]
    result = run("insert", "ix", "-", *options, stdin=json_lines([{"id": "a", "fp": value}]))
    assert result.code == 1
    assert result.err.startswith(f"simindex: stdin:1: fp: {reason}")


def test_query_fingerprint_finds_by_distance(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        f"id,fp\nsame,{NUMBER:016x}\nnear,{NUMBER ^ 3:016x}\nfar,{NUMBER ^ 255:016x}\n"
    )
    assert run("insert", "ix", "a.csv", "--fingerprint-field", "fp", "--no-minhash").code == 0
    for digits, found in (
        (["fedcba9876543210"], [("same", 0), ("near", 2)]),
        ([f"{NUMBER}", "--fingerprint-base", 10], [("same", 0), ("near", 2)]),
        (["0xfedcba9876543210", "--max-distance", 0], [("same", 0)]),
    ):
        matches = matches_of(run("query", "ix", "--json", "--fingerprint", *digits))
        assert [(match["key"], match["distance"]) for match in matches] == found
    missed = run("query", "ix", "--fingerprint", "0")
    assert missed.err == "simindex: no match within 3 bits of its fingerprint\n"


def test_insert_key_from_content_of_a_fingerprint_is_its_digits(run: Run) -> None:
    rows = json_lines([{"fp": NUMBER}, {"fp": SIGNED}])
    options = ["--fingerprint-field", "fp", "--key-from", "content"]
    result = run("insert", "ix", "-", *options, stdin=rows)
    assert "1 row equal to another" in result.err
    assert stored("ix") == [f"{NUMBER:016x}"]


SIMILAR = json_lines([{"id": "a", "fp": NUMBER}, {"id": "near", "fp": NUMBER ^ 3}, {"id": "far", "fp": 255}])


def test_insert_if_new_compares_by_fingerprints(run: Run) -> None:
    how = ["--fingerprint-field", "fp"]
    refused = run("insert", "ix", "-", *how, "--if-new", stdin=SIMILAR)
    must_say(refused, "expected MinHash rows", "brought in without; take --simhash")
    taken = run("insert", "ix", "-", *how, "--if-new", "--simhash", stdin=SIMILAR)
    must_say(taken, "1 skipped (1 of them like another)", code=0)
    assert stored("ix") == ["a", "far"]


def test_query_of_bare_fingerprints_names_simhash_and_its_nearest(run: Run) -> None:
    assert run("insert", "ix", "-", "--fingerprint-field", "fp", stdin=SIMILAR).code == 0
    for options in ([FOX], ["--key", "a"], ["--nearest", 1, FOX]):
        refused = run("query", "ix", *options)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.endswith("bare fingerprints alone; ask by SimHash: --simhash\n")
    digits = f"{NUMBER:016x}"
    for options, keys in (
        (["--fingerprint", digits, "--nearest", 2], ["a", "near"]),
        (["--fingerprint", digits, "--limit", 2], ["a", "near"]),
        (["--key", "a", "--simhash", "--nearest", 1], ["near"]),
    ):
        found = matches_of(run("query", "ix", *options, "--json"))
        assert [match["key"] for match in found] == keys
