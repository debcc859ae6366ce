"""Read a web archive (WARC, ISO 28500): one row for each page, its URL and its text.

Which records are pages, and what is read of them. Invariant: what is held is a page, whatever an archive
unfolds to; an archive that ends too early is an error, and a page that cannot be read one bad row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any

from simindex.errors import InputError, reason_of
from simindex.inputs.formats import web_page
from simindex.inputs.rows import BadRowError, Fields
from simindex.inputs.source import Found, Source
from simindex.inputs.streams import Stream

_HTML = ("text/html", "application/xhtml+xml")
_TEXT = "text/plain"

_HEADER_BYTES = 1 << 24
"""Of an archive that may be read for the head of one record, with what is read ahead."""

MODULES = ("warcio.archiveiterator", *web_page.MODULES)
"""What reading an archive needs."""


def read(source: Source, fields: Fields) -> Iterator[Found]:
    """Yield (number of the record from 1, values, the same values) for each page of an archive, or (number,
    ``None``, BadRowError) for one that cannot be read.

    Pages are responses of status 200 to 299 with HTML or plain text, and texts that were made of some before
    (records "conversion", as .wet files have); other records, and pages without text, are counted in the
    tally. The values are the fields of the key, the URL, and of the text, then date and content_type. Raises
    InputError where the archive cannot be read on."""
    from warcio.archiveiterator import ArchiveIterator

    number = 0
    with Stream(source.path, source.limits.window) as stream:
        guarded = _Guarded(stream.file)
        try:
            archive = ArchiveIterator(guarded, no_record_parse=True)
            archive.INC_RECORD = ""  # it would write to stderr
            while (record := _next(archive, guarded)) is not None:
                _require_length(archive, record)
                _read_http_head(archive, record)
                found = _page(source, number + 1, record)
                _require_whole(record)
                source.bytes_read = stream.position()
                number += 1
                if isinstance(found, BadRowError):
                    yield number, None, found
                elif found is None:
                    source.tally.records += 1
                else:
                    values = {fields.id: found.pop("id"), fields.text: found.pop("text")} | found
                    yield number, values, values
        except InputError:
            raise
        except Exception as exc:  # warcio, zlib and zstd each raise errors of their own
            beyond = f" beyond record {number:,}" if number else ""
            raise InputError(source.name, f"cannot be read{beyond}: {reason_of(exc)}") from exc


def _next(archive: Any, guarded: _Guarded) -> Any:
    guarded.left = _HEADER_BYTES
    try:
        return next(archive, None)
    finally:
        guarded.left = None


def _require_length(archive: Any, record: Any) -> None:
    """Raise ValueError where a record does not begin at the end of the one before, EOFError where its head
    does not say how long it is."""
    if archive.err_count:
        raise ValueError("expected an empty line behind a record, found other bytes")
    if not (record.rec_headers.get_header("Content-Length") or "").strip().isdigit():
        raise EOFError("expected a head with Content-Length, found none")


def _read_http_head(archive: Any, record: Any) -> None:
    """Read the HTTP head of a response into ``record.http_headers``; nothing of another record. Reading it,
    warcio itself would take an archive that breaks off there for one that ends."""
    url = record.rec_headers.get_header("WARC-Target-URI") or ""
    if record.rec_type == "response" and record.length and url.startswith(("http:", "https:")):
        record.http_headers = archive.loader.http_parser.parse(record.raw_stream)


def _require_whole(record: Any) -> None:
    """Read a record to its end. Raises EOFError where the archive ends before it."""
    deque(_pieces(record.raw_stream), maxlen=0)
    missing = getattr(record.raw_stream, "limit", 0)
    if missing > 0:
        raise EOFError(f"the archive ends {missing:,} bytes before the end of a record")


def _page(source: Source, number: int, record: Any) -> dict[str, Any] | BadRowError | None:
    """Return a page's "id" (its URL), "text", "date" and "content_type"; ``None`` where a record is no page,
    or one without text, and a BadRowError for a page that is over the limit or cannot be unpacked or read."""
    head, http = record.rec_headers, record.http_headers
    url = head.get_header("WARC-Target-URI")
    is_text = record.rec_type == "conversion"
    if url is None or not (is_text or (record.rec_type == "response" and http is not None)):
        return None
    if not is_text and not (http.get_statuscode() or "").startswith("2"):
        return None
    declared = (http.get_header("Content-Type") or "") if not is_text else (record.content_type or "")
    kind, _, rest = declared.partition(";")
    kind = kind.strip().lower()
    if kind not in (*_HTML, _TEXT):
        return None
    origin = f"{source.name}:{number}"
    limit = source.limits.page
    try:
        content = _content(record, limit + 1)
    except Exception as exc:  # see above
        return BadRowError(origin, f"the page cannot be unpacked: {reason_of(exc)}")
    if len(content) > limit:
        return BadRowError(origin, source.limits.refusal("a page"))
    try:
        text = web_page.text_of(content, web_page.charset_of(rest), kind in _HTML)
    except Exception as exc:  # resiliparse's errors derive from several builtins
        return BadRowError(origin, f"the page cannot be read: {reason_of(exc)}")
    if not text:
        return None
    return {"id": url, "text": text, "date": head.get_header("WARC-Date"), "content_type": kind}


def _content(record: Any, size: int) -> bytes:
    """Return the first `size` bytes of a page, unpacked by each of its codings, of which none unpacks more
    than that."""
    from warcio.bufferedreaders import ChunkedDataReader

    http = record.http_headers
    if http is None:
        return web_page.up_to(_pieces(record.raw_stream), size)
    transfer = _values(http, "transfer-encoding")
    is_chunked = transfer[-1].lower() == "chunked"
    stream = ChunkedDataReader(_Begin(record.raw_stream, size)) if is_chunked else record.raw_stream
    content = web_page.up_to(_pieces(stream), size)
    for coding in reversed(_values(http, "content-encoding") + transfer[: len(transfer) - is_chunked]):
        if len(content) < size:
            content = web_page.unpack(content, coding, size)
    return content


def _pieces(stream: Any) -> Iterator[bytes]:
    return iter(partial(stream.read, 1 << 16), b"")


def _values(headers: Any, name: str) -> list[str]:
    """Return the values of a header, cut at commas, without spaces, in order, of all headers of that name;
    ``[""]`` where there is none. `name` is in lower case."""
    lists = [value for header, value in headers.headers if header.lower() == name]
    return [value.strip() for value in ",".join(lists).split(",")]


class _Begin:
    """The begin of a stream, of which warcio reads a chunk of any size at once: `size` bytes of content at
    least, for a chunk of one byte has two behind it."""

    def __init__(self, stream: Any, size: int) -> None:
        self._stream, self._left = stream, 3 * size

    def read(self, size: int) -> bytes:
        found: bytes = self._stream.read(min(size, self._left))
        self._left -= len(found)
        return found

    def readline(self, size: int) -> bytes:
        line: bytes = self._stream.readline(size)
        return line


class _Guarded:
    """A file of which only so much may be read while `left` is a number."""

    def __init__(self, file: Any) -> None:
        self.left: int | None = None
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, `size` at most, or fewer; b"" at the end. They are taken off `left`, unless
        that is ``None``. Raises ValueError where `left` falls below 0, or the file ends too early: of an
        EOFError warcio thinks that all is well."""
        try:
            found: bytes = self._file.read1(size)  # read() would lose what comes before a tear
        except EOFError as exc:
            raise ValueError(reason_of(exc)) from exc
        if self.left is not None:
            self.left -= len(found)
            if self.left < 0:
                raise ValueError(f"expected a head of at most {_HEADER_BYTES >> 20} MiB, found more")
        return found
