"""Web archives: which records are pages, what their text is, and archives that are torn or hostile."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from support.samples import sample_of

from simindex.inputs import BadRowError, Fields, InputError, Inputs, Limits, Row

WORDS = "The ferry to the island leaves at nine in the morning and comes back at six in the evening."


def html(text: str) -> bytes:
    return (
        "<!doctype html><html><head><title>T</title><script>var hidden = 1;</script></head><body>"
        "<nav><a href='/'>Home</a> <a href='/a'>About us</a></nav>"
        f"<main><h1>Timetable</h1><p>{text}</p></main>"
        "<footer>All rights reserved</footer></body></html>"
    ).encode()


def record(kind: str, url: str, content: bytes, **headers: str) -> bytes:
    head = {"WARC-Type": kind, "WARC-Target-URI": url, "WARC-Date": "2026-01-02T03:04:05Z"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    head["Content-Length"] = str(len(content))
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"WARC/1.0\r\n{lines}\r\n".encode() + content + b"\r\n\r\n"


def response(url: str, body: bytes, kind: str = "text/html", status: str = "200 OK", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}\r\n".encode()
    return record("response", url, head + body, Content_Type="application/http; msgtype=response")


PAGES = [
    record("warcinfo", "", b"software: test\r\n"),
    response("https://a.example/1", html(WORDS)),
    record("request", "https://a.example/1", b"GET /1 HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    response("https://a.example/gone", html("nothing"), status="404 Not Found"),
    response("https://a.example/i.png", b"\x89PNG", "image/png"),
    response(
        "https://a.example/2", html("Привет, мир").decode().encode("cp1251"), "text/html; charset=cp1251"
    ),
    response("https://a.example/3", b"plain words\r\nhere", "text/plain"),
    response("https://a.example/4", gzip.compress(html(WORDS)), more="Content-Encoding: gzip\r\n"),
    response("https://a.example/empty", b"<html><body></body></html>"),
    record("conversion", "https://a.example/5", "made of a page: é".encode(), Content_Type="text/plain"),
    record("metadata", "https://a.example/5", b"x: y"),
]


def rows_of(path: Path, **options: Any) -> list[Row | BadRowError]:
    return list(Inputs([str(path)], **options))


@pytest.mark.parametrize("packing", ["", ".gz", "one.gz"])
def test_pages_come_with_url_and_main_text(tmp_path: Path, packing: str) -> None:
    pack: Any = {"": bytes, ".gz": gzip.compress, "one.gz": bytes}[packing]
    path = tmp_path / f"a.warc{packing.removeprefix('one')}"
    content = b"".join(map(pack, PAGES))
    path.write_bytes(gzip.compress(content) if packing == "one.gz" else content)
    inputs = Inputs([str(path)], Fields(metadata=True))
    rows = list(inputs)
    assert [row.key for row in rows if isinstance(row, Row)] == [
        f"https://a.example/{n}" for n in range(1, 6)
    ]
    first, second, third, fourth, fifth = (row.document for row in rows if isinstance(row, Row))
    assert isinstance(first, str)
    assert WORDS in first
    assert not any(word in first for word in ("About us", "rights reserved", "hidden"))
    assert fourth == first
    assert "Привет, мир" in str(second)
    assert (third, fifth) == ("plain words\nhere", "made of a page: é")
    assert isinstance(rows[0], Row)
    assert rows[0].metadata == {"date": "2026-01-02T03:04:05Z", "content_type": "text/html"}
    assert inputs.tally.records == 6
    assert inputs.bytes_read == path.stat().st_size


@pytest.mark.parametrize("packed", [False, True])
def test_torn_archive_is_named_with_its_record_wherever_it_is_torn(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("a.warc.gz" if packed else "a.warc")
    pack = gzip.compress if packed else bytes
    records = list(map(pack, [PAGES[0], PAGES[1], PAGES[6]]))
    whole = b"".join(records)
    end = len(whole) - (0 if packed else 4)  # empty lines at the end are not missed
    for size in range(len(records[0]) + len(records[1]) + 5, end, 7):
        path.write_bytes(whole[:size])
        found = iter(Inputs([str(path)]))
        first = next(found)
        assert isinstance(first, Row)
        with pytest.raises(InputError, match=r"a\.warc(\.gz)?: cannot be read beyond record [23]: "):
            list(found)


def test_what_is_no_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(b"some text\nof another kind\n")
    with pytest.raises(InputError, match=r"a\.warc: cannot be read: "):
        rows_of(tmp_path / "a.warc")
    (tmp_path / "b.warc").write_bytes(PAGES[1].replace(b"Content-Length: ", b"Content-Length: 1"))
    with pytest.raises(InputError, match=r"b\.warc: cannot be read: the archive ends"):
        rows_of(tmp_path / "b.warc")
    longer = PAGES[1].replace(b"\r\n\r\n<!doc", b"\r\n\r\n<!doc" + b"x" * 20)
    (tmp_path / "c.warc").write_bytes(longer + PAGES[6])
    with pytest.raises(InputError, match=r"c\.warc: cannot be read beyond record 1: expected an empty line"):
        rows_of(tmp_path / "c.warc")


def test_page_over_the_limit_is_a_bad_row_and_the_next_one_comes(tmp_path: Path) -> None:
    bomb = gzip.compress(b"<p>" + b"a " * 5_000_000)
    assert len(bomb) < 50_000
    path = tmp_path / "a.warc.gz"
    pages = [response("https://b.example/", bomb, more="Content-Encoding: gzip\r\n"), PAGES[6]]
    path.write_bytes(b"".join(map(gzip.compress, pages)))
    bad, good = rows_of(path)
    assert isinstance(bad, BadRowError)
    assert str(bad) == (
        f"{path}:1: expected a page of at most 8 MiB, found more; --max-row (Limits.row), 32 times as much, "
        "sets the limit"
    )
    assert isinstance(good, Row)
    assert all(isinstance(row, Row) for row in rows_of(path, limits=Limits(row=1 << 29)))


def test_page_of_another_packing_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    other = response("https://b.example/1", b"xyz", more="Content-Encoding: compress\r\n")
    path.write_bytes(other + PAGES[6])
    bad, good = rows_of(path)
    assert str(bad) == f"{path}:1: expected a page packed by gzip, deflate or br, found 'compress'"
    assert isinstance(good, Row)


def test_head_without_end_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "a.warc.gz").write_bytes(gzip.compress(b"WARC/1.0\r\nX: " + b"x" * (1 << 25)))
    with pytest.raises(InputError, match="expected a head of at most 16 MiB"):
        rows_of(tmp_path / "a.warc.gz")


@pytest.mark.parametrize("tag", sample_of([b"<div></x>"], [b"<div>", b"<svg><td>"]))
def test_page_of_endless_nesting_is_read_in_time(tmp_path: Path, tag: bytes) -> None:
    """The search for the main text would take minutes."""
    page = tag * 8_000 + b"<p>" + WORDS.encode() + b"</p>"
    (tmp_path / "a.warc").write_bytes(response("https://b.example/", page))
    (row,) = rows_of(tmp_path / "a.warc")
    assert isinstance(row, Row)
    assert row.document == WORDS


def test_long_page_has_its_main_text_alone(tmp_path: Path) -> None:
    page = html("</p>".join(f"<p>{WORDS} {number}" for number in range(3_000)))
    (tmp_path / "a.warc").write_bytes(response("https://b.example/", page))
    (row,) = rows_of(tmp_path / "a.warc")
    assert isinstance(row, Row)
    assert "About us" not in str(row.document)
    assert f"{WORDS} 2999" in str(row.document)
