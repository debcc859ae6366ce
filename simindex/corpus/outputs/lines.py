"""Files of lines, written in frames: a file can be cut off behind any frame, and goes on from there.

A frame is a part of the file that stands by itself: plain bytes, a member of .gz, a stream of .xz, a frame of
.zst; readers of these formats read them one after the other. Invariant: the bytes of a frame follow from its
content alone.

A frame may be packed and written by a thread, which takes a quarter of a job's work off the others. Then what
is known of the file lags behind by some frames, and an error of the disk comes out with a later one.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from typing import Any

from simindex.corpus.entries import Entry
from simindex.corpus.outputs.output import Mark, Output, naming, opened, packer, publish, temporary, write_all
from simindex.corpus.outputs.rows import Encoder, JsonLines, Note, UnfitRowError
from simindex.system import sync

UNDER_WAY = 2
"""Frames that a thread has not written yet."""


class LinesOutput(Output):
    """A file of lines, written frame by frame; `in_thread`, set before the first: by a thread."""

    in_thread = False

    def __init__(self, path: str, encoder: Encoder) -> None:
        self.path, self._partial, self._encoder = path, temporary(path), encoder
        self._pack, self.has_head = packer(path), encoder.has_head
        self._lines: list[bytes | memoryview] = []
        self._file: FileIO | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: deque[Future[int]] = deque()
        self._failure: BaseException | None = None

    @property
    def keeps_lines(self) -> bool:
        """Whether a row that stood as a line of JSON is written as it stood, without a note."""
        return isinstance(self._encoder, JsonLines)

    def write(self, row: Entry, note: Note | None = None) -> None:
        """Add the line of a row to the frame. UnfitRowError: the format has no place for it."""
        try:
            line = self._encoder.encoded(row, note)
        except UnicodeEncodeError as exc:  # no UTF-8 has a half of a character
            expected = "expected whole characters, found a half of one; an output of .jsonl takes it"
            raise UnfitRowError(f"{row.name}:{row.row}", expected) from exc
        self.write_lines([line])

    def write_head(self, row: Entry, note: Note | None = None) -> None:
        """Write the header as a frame of its own, and wait for it."""
        self.write_lines([self._encoder.head(row, note)])
        self.cut()
        self.finish()

    def write_lines(self, lines: Sequence[bytes | memoryview]) -> None:
        """Add lines to the frame as they are, with their line ends."""
        self._lines += lines
        self.waiting += sum(map(len, lines))

    def cut(self) -> None:
        """End the frame and write it, or have it written; raises what kept it, or one before, from that."""
        if not self._lines:
            return
        content = b"".join(self._lines)
        self._lines, self.waiting = [], 0
        if not self.in_thread:
            self._write(content)
            return
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="simindex-pack")
        self._under_way.append(self._thread.submit(self._write, content))
        if len(self._under_way) > UNDER_WAY:
            self._under_way.popleft().result()

    def _write(self, content: bytes) -> int:
        """Pack a frame and append it to the file; returns the bytes of the file so far. Once that failed,
        every later call raises the same error."""
        if self._failure is not None:
            raise self._failure  # it would stand in the place of the frame that is missing
        try:
            frame = self._pack(content)
            with naming(self._partial):
                write_all(self._opened(), frame)
        except BaseException as error:
            self._failure = error
            raise
        self.num_bytes += len(frame)
        return self.num_bytes

    def mark(self) -> Mark:
        """Return a function that returns what `begin_at` goes on from: the bytes of the frames that are cut
        by now, and the encoder's state. It waits for these frames, and raises what kept one from being
        written."""
        state, num_bytes = self._encoder.state, self.num_bytes
        if not self._under_way:
            return lambda: [num_bytes, state]
        newest = self._under_way[-1]
        return lambda: [newest.result(), state]

    def sync(self) -> None:
        """Make the frames that are written durable."""
        with naming(self._partial):
            sync(self._opened().fileno())

    def finish(self) -> None:
        """Wait for all frames, and raise what kept one from being written."""
        while self._under_way:
            self._under_way.popleft().result()

    def begin_at(self, mark: Any) -> None:
        """Cut the file off at a mark, and go on there; ``None``: at its beginning. OSError: it is shorter."""
        self.num_bytes, self._encoder.state = mark or (0, None)
        found = os.fstat(self._opened().fileno()).st_size
        if found < self.num_bytes:
            reason = f"expected at least {self.num_bytes:,} bytes, found {found:,}"
            raise OSError(errno.EIO, reason, self._partial)
        self._opened().truncate(self.num_bytes)
        self._opened().seek(self.num_bytes)

    def publish(self) -> None:
        """Close the file, and give it its name in the place of what has that; may be called again."""
        self.close()
        publish(self.path)

    def close(self) -> None:
        """Close the file; a frame that is not cut is lost."""
        if self._thread is not None:
            self._thread.shutdown()
        if self._file is not None:
            self._file.close()
        self._thread = self._file = None

    def _opened(self) -> FileIO:
        self._file = self._file or opened(self._partial)
        return self._file
