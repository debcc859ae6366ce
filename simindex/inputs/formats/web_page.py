"""Turn a page as a server sent it into its text: unpack it, decode it, and take the main text out of HTML.

Sources: content codings, RFC 9110, section 8.4.1, with Brotli (RFC 7932) and Zstandard (RFC 8878); labels of
encodings, https://encoding.spec.whatwg.org, and which of them counts, "Determining the character encoding" of
https://html.spec.whatwg.org; which bytes are no text, https://mimesniff.spec.whatwg.org. resiliparse takes
the main text out of HTML: on pages of known text it found as much as trafilatura, in a seventh of the time.
Invariant: what is held of a page is bounded, and no codec is asked for by a name out of a page.
"""

from __future__ import annotations

import importlib
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from simindex.errors import reason_of
from simindex.inputs.streams import ZSTD_MODULE

MODULES = (
    "brotli",
    "resiliparse.extract.html2text",
    "resiliparse.parse.encoding",
    "resiliparse.parse.html",
    "webencodings",
    ZSTD_MODULE,
)
"""What reading a page needs."""

_GZIP = zlib.MAX_WBITS | 16  # what zlib takes for its format
_INFLATE_BYTES = 1 << 12  # unpacked at once: to a thousand times as much at most
_PIECE_BYTES = 1 << 16
_ZSTD_WINDOW_LOG = 23  # RFC 9659: what packs pages remembers at most 8 MiB
_META_BYTES = 1_024  # of a page, in which its own label is looked for

_DEEPER = ">".join("*" * 64)
"""Selects elements inside 63 others or more. The search for the main text goes from each element up to the
root, in quadratic time where they are nested; Lighthouse warns of pages from 32 on."""

_FORMATS = re.compile(r"(?ai)<(/?(?:b|big|code|em|font|i|s|small|strike|strong|tt|u)(?=[\s/>])[^>]*)>")
_EQUAL_FORMATS = 3  # that are opened again; the "Noah's Ark clause" of the standard of HTML
_MOST_FORMATS = 1 << 19
"""Elements that a page may be thought to have of formats that are never closed, for behind each other tag a
parser opens them all again: 53 KB of ``<b a=1><b a=2>...<p>x<p>x...`` took 3.4 GB, 400 bytes for each."""

_BINARY = re.compile(rb"[\0-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_SNIFFED_BYTES = 1_445
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_XML_ENCODING = re.compile(r"<\?xml[^>]*?\sencoding\s*=\s*[\"']([^\"'>]+)")


def unpack(content: bytes, coding: str, size: int) -> bytes:
    """Return content unpacked by one coding of HTTP, at most `size` bytes of it.

    What is cut off is unpacked as far as it goes. Content that cannot be unpacked, since `coding` is none, as
    "utf-8", or a crawler has stored the page unpacked, is returned as it is, all of it. Raises ValueError
    where it has binary bytes.
    """
    name = coding.lower().removeprefix("x-")
    if name in ("", "identity"):
        return content
    reason = "that is no coding of HTTP that can be unpacked"
    if (pieces := _PIECES.get(name)) is not None:
        try:
            return up_to(pieces(content), size)
        except Exception as exc:  # zlib, brotli and zstd each raise errors of their own
            reason = reason_of(exc)
    if _BINARY.search(content, 0, _SNIFFED_BYTES):
        raise ValueError(f"expected a page packed by {coding!r:.40}, found other bytes: {reason}")
    return content


def up_to(pieces: Iterator[bytes], size: int) -> bytes:
    """Return the first `size` bytes of what comes in pieces, all if they are fewer; reads no further."""
    found: list[bytes] = []
    for piece in pieces:
        found.append(piece[:size])
        size -= len(found[-1])
        if not size:
            break
    return b"".join(found)


def _gzip(content: bytes) -> Iterator[bytes]:
    """Yield what gzip has packed, of all members. An end that is cut off is no error, and bytes behind the
    last member are left out."""
    file, member = io.BytesIO(content), zlib.decompressobj(_GZIP)
    while rest := file.read(_INFLATE_BYTES):
        while rest:
            if member.eof:
                if not rest.startswith(b"\x1f"):
                    return
                member = zlib.decompressobj(_GZIP)
            yield member.decompress(rest)
            rest = member.unused_data


def _zstd(content: bytes) -> Iterator[bytes]:
    zstd: Any = importlib.import_module(ZSTD_MODULE)
    options = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
    file = zstd.ZstdFile(io.BytesIO(content), options=options)
    with suppress(EOFError):
        while piece := file.read1(_PIECE_BYTES):
            yield piece


def _deflate(content: bytes) -> Iterator[bytes]:
    """Yield what deflate has packed: with the two bytes of zlib before it, or without, as servers have always
    sent it, too. Raises ValueError for bytes behind the latter: text can begin like them."""
    is_zlib = True
    try:
        zlib.decompressobj().decompress(content[:2])
    except zlib.error:
        is_zlib = False
    stream = zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
    for at in range(0, len(content), _INFLATE_BYTES):
        yield stream.decompress(content[at : at + _INFLATE_BYTES])
        if stream.unused_data and not is_zlib:
            raise ValueError("its packed bytes end before its last byte")
        if stream.eof:
            return


def _brotli(content: bytes) -> Iterator[bytes]:
    import brotli

    decompressor = brotli.Decompressor()
    while piece := decompressor.process(content, output_buffer_limit=_PIECE_BYTES):
        yield piece
        content = b""


_PIECES: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "br": _brotli,
    "deflate": _deflate,
    "gzip": _gzip,
    "zstd": _zstd,
}
"""Coding of HTTP -> what unpacks it, piece by piece."""


def charset_of(parameters: str) -> str | None:
    """Return the label of an encoding in the parameters of a Content-Type; ``None`` where they have none."""
    found = _CHARSET.search(parameters)
    return None if found is None else found[1]


def text_of(content: bytes, label: str | None, is_html: bool) -> str:
    """Return the text of an unpacked page, of HTML the main text, with line feeds and no space at its ends.

    It is decoded as browsers do: a byte order mark goes before `label`, the encoding in the head of a
    response, and that before the page's own; without any it is guessed. Raises ValueError for an encoding
    that browsers refuse."""
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    text = _decoded(content, label, is_html)
    if is_html:
        tree = HTMLTree.parse(_with_few_formats(text))
        document: Any = tree.document
        is_deep = document.query_selector(_DEEPER) is not None
        text = extract_plain_text(tree, main_content=not is_deep, list_bullets=False, alt_texts=False)
    return text.replace("\r\n", "\n").strip()


def _with_few_formats(page: str) -> str:
    """Return a page without its formatting tags where nesting would multiply them, else unchanged; its text
    stays the same."""
    opened = Counter(tag for tag in _FORMATS.findall(page) if not tag.startswith("/"))
    most = 0
    for tag, count in opened.items():
        is_whole = not (tag.count('"') % 2 or tag.count("'") % 2)  # its end is not the ">" in a value
        most += min(count, _EQUAL_FORMATS) if is_whole else count
    return page if most * page.count("<") <= _MOST_FORMATS else _FORMATS.sub("<wbr>", page)


def _decoded(content: bytes, label: str | None, is_html: bool) -> str:
    import webencodings
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    declared: Any = webencodings.lookup(label or "")
    if declared is None and is_html:
        declared = _in_page(content)
    if declared is None:
        guess: Any = detect_encoding(content)
        return bytes_to_str(content, guess)
    if declared.name == "gbk":
        declared = webencodings.lookup("gb18030")  # the standard decodes both by this one
    text, used = webencodings.decode(content, declared)
    if used.name == "replacement":
        raise ValueError("its label names an encoding that browsers refuse, as iso-2022-kr")
    return str(text)


def _in_page(content: bytes) -> Any:
    """Return the encoding, of webencodings, that a page names in its first 1,024 bytes, by meta elements or
    an XML declaration; ``None`` if it names none that is known."""
    import webencodings
    from resiliparse.parse.html import HTMLTree

    begin = content[:_META_BYTES].decode("latin-1")
    labels = []
    document: Any = HTMLTree.parse(begin).document
    for meta in document.query_selector_all("meta"):
        if meta.getattr("charset") is not None:
            labels.append(meta.getattr("charset"))
        elif (meta.getattr("http-equiv") or "").lower() == "content-type":
            labels.append(charset_of(meta.getattr("content") or "") or "")
    if (declaration := _XML_ENCODING.match(begin)) is not None:
        labels.append(declaration[1])
    found = next(filter(None, map(webencodings.lookup, labels)), None)
    # A page whose ASCII could be read is not UTF-16; both rules are of the standard.
    instead = {"utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": "windows-1252"}
    return found and webencodings.lookup(instead.get(found.name, found.name))
