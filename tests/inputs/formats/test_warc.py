"""Web archives: which records are pages, what their text is, and archives that are torn or hostile."""

import gzip
import importlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import brotli
import pytest
from support.commands import Run
from support.texts import rows_and_bad

from simindex.inputs import BadRowError, Fields, InputError, Inputs, Limits, Row
from simindex.inputs.streams import ZSTD_MODULE

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


def rows_of(path: Path, **options: Any) -> list[Row]:
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
    bad, good = rows_and_bad([str(path)])
    assert isinstance(bad, BadRowError)
    assert str(bad) == (f"{path}:1: expected a page of at most 8 MiB, found more")
    assert isinstance(good, Row)
    assert all(isinstance(row, Row) for row in rows_of(path, limits=Limits(row=1 << 29)))


def deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(content) + packer.flush()


def chunked(content: bytes) -> bytes:
    pieces = [content[at : at + 50] for at in range(0, len(content), 50)] + [b""]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def zstd(content: bytes) -> bytes:
    module: Any = importlib.import_module(ZSTD_MODULE)
    packed: bytes = module.compress(content)
    return packed


def twice(content: bytes) -> bytes:
    return gzip.compress(gzip.compress(content, mtime=0), mtime=0)


CODINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("Content-Encoding: gzip", gzip.compress),
    ("Content-Encoding: x-gzip", gzip.compress),
    ("content-encoding:  GZIP ", gzip.compress),
    ("Content-Encoding: gzip", lambda content: gzip.compress(content[:70]) + gzip.compress(content[70:])),
    ("Content-Encoding: gzip", lambda content: gzip.compress(content) + b"bytes behind"),
    ("Content-Encoding: gzip", lambda content: gzip.compress(content)[:-6]),
    ("Content-Encoding: deflate", zlib.compress),
    ("Content-Encoding: deflate", deflate),
    ("Content-Encoding: br", brotli.compress),
    ("Content-Encoding: zstd", zstd),
    ("Content-Encoding: zstd", lambda content: zstd(content[:70]) + zstd(content[70:])),
    ("Content-Encoding: gzip, gzip", twice),
    ("Content-Encoding: gzip\r\nContent-Encoding: gzip", twice),
    ("Content-Encoding: br, identity, gzip", lambda content: gzip.compress(brotli.compress(content))),
    ("Content-Encoding: gzip\r\nTransfer-Encoding: Chunked", lambda content: chunked(gzip.compress(content))),
    (
        "Content-Encoding: br\r\nTransfer-Encoding: gzip, chunked",
        lambda it: chunked(gzip.compress(brotli.compress(it))),
    ),
    *(
        (f"Content-Encoding: {label}", bytes)
        for label in (
            "",
            "identity",
            "utf-8",
            "none",
            "gzip",
            "deflate",
            "br",
            "zstd",
            "gzip, br",
            "compress",
        )
    ),
]


@pytest.mark.parametrize(("head", "pack"), CODINGS)
def test_page_is_read_however_it_was_packed_for_its_transport(
    tmp_path: Path, head: str, pack: Callable[[bytes], bytes]
) -> None:
    """Labels that are not true among them: crawlers store pages unpacked and leave the label."""
    path = tmp_path / "a.warc"
    path.write_bytes(response("https://b.example/", pack(html(WORDS)), more=f"{head}\r\n") + PAGES[1])
    packed, plain = rows_of(path)
    assert isinstance(packed, Row)
    assert isinstance(plain, Row)
    assert packed.document == plain.document


def damaged(content: bytes) -> bytes:
    middle = len(content) // 2
    return (
        content[:middle]
        + bytes(255 - byte for byte in content[middle : middle + 40])
        + content[middle + 40 :]
    )


BAD_PACKS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd,
    "gzip, br": lambda content: brotli.compress(content),
    "compress": lambda content: b"\x1f\x9d\x90\x3c\x42\xc8\x10" + content,
    "aes128gcm": lambda content: bytes(range(32)) + content,
}


@pytest.mark.parametrize("coding", BAD_PACKS)
def test_page_that_cannot_be_unpacked_is_a_bad_row(tmp_path: Path, coding: str) -> None:
    path = tmp_path / "a.warc"
    long = html(" ".join(f"{WORDS} {number}" for number in range(2_000)))
    content = damaged(BAD_PACKS[coding](long))
    path.write_bytes(
        response("https://b.example/", content, more=f"Content-Encoding: {coding}\r\n") + PAGES[6]
    )
    bad, good = rows_and_bad([str(path)])
    assert isinstance(bad, BadRowError)
    label = coding.rpartition(" ")[2]
    assert str(bad).startswith(
        f"{path}:1: the page cannot be unpacked: expected a page packed by {label!r}, found "
    )
    assert isinstance(good, Row)


@pytest.mark.parametrize("command", ["insert", "dedup"])
def test_bad_page_ends_a_command_or_is_passed_over(run: Run, tmp_path: Path, command: str) -> None:
    bad = response("https://b.example/", b"\x1f\x9d\x90", more="Content-Encoding: compress\r\n")
    (tmp_path / "a.warc").write_bytes(PAGES[1] + bad + PAGES[6])
    arguments = ["insert", "x", "a.warc"] if command == "insert" else ["dedup", "a.warc", "-o", "x.jsonl"]
    ended = run(*arguments)
    assert ended.code == 1
    assert "a.warc:2: the page cannot be unpacked" in ended.err
    assert run(*arguments, "--skip-bad-rows").code == 0
    found = run("list", "x").out if command == "insert" else (tmp_path / "x.jsonl").read_text()
    assert [page in found for page in ("a.example/1", "b.example", "a.example/3")] == [True, False, True]


@pytest.mark.parametrize(
    ("head", "pack"),
    [
        ("Content-Encoding: br", brotli.compress),
        ("Content-Encoding: zstd", zstd),
        ("Content-Encoding: deflate", zlib.compress),
        ("Content-Encoding: deflate", deflate),
        ("Content-Encoding: gzip, gzip", twice),
        ("Transfer-Encoding: chunked", lambda content: b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)),
        ("Transfer-Encoding: chunked", lambda _: b"1\r\na\r\n" * (300 << 10)),
    ],
)
def test_page_is_bounded_however_it_is_packed(
    tmp_path: Path, head: str, pack: Callable[[bytes], bytes]
) -> None:
    content = pack(b"<p>" + b"a " * 500_000)
    path = tmp_path / "a.warc"
    path.write_bytes(response("https://b.example/", content, more=f"{head}\r\n") + PAGES[6])
    bad, good = rows_and_bad([str(path)], limits=Limits(row=1 << 23))
    assert str(bad).startswith(f"{path}:1: expected a page of at most 256 KiB, found more")
    assert isinstance(good, Row)


RUSSIAN = "Паром на остров отходит в девять утра и возвращается в шесть вечера."
JAPANESE = "島へのフェリーは朝九時に出発します。①～"
FRENCH = "Le café est fermé jusqu'à l'été – €"
META = '<meta charset="{}">'
OLD_META = '<META content="text/html; charset={}" HTTP-EQUIV="Content-Type">'
XML = '<?xml version="1.0" encoding="{}"?>'


@pytest.mark.parametrize(
    ("head", "page", "encoding", "text"),
    [
        ("windows-1251", "", "cp1251", RUSSIAN),
        ("x-cp1251", META.format("utf-8"), "cp1251", RUSSIAN),  # the head goes before the page
        ("KOI8", "", "koi8-r", RUSSIAN),
        ("x-mac-cyrillic", "", "mac-cyrillic", RUSSIAN),
        ("x-sjis", "", "cp932", JAPANESE),
        ("windows-31j", "", "cp932", JAPANESE),
        ("", META.format("shift_jis"), "cp932", JAPANESE),
        ("x-gbk", "", "gb18030", FRENCH),
        ("gb2312", "", "gb18030", JAPANESE),
        ("big5", "", "big5hkscs", "渡輪早上九時開往島上，傍晚六時返回。"),
        ("ks_c_5601-1987", "", "cp949", "섬으로 가는 배는 아침 아홉 시에 떠난다. 똠방각하"),
        ("iso-8859-8-i", "", "iso8859-8", "המעבורת לאי יוצאת בתשע בבוקר"),
        ("x-mac-roman", "", "mac-roman", FRENCH),
        ("latin1", "", "cp1252", FRENCH),
        ("us-ascii", "", "cp1252", FRENCH),
        ("utf-16", "", "utf-16-le", RUSSIAN),
        ("", META.format("windows-1251"), "cp1251", RUSSIAN),
        ("", OLD_META.format("windows-1251"), "cp1251", RUSSIAN),
        ("", XML.format("windows-1251"), "cp1251", RUSSIAN),
        ("", "<!-- <meta charset=koi8-r> -->" + META.format("windows-1251"), "cp1251", RUSSIAN),
        ("", META.format("nonsense") + META.format("windows-1251"), "cp1251", RUSSIAN),
        ("", META.format("utf-16"), "utf-8", RUSSIAN),
        ("", META.format("utf-16be"), "utf-8", JAPANESE),
        ("", META.format("x-user-defined"), "cp1252", FRENCH),
        ("utf-8", META.format("koi8-r"), "utf-16", RUSSIAN),  # a byte order mark goes before both
        ("windows-1251", "", "utf-8-sig", FRENCH),
        *(
            (label, META.format("windows-1251"), "cp1251", RUSSIAN)
            for label in ("utf8mb4", "none", "cp-1252")
        ),
        *(
            (label, "", "utf-8", JAPANESE)
            for label in ("unicode_escape", "utf-7", "rot13", "idna", "undefined")
        ),
        *(
            ("", META.format(label), "utf-8", JAPANESE)
            for label in ("unicode_escape", "utf-7", "rot13", "hex")
        ),
    ],
)
def test_encoding_of_a_page_is_the_one_that_browsers_take(
    tmp_path: Path, head: str, page: str, encoding: str, text: str
) -> None:
    content = f"{page}<html><body><main><p>{text}</p></main></body></html>".encode(encoding)
    kind = f"text/html; charset={head}" if head else "text/html"
    (tmp_path / "a.warc").write_bytes(response("https://b.example/", content, kind))
    (row,) = rows_of(tmp_path / "a.warc")
    assert isinstance(row, Row)
    assert row.document == text


def test_wrong_bytes_of_a_page_are_replaced_and_the_rest_is_kept(tmp_path: Path) -> None:
    content = f"<p>{RUSSIAN}</p>{WORDS}".encode().replace(" в ".encode(), b" \xd0 ", 1)
    (tmp_path / "a.warc").write_bytes(response("https://b.example/", content, "text/html; charset=utf-8"))
    (row,) = rows_of(tmp_path / "a.warc")
    assert isinstance(row, Row)
    assert row.document == f"{RUSSIAN}\n\n{WORDS}".replace(" в ", " \ufffd ", 1)


def test_encoding_that_browsers_refuse_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(response("https://b.example/", html(WORDS), "text/html; charset=iso-2022-kr") + PAGES[6])
    bad, good = rows_and_bad([str(path)])
    assert str(bad).startswith(
        f"{path}:1: the page cannot be read: its label names an encoding that browsers"
    )
    assert isinstance(good, Row)


def test_head_without_end_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "a.warc.gz").write_bytes(gzip.compress(b"WARC/1.0\r\nX: " + b"x" * (1 << 25)))
    with pytest.raises(InputError, match="expected a head of at most 16 MiB"):
        rows_of(tmp_path / "a.warc.gz")


DEEP_TAGS = [
    "<div>",
    "<div></x>",
    "<b>",
    "<span>",
    "<font a>",
    "<ul><li>",
    "<table><td>",
    "<svg><td>",
    "<b><p>",
]


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("tag", DEEP_TAGS)
def test_main_text_is_looked_for_in_linear_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str, is_closed: bool
) -> None:
    """The search goes from each element up to the root. These steps are counted."""
    steps, elements = 0, 0
    plain_text: Any = importlib.import_module("resiliparse.extract.html2text").extract_plain_text
    walk = importlib.import_module("resiliparse.parse.html").traverse_dom

    def extract(tree: Any, main_content: bool, **options: Any) -> Any:
        def look(context: Any) -> None:
            nonlocal steps, elements
            steps += context.depth * main_content
            elements += 1

        walk(tree.body, look, elements_only=True)
        return plain_text(tree, main_content=main_content, **options)

    monkeypatch.setattr("resiliparse.extract.html2text.extract_plain_text", extract)
    closing = "".join(f"</{name}>" for name in reversed(tag.strip("<>").split("><")))
    for depth in (10, 8_000):
        page = f"{tag * depth}<p>{WORDS}</p>{closing * depth * is_closed}"
        (tmp_path / "a.warc").write_bytes(response("https://b.example/", page.encode()))
        found = rows_and_bad([str(tmp_path / "a.warc")])
    assert [row.document for row in found if isinstance(row, Row)] == [WORDS]
    assert elements > 8_000
    assert 0 < steps <= 64 * elements


@pytest.mark.parametrize(
    "tag",
    ["<b a={}>", "<b a='{}'>", "<B\na='>{}'>", "<b a='' b='>{}'>", "<font/a={}>", "<u a={}></u ><i a={}>"],
)
def test_formats_that_are_not_closed_do_not_multiply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str
) -> None:
    """A parser opens them again behind each paragraph. The elements that it makes are counted."""
    elements, parse = [], importlib.import_module("resiliparse.parse.html").HTMLTree.parse
    extract = importlib.import_module("resiliparse.extract.html2text").extract_plain_text

    def counted(tree: Any, **options: Any) -> Any:
        elements.append(len(tree.document.query_selector_all("*")))
        return extract(tree, **options)

    monkeypatch.setattr("resiliparse.extract.html2text.extract_plain_text", counted)
    assert len(parse("<p><b>x<p>y").document.query_selector_all("b")) == 2
    for count in (10, 2_000):
        opened = "".join(tag.replace("{}", str(number)) for number in range(count))
        page = f"<p>{opened}{'<p>x' * count}<p>{WORDS[:6]}<b>{WORDS[6:]}</b></p>"
        (tmp_path / "a.warc").write_bytes(response("https://b.example/", page.encode()))
        (row,) = rows_of(tmp_path / "a.warc")
        assert isinstance(row, Row)
        words = str(row.document).split()
        assert words[-len(WORDS.split()) :] == WORDS.split()
        assert words == ["x"] * count + WORDS.split() or ">" in tag[:-1]
    assert elements[0] > 100
    assert elements[1] < 20_000


@pytest.mark.parametrize("depth", [50, 70])
def test_deep_page_has_all_of_its_text(tmp_path: Path, depth: int) -> None:
    page = html(f"{WORDS} {'<div>' * depth}End{'</div>' * depth}")
    (tmp_path / "a.warc").write_bytes(response("https://b.example/", page))
    (row,) = rows_of(tmp_path / "a.warc")
    assert isinstance(row, Row)
    assert WORDS in str(row.document)
    assert ("About us" in str(row.document)) == (depth == 70)


def test_long_page_has_its_main_text_alone(tmp_path: Path) -> None:
    page = html("</p>".join(f"<p>{WORDS} {number}" for number in range(3_000)))
    (tmp_path / "a.warc").write_bytes(response("https://b.example/", page))
    (row,) = rows_of(tmp_path / "a.warc")
    assert isinstance(row, Row)
    assert "About us" not in str(row.document)
    assert f"{WORDS} 2999" in str(row.document)
