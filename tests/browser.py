"""A headless Chromium, driven over a pipe by its DevTools protocol: no package is needed for that."""

import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on PATH to open the page with")
_MOST_SECONDS = 60
_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowDown": 40}


class Browser:
    """One page of a browser.

    Args:
        profile: an empty folder of its own.
        width: of the window, in pixels.
        height: of the window.
    """

    def __init__(self, profile: Path, width: int = 1280, height: int = 900) -> None:
        assert PROGRAM is not None
        read_by_it, self._out = os.pipe()
        self._in, written_by_it = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
        folder = f"--user-data-dir={profile}"
        # Its end of the pipes are the descriptors 3 and 4.
        script = f'exec "$@" 3<&{read_by_it} 4>&{written_by_it}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", PROGRAM, *options, folder, "about:blank"],
            pass_fds=(read_by_it, written_by_it),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_by_it)
        os.close(written_by_it)
        self._left = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[Any] = []
        """Errors of scripts, and what the page's policy refused."""
        try:
            self._attach()
            self.resize(width, height)
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        (target,) = [
            target["targetId"]
            for target in self.call("Target.getTargets")["targetInfos"]
            if target["type"] == "page"
        ]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "result" in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            readable, _, _ = select.select([self._in], [], [], _MOST_SECONDS)
            assert readable, f"the browser has not answered for {_MOST_SECONDS} seconds"
            more = os.read(self._in, 1 << 16)
            assert more, "the browser has ended"
            self._left += more
        message, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        method = found.get("method")
        if method == "Runtime.exceptionThrown" or (
            method == "Log.entryAdded" and found["params"]["entry"]["level"] == "error"
        ):
            self.problems.append(found["params"])
        if method == "Network.requestWillBeSent":
            url = found["params"]["request"]["url"]
            if not url.startswith(("file:", "about:")):
                self.problems.append(url)
        return found

    def open(self, path: Path, place: str = "") -> None:
        """Open a file, and wait until its script is done."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"{path.as_uri()}#{place}")
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def value(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        for _ in range(600):
            if self.value(expression):
                return
            self.value("new Promise((done) => setTimeout(done, 20))")
        raise AssertionError(f"not so after twelve seconds: {expression}")

    def click(self, selector: str) -> None:
        """Click into the middle of the first element that a selector finds."""
        self.value(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        box = self.value(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()")
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def press(self, key: str) -> None:
        """Press and release a key."""
        code = {"key": key, "windowsVirtualKeyCode": _KEYS.get(key, ord(key[0].upper()))}
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyDown", **code, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def type(self, text: str) -> None:
        """Type a text into what has the focus."""
        self.call("Input.insertText", text=text)

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: str) -> None:
        """Prefer "dark" or "light"."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
