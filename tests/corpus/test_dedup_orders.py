"""Keep orders: a star in another order than the input's, written in the input's."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from support.truth import kept_by_index, texts

from simindex import Config, SimIndexError, Sketcher
from simindex.corpus import DedupSettings, deduplicate
from simindex.inputs import BadRowError, Fields, InputError, Inputs

TEXTS = [text[: len(text) - number % 9] for number, text in enumerate(texts(500))]
ROWS: list[dict[str, Any]] = [
    {"id": number % 50, "text": text, "score": [None, 7, 2.5, "a", "b"][number * 7 % 5], "n": number}
    for number, text in enumerate(TEXTS)
]


def write(path: Path) -> Path:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in ROWS))
    return path


def by_score(row: dict[str, Any]) -> tuple[int, Any]:
    score = row["score"]
    return (0, 0) if score is None else (2, score) if isinstance(score, str) else (1, score)


def first_word(row: Any) -> str:
    return str(min(row.document.split()))


@pytest.mark.parametrize(
    ("keep", "rank"), [("field:score", by_score), (first_word, lambda row: min(row["text"].split()))]
)
def test_order_keeps_what_the_index_keeps_of_rows_in_that_order(
    tmp_path: Path, keep: Any, rank: Callable[[Any], Any]
) -> None:
    ordered = sorted(ROWS, key=rank, reverse=True)  # it is stable in reverse, too
    kept = [ordered[index]["n"] for index in kept_by_index(tmp_path / "i", [r["text"] for r in ordered])]
    write(tmp_path / "a.jsonl")
    report = deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", keep=keep)
    found = [orjson.loads(line)["n"] for line in (tmp_path / "out.jsonl").read_bytes().splitlines()]
    assert found == sorted(kept) != kept_by_index(tmp_path / "first", TEXTS)
    assert report[:3] == (500, len(kept), 500 - len(kept))


@pytest.mark.parametrize(
    "ranks",
    [
        [10**400, 2**64, 1.5, -(10**400)],
        ["\udcff", "\ud83d", "\u00e9", "e\0b", "e", ""],
        [
            datetime.fromisoformat(f"2024-10-27T{time}")
            for time in ("02:00+01:00", "02:30+02:00", "00:20+00:00")
        ],
        [np.float32(0.5), 0, float("-inf"), None],
        [Decimal("10.5"), 10, Decimal("9.5")],
    ],
    ids=["numbers", "texts", "times", "kinds", "decimals"],
)
@pytest.mark.parametrize("turned", [False, True])
def test_rows_are_in_the_order_of_python_whatever_they_are_ordered_by(ranks: list[Any], turned: bool) -> None:
    rows = [(index, "one text of all", {"rank": rank}) for index, rank in enumerate(ranks)][
        :: -1 if turned else 1
    ]
    for keep in ("field:rank", lambda row: row.metadata["rank"]):
        while len(rows) > 1:
            kept: list[Any] = []
            deduplicate(rows, kept.append, keep=keep)
            assert [row.key for row in kept] == [min(row[0] for row in rows)]
            rows = [row for row in rows if row[0] != kept[0].key]


def test_field_that_cannot_be_ordered_is_named_with_its_row(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "some words here", "score": [1]}')
    with pytest.raises(InputError, match=r"a\.jsonl:1: expected a number or a text to order the rows by"):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", keep="field:score")


def test_cell_that_reads_as_a_number_is_one_in_an_order(tmp_path: Path) -> None:
    rows = [(number, score) for number, score in enumerate(["9", "", "1e1", "-3", "9.5"], 1)]
    cells = "".join(f"{number},one text of all,{score}\n" for number, score in rows)
    (tmp_path / "a.csv").write_text("id,text,score\n" + cells)
    kept: list[Any] = []
    deduplicate(tmp_path / "a.csv", kept.append, keep="field:score")
    assert [row.key for row in kept] == ["3"]
    (tmp_path / "dates.csv").write_text(
        "id,text,date\n1,one text of all,2024-01-05\n2,one text of all,\n3,one text of all,2024-11-30\n"
    )
    deduplicate(tmp_path / "dates.csv", kept.append, keep="field:date")
    assert kept[-1].key == "3"


def test_field_that_no_row_has_is_no_order(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "some words here", "date": null}')
    with pytest.raises(SimIndexError, match="rows with a field 'score' to order them by, found none of 1"):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", keep="field:score")
    (tmp_path / "none.jsonl").write_text("")
    assert deduplicate(tmp_path / "none.jsonl", tmp_path / "nothing.jsonl", keep="field:score").read == 0


@pytest.mark.parametrize(
    "keep", ["longestt", "newest ", "Longest", "descending", "field:", "field", "", None]
)
def test_order_that_is_misspelt_is_refused(keep: Any) -> None:
    with pytest.raises(ValueError, match="keep: expected first, longest, newest or field:NAME"):
        deduplicate([(1, TEXTS[0])], None, keep=keep)


def test_job_that_was_refused_is_given_up_for_another(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl")
    (tmp_path / "rows").mkdir()
    for keep, field in (("field:none", "text"), ("longest", "none"), ("first", "none")):
        fields = Inputs([str(tmp_path / "a.jsonl")], Fields("n", field, key_from="line", whole_rows=True))
        with pytest.raises((SimIndexError, BadRowError), match="none"):
            deduplicate(fields, tmp_path / "rows" / "out.jsonl", keep=keep)
        assert not list((tmp_path / "rows").iterdir())
    deduplicate(tmp_path / "a.jsonl", tmp_path / "rows" / "out.jsonl", keep="field:score")


def test_job_that_has_ordered_rows_is_not_given_up(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl")
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"text": 1}\n')
    with pytest.raises(BadRowError, match=r"a\.jsonl:501"):
        deduplicate(
            tmp_path / "a.jsonl",
            tmp_path / "out.jsonl",
            keep="longest",
            settings=DedupSettings(batch_size=100, workers=1),
        )
    with pytest.raises(SimIndexError, match=r"begun with keep=.longest., and you ask for keep=.newest."):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", keep="newest")


def test_of_sketches_the_one_of_the_most_shingles_is_the_longest() -> None:
    sketcher = Sketcher(Config())
    rows = [(name, sketcher.sketch(text)) for name, text in (("part", TEXTS[0][:-60]), ("all", TEXTS[0]))]
    kept: list[Any] = []
    deduplicate(rows, kept.append, keep="longest", config=Config())
    assert [row.key for row in kept] == ["all"]
