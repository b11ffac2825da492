"""A real browser for tests of reports and pages: Debian's Chromium; any error in its console fails the test.

The fixtures `chromium`, `browsers` and `artefacts` are available to all tests (tests/conftest.py). A test that expects
errors, such as a refused request, removes them from `watched.errors` itself.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.deadlines import HANGS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

__all__ = ["PHONE", "Browsers", "Watched", "artefacts", "browsers", "chromium"]

PHONE = {"width": 390, "height": 844}
_DESKTOP = {"width": 1280, "height": 900}


@dataclass
class Watched:
    """A page, and the errors that its browser reported."""

    page: "Page"
    context: "BrowserContext"
    errors: list[str] = field(default_factory=list)
    """Errors and warnings in the console, and uncaught exceptions."""
    requests: list[str] = field(default_factory=list)
    """The requested URLs, except those embedded in the page itself."""

    def must_be_quiet(self) -> None:
        """Fail if the browser reported any error."""
        assert not self.errors, "\n".join(self.errors)

    def scrolls_sideways(self) -> bool:
        """Whether the page is wider than the window."""
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"
        return bool(self.page.evaluate(wide))


class Browsers:
    """Opens pages in one browser, each in its own context."""

    def __init__(self, browser: "Browser") -> None:
        self._browser = browser
        self.opened: list[Watched] = []

    def page(self, *, dark: bool = False, phone: bool = False, offline: bool = False, **options: Any) -> Watched:
        """Return an empty page; `options` are passed to playwright's context."""
        context = self._browser.new_context(
            viewport=PHONE if phone else _DESKTOP,  # type: ignore[arg-type]
            color_scheme="dark" if dark else "light",
            **{"has_touch": phone, **options},
        )
        context.set_offline(offline)
        context.set_default_timeout(1000 * HANGS)
        watched = Watched(context.new_page(), context)
        watched.page.on("console", lambda one: self._heard(watched, one.type, one.text))
        watched.page.on("pageerror", lambda error: watched.errors.append(f"exception: {error}"))
        watched.page.on("request", lambda one: self._asked(watched, one.url))
        self.opened.append(watched)
        return watched

    @staticmethod
    def _heard(watched: Watched, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            watched.errors.append(f"{kind}: {text}")

    @staticmethod
    def _asked(watched: Watched, url: str) -> None:
        if not url.startswith(("data:", "blob:")):
            watched.requests.append(url)

    def close(self) -> None:
        """Close all pages, and fail if one reported any error."""
        for watched in self.opened:
            watched.context.close()
        for watched in self.opened:
            watched.must_be_quiet()


@pytest.fixture(scope="session")
def chromium(tool: Any) -> "Iterator[Browser]":
    """Debian's Chromium; without it, tests are skipped, or fail in CI."""
    path = tool("chromium", "chromium")
    from playwright.sync_api import sync_playwright  # here, because most tests need no browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def browsers(chromium: "Browser") -> Iterator[Browsers]:
    """Open pages that fail the test on any error in their console."""
    found = Browsers(chromium)
    yield found
    found.close()


@pytest.fixture(scope="session")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where screenshots are kept: $TONNAGE_ARTEFACTS."""
    chosen = os.environ.get("TONNAGE_ARTEFACTS")
    folder = Path(chosen) if chosen else tmp_path_factory.mktemp("artefacts")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
