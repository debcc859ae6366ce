"""Whether a Ray head answers at an address, found out within seconds: Ray itself tries for half a minute, and
writes its own log to stderr.

Ray talks by gRPC, which is HTTP/2: a request of gRPC is answered with the status 200, whatever it asks for,
and another program says something else, or nothing. Sources: RFC 9113 (frames), RFC 7541 (headers), the
protocol of gRPC over HTTP/2 (grpc.io).
"""

from __future__ import annotations

import os
import socket
import time

from simindex.scaleout.errors import ScaleOutError

_SECONDS = 3.0

_DATA, _HEADERS, _SETTINGS, _GO_AWAY = 0, 1, 4, 7
_END_STREAM, _END_HEADERS, _PADDED = 1, 4, 8

_STATUS_200 = 0x88  # an entry of the static table; so are POST and http below
_POST_AND_HTTP = b"\x83\x86"
_PATH, _AUTHORITY, _CONTENT_TYPE, _OTHER = b"\x04", b"\x01", b"\x0f\x10", b"\x00"


def require_head(address: str) -> None:
    """Refuse an address where no Ray answers. Raises ScaleOutError."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return  # "auto", "local" and the like
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _SECONDS) as head:
            if os.environ.get("RAY_USE_TLS", "0") == "0" and not _is_grpc(head, address):
                raise OSError("another program listens there")
    except OSError as exc:
        raise ScaleOutError(
            f"address: expected the head of a Ray cluster at {address}, found nothing that answers ({exc}); "
            "start it with ray start --head, or give another address"
        ) from exc


def _is_grpc(head: socket.socket, address: str) -> bool:
    """Whether a server answers a request as gRPC does. Raises TimeoutError where it says nothing in time."""
    headers = _POST_AND_HTTP + b"".join(
        name + b"".join(bytes([len(text)]) + text for text in texts)
        for name, *texts in (
            (_PATH, b"/ray.rpc.NodeInfoGcsService/GetClusterId"),
            (_AUTHORITY, address.removeprefix("ray://").encode()[:120]),
            (_CONTENT_TYPE, b"application/grpc"),
            (_OTHER, b"te", b"trailers"),
        )
    )
    head.sendall(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + _frame(_SETTINGS, 0, 0, b"")
        + _frame(_HEADERS, _END_HEADERS, 1, headers)
        + _frame(_DATA, _END_STREAM, 1, bytes(5))  # an empty message
    )
    deadline, said = time.monotonic() + _SECONDS, b""
    while time.monotonic() < deadline:
        head.settimeout(max(deadline - time.monotonic(), 0.001))
        more = head.recv(4_096)
        said += more
        while len(said) >= 9 and len(said) >= 9 + (size := int(said[:3].hex(), 16)):
            kind, flags, frame, said = said[3], said[4], said[9 : 9 + size], said[9 + size :]
            if kind == _HEADERS:
                fields = frame[1:] if flags & _PADDED else frame
                while fields and fields[0] >> 5 == 1:  # the size of the table of headers
                    fields = fields[1:]
                return fields[:1] == bytes([_STATUS_200])
            if kind == _GO_AWAY:
                return False
        if not more or said[:5] == b"HTTP/" or len(said) > 1 << 16:
            return False
    raise TimeoutError("timed out")


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return bytes([0, *divmod(len(content), 256), kind, flags, 0, 0, 0, stream]) + content
