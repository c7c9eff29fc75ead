"""A real browser, and pages that collect what it complains about.

All tests run in one event loop, because the connection to the browser belongs to it.
"""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright
from playwright.async_api import TimeoutError as PageTimeout

from tests.browser import live_core
from tests.browser.live_core import LiveCore

#: Names of Chromium in distributions. `make setup` installs that of Debian.
PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
HERE: Final = Path(__file__).parent
AXE: Final = (HERE / "axe.min.js").read_text(encoding="utf-8")
WIDE: Final = (1440, 900)
NARROW: Final = (412, 915)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs the coroutines of this folder in one event loop."""
    for item in items:
        if item.path.is_relative_to(HERE) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


def chromium() -> str:
    """The program, or skips the test; in CI a missing browser is a failure."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None and os.environ.get("CI"):
        pytest.fail("no Chromium: `make setup` installs it for root with apt-get")
    return found or pytest.skip("no Chromium on PATH: install the package chromium (make setup does for root)")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests, with a new profile for each page."""
    program = chromium()
    async with async_playwright() as playwright:
        # Containers have no user namespaces for the sandbox, and a small /dev/shm.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        started = await playwright.chromium.launch(executable_path=program, args=arguments)
        yield started
        await started.close()


@dataclass(slots=True)
class Visit:
    """A page of the UI. `complaints`: errors, warnings and violations that the browser reported."""

    page: Page
    base: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    async def go(self, address: str = "") -> None:
        """Open a page of the UI by its hash, and wait until it shows data."""
        await self.page.goto(f"{self.base}#/{address}")
        await self.page.locator("main").wait_for()
        await self.settled()

    async def settled(self) -> None:
        """Wait until nothing is loading."""
        await self.page.wait_for_function(
            "() => !document.querySelector('.loading') && document.querySelector('main > *')"
        )

    async def text(self) -> str:
        """The visible text of the page."""
        return await self.page.locator("main").inner_text()

    async def contains(self, text: str) -> None:
        """Wait until the page shows the text. Fails with what it shows."""
        try:
            await self.page.wait_for_function("text => document.body.innerText.includes(text)", arg=text)
        except PageTimeout:
            pytest.fail(f"no {text!r} in {await self.text():.5000}")

    async def accessibility(self) -> list[str]:
        """Serious findings of axe-core."""
        await self.page.evaluate(AXE)
        found: Any = await self.page.evaluate("async () => (await axe.run()).violations")
        return [
            f"{item['id']}: {node['html'][:200]} {node.get('failureSummary', '')[:200]}"
            for item in found
            if item["impact"] in {"serious", "critical"}
            for node in item["nodes"][:3]
        ]


@asynccontextmanager
async def visiting(
    browser: Browser, base: str, size: tuple[int, int] = WIDE, theme: Any = "light"
) -> AsyncIterator[Visit]:
    """Opens a page with a new profile, and fails if the browser complained."""
    context = await browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=theme, reduced_motion="reduce", timezone_id="UTC"
    )
    page = await context.new_page()
    page.set_default_timeout(90_000)  # a busy machine is not a failure
    visit = Visit(page, base)

    def on_console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            visit.complaints.append(message.text)

    def on_request(request: Request) -> None:
        visit.requests.append(request.url)

    page.on("console", on_console)
    page.on("request", on_request)
    page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    # Reports violations that the console does not.
    await page.add_init_script(
        "addEventListener('securitypolicyviolation', (event) => console.error('CSP', event.violatedDirective))"
    )
    try:
        yield visit
        assert visit.complaints == []
    finally:
        await context.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def live(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LiveCore]:
    """A small cluster with a journal, for tests that change little of it."""
    chromium()
    path = tmp_path_factory.mktemp("journal") / "journal"
    with path.open("wb") as journal:
        async with live_core.running(journal=journal) as made:
            await live_core.fill(made)
            yield made


@pytest.fixture
def base(live: LiveCore) -> str:
    """The address of the UI of this cluster."""
    return f"http://127.0.0.1:{live.port}/ui/"
