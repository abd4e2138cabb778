"""The pages in a real browser: nothing on its console, nothing that the policy refuses, everything in reach."""

import base64
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Response

from autotune.cli import server
from autotune.db.store import Store
from autotune.outcome import BestPlan, Failed, Outcome, Rejected, Timed, Trial
from autotune.plan import TilingPlan
from autotune.service.app import create_app
from autotune.service.device import Device
from autotune.service.pages.render import POLICY

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
)  # fmt: skip
COMPLAINTS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
"""Events of a page that a visitor's console would show."""


class Chromium:
    """A headless browser with one page, told what to do in its DevTools protocol over two pipes."""

    def __init__(self, folder: Path) -> None:
        assert PROGRAM is not None
        ours, theirs = os.pipe(), os.pipe()
        command = [PROGRAM, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        # The browser reads its descriptor 3 and writes its descriptor 4.
        wired = ["bash", "-c", f'exec "$@" 3<&{ours[0]} 4>&{theirs[1]}', "bash", *command]
        self._process = subprocess.Popen(
            wired, pass_fds=(ours[0], theirs[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._out, self._in = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")
        self._number, self._rest, self._events = 0, b"", list[dict[str, Any]]()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    _session: str | None = None

    def close(self) -> None:
        """Ends the browser."""
        self._process.terminate()
        self._process.wait(30)
        self._out.close()
        self._in.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol and its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            reply = self._read()
            if reply.get("id") == self._number:
                assert "error" not in reply, reply
                result: dict[str, Any] = reply["result"]
                return result
            self._events.append(reply)

    def open(self, url: str, width: int = 1280, height: int = 900) -> None:
        """Goes to an address and waits until everything is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._events.clear()
        self.call("Page.navigate", url=url)
        self.wait()

    def wait(self) -> None:
        """Waits until a page is loaded."""
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._read())

    def run(self, script: str) -> Any:
        """What an expression of JavaScript gives; a promise is awaited."""
        reply = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    def click(self, selector: str) -> None:
        """Clicks what a selector finds, and waits for the page that this leads to."""
        self._events.clear()
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        self.wait()

    def screenshot(self, file: Path) -> None:
        """The whole page, however long, as PNG."""
        image = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(base64.b64decode(image))

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """What the console has shown since the page was opened."""
        self.call("Runtime.evaluate", expression="0")  # what was said before this is here after it
        return [event["params"] for event in self._events if event.get("method") in COMPLAINTS]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._in.fileno(), 1 << 16)
            assert more, "the browser has gone"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium")

ROOT = Path(__file__).parents[2]
AXE = ROOT / ".axe/node_modules/axe-core/axe.min.js"
SCREENSHOTS = ROOT / ".screenshots"
QUESTION = "shape=2,16,1024,1024,64&device=Ascend910A"
PAGES = {
    "coverage": "/",
    "problem": f"/problem?{QUESTION}",
    "nearest": "/problem?shape=1,16,1024,1024,64",
    "refused": "/problem?shape=1,2,3",
    "compare": "/compare?left=1&right=2",
    "missing": "/missing",
    "sweeps": "/progress",
    "sweep": "/progress?sweep=sweep-1",
    "explain": "/explain",
    "docs": "/docs",
}
WIDTHS = (1280, 400)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    browser = Chromium(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture
def address(store: Store, device: Device, best: BestPlan) -> Iterator[str]:
    """A service with a problem that was swept twice; one of its plans is pinned to nobody."""
    for Br in (16, 64, 128, 256):
        for Bc in (16, 64, 128, 256, 512):
            store.record(_trial(best, Br, Bc))
            store.record(replace(_trial(best, Br, Bc), plan=TilingPlan(Br, Bc, double_buffer=True)))
    store.publish(best)
    store.publish(replace(best, timing=replace(best.timing, time_us=100.0), plan=TilingPlan(64, 512)))
    yield from served(create_app(store, {"Ascend910A": device}))


def _trial(best: BestPlan, Br: int, Bc: int) -> Trial:
    outcome = Timed(replace(best.timing, time_us=100.0 + 3e4 / Br + 2e4 / Bc), 1e-4)
    unlucky: dict[tuple[int, int], Outcome] = {
        (256, 512): Rejected("UB needs 600000 bytes, has 262144"),
        (16, 16): Failed("verify", "error 0.5"),
    }
    plan = TilingPlan(Br, Bc, strategy="lattice")
    found: Outcome = unlucky.get((Br, Bc)) or outcome
    return Trial(best.problem, best.device, best.target, best.fingerprint, plan, found, "sweep-1", best.measured_at)


def served(app: FastAPI) -> Iterator[str]:
    """The address of an application that a thread serves meanwhile."""
    with server.listen("127.0.0.1", 0) as listener:
        running = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        while not running.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        running.should_exit = True
        thread.join(30)


def test_every_page_at_every_width(browser: Chromium, address: str) -> None:
    """Nothing is complained of, and nothing is wider than the screen but what scrolls by itself."""
    for name, path in PAGES.items():
        for width in WIDTHS:
            browser.open(address + path, width)
            complaints = [found for found in browser.complaints if "422" not in json.dumps(found)]
            assert complaints == [], name
            assert browser.run("document.documentElement.scrollWidth") <= width, name
            browser.screenshot(SCREENSHOTS / f"{name}-{width}.png")


def test_the_console_would_tell(browser: Chromium) -> None:
    app = FastAPI()

    @app.get("/")
    def wrong() -> Response:
        return Response('<p style="color: red">', media_type="text/html", headers={"Content-Security-Policy": POLICY})

    for address in served(app):
        browser.open(address)
        assert "Content Security Policy" in json.dumps(browser.complaints)


def test_two_clicks_lead_to_a_plan_without_javascript(browser: Chromium, address: str) -> None:
    browser.open(address + "/")
    browser.run("document.querySelector('[name=shape]').value = '2,16,1024,1024,64'")
    browser.click("form.ask button")
    assert browser.run("document.querySelector('.blocks').textContent").split() == [
        "Br",
        "64",
        "\N{MULTIPLICATION SIGN}",
        "Bc",
        "512",
    ]
    assert browser.run("document.scripts.length") == 0


def test_every_control_can_be_reached_by_keyboard_and_has_a_name(browser: Chromium, address: str) -> None:
    browser.open(f"{address}/problem?{QUESTION}")
    unnamed = browser.run(
        "[...document.querySelectorAll('a, button, input, select, summary')].filter(each => each.tabIndex < 0 || "
        "!(each.textContent.trim() || each.labels?.[0]?.textContent.trim())).map(each => each.outerHTML)"
    )
    assert unnamed == []


@pytest.mark.skipif(not AXE.exists(), reason="npm install --prefix .axe axe-core@4.14.1 brings what this test needs")
def test_axe_finds_no_serious_violation(browser: Chromium, address: str) -> None:
    for name, path in PAGES.items():
        browser.open(address + path)
        browser.run(AXE.read_text(encoding="utf-8"))
        found = browser.run("axe.run().then(found => JSON.stringify(found.violations))")
        serious = [
            (each["id"], [node["html"] for node in each["nodes"]])
            for each in json.loads(found)
            if each["impact"] in ("serious", "critical")
        ]
        assert serious == [], name
