"""Names of users as text, thousands of rows, tokens, and a proxy with a path prefix."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from playwright.async_api import Browser

from muster_core.model.records import Change, Detail, EventRecorded, Notice
from muster_core.rest.auth import AccessSettings
from muster_si import keys
from tests.browser import live_core
from tests.browser.conftest import NARROW, WIDE, Visit, visiting
from tests.browser.live_core import LiveCore, an_application
from tests.unit.core.messages import RM

PREFIX: Final = "/tools/muster"
TOKEN: Final = "a-token-of-enough-characters"
#: Rows of a window and what is rendered around it, at 40 pixels each.
MOST_ROWS: Final = 60
HOSTILE: Final = {
    "markup": "<img src=x onerror=alert(1)><b>bold</b>",
    "script": "</script><script>document.title='hit'</script>",
    "template": "${alert(1)} {{constructor}} %00 %2e%2e/",
    "control": "a\u0000b\u001b[31mred\u202eevil\u200b\u2028end",
    "long": "x" * 10_240,
    "words": "word " * 2_000,
}


async def test_hostile_names_are_text(browser: Browser) -> None:
    async with live_core.running() as live:
        await live.register()
        await live.nodes(2)
        for number, (kind, text) in enumerate(HOSTILE.items()):
            size = {"vcore": 9_000, text[:300]: 1}
            tags = {keys.TAG_POD_NAME: text, "note": text}
            name = f"{number}-{kind}-{text[:200]}"
            await live.application(name, "root.batch.reports", 2, size, user=text[:200], tags=tags)
        await live.idle()
        preempted = (f"{number} allocations are preempted" for number in range(len(HOSTILE)))
        live.core.events.add(
            [
                EventRecorded(
                    RM, Notice.QUEUE, "root.batch.reports", what, text[:200], Change.SET, Detail.QUEUE_PREEMPTION
                )
                for what, text in zip(preempted, HOSTILE.values(), strict=True)
            ],
            time.time_ns(),
        )
        base = f"http://127.0.0.1:{live.port}/ui/"
        for window in (WIDE, NARROW):
            async with visiting(browser, base, window) as visit:
                for page in (
                    "overview",
                    "queues",
                    "queues/root.batch.reports",
                    "applications",
                    "nodes",
                    "nodes/node-00",
                    "users",
                    "preemptions",
                    "what-if",
                    "reports",
                    "health",
                ):
                    await visit.go(page)
                    assert await visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), page
                await visit.go("preemptions")
                await visit.contains(f"for {HOSTILE['markup']}: 0 allocations are preempted")
                await visit.go("applications")
                text = await visit.text()
                assert HOSTILE["markup"] in text
                assert HOSTILE["script"] in text
                assert "a\\u0000b\\u001b[31mred\\u202eevil\\u200b\\u2028end" in text
                for number, kind in enumerate(HOSTILE):
                    await visit.go("applications")
                    await visit.page.get_by_role("link", name=f"{number}-{kind}").first.click()
                    await visit.page.get_by_role("heading", name="Phases").wait_for()
                    await visit.settled()
                    assert "muster explain" not in await visit.text(), f"{kind}: a shell could misread the name"
                    assert await visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), kind
                await _answers_are_text(visit)
                assert await visit.page.locator("main img, main script, main b:text('bold')").count() == 0
                assert "hit" not in await visit.page.title()
                assert await visit.accessibility() == []


async def _answers_are_text(visit: Visit) -> None:
    """The names of applications, and texts of the question, in the answers about what would happen."""
    await visit.go("applications")
    await visit.page.get_by_role("link", name="0-markup").first.click()
    await visit.page.get_by_role("button", name="What would start it, and when?").click()
    await visit.contains("Changes: no small set")
    await visit.go("what-if?of=queues")
    edited = live_core.QUEUES.replace("- name: reports", "- name: other")
    await visit.page.get_by_role("textbox", name="Queue configuration").fill(edited)
    await visit.page.get_by_role("button", name="Ask").click()
    await visit.contains("4 moved if submitted again")
    assert HOSTILE["markup"] in await visit.text()
    assert await visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await visit.go("what-if")
    for name, text in HOSTILE.items():
        manifest = json.dumps({"kind": "Pod", "metadata": {"name": "a", "labels": {"applicationId": text}}, "spec": {}})
        await visit.page.get_by_role("textbox", name="Manifests").fill(manifest)
        await visit.page.get_by_role("button", name="Ask").click()
        await visit.settled()
        assert await visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    visit.complaints[:] = [text for text in visit.complaints if "status of 400" not in text]


async def test_a_report_from_elsewhere_is_text_and_numbers(browser: Browser, base: str) -> None:
    evil = (
        """<title>Muster simulation</title><h1>x</h1><script>document.title = 'hit'</script><img src=x onerror=alert(1)>
<p onclick=alert(1) style="background:url(//evil)">paragraph<a href="javascript:alert(1)">a link</a></p>
<table><tr><td><iframe src=//evil></iframe><b>cell</b>plain</td></tr></table><style>@import "//evil"</style>
<svg onload=alert(1)><foreignObject><img src=x onerror=alert(1)></foreignObject><text>mark</text></svg>
<h2><i>title</i></h2>
<figure>"""
        + "<div>" * 500
        + "deep"
    )
    async with visiting(browser, base) as visit:
        await visit.go("reports")
        files = visit.page.locator("input[type=file]")
        for text in ("<title>another</title>", "", "\u0000" * 100):
            await files.set_input_files({"name": "a.html", "mimeType": "text/html", "buffer": text.encode()})
            await visit.contains("the file is no report")
        await files.set_input_files({"name": HOSTILE["markup"], "mimeType": "text/html", "buffer": evil.encode()})
        await visit.contains("paragraph")
        text = await visit.text()
        assert HOSTILE["markup"] in text
        assert "mark" in text
        assert "deep" not in text
        assert (
            await visit.page.locator(
                ".report :is(img, script, iframe, a, b, foreignObject, [onclick], [onload])"
            ).count()
            == 0
        )
        assert "hit" not in await visit.page.title()
        assert [url for url in visit.requests if "evil" in url] == []
        assert all("violates" in text or text.startswith("CSP") for text in visit.complaints)
        visit.complaints.clear()  # what the policy forbids in the file


@pytest.mark.timeout(600)  # adds 10,000 applications first
async def test_five_thousand_nodes_and_ten_thousand_applications(browser: Browser) -> None:
    """The first view is measured and printed; what is asserted is how much is rendered and requested."""
    async with live_core.running() as live:
        await live.register()
        await live.nodes(5_000, racks=100)
        queues = ("root.batch.nightly", "root.batch.reports")
        await live.submit(
            [
                an_application(f"app-{number:05}", queues[number % 2], user=f"user-{number % 50}", ago_s=number)
                for number in range(10_000)
            ]
        )
        await live.idle()
        async with visiting(browser, f"http://127.0.0.1:{live.port}/ui/") as visit:
            for page, text in {
                "overview": "Blocked by",
                "applications": "app-0",
                "nodes": "rack-1",
                "queues": "nightly",
            }.items():
                start = time.perf_counter()
                await visit.page.goto("about:blank")
                await visit.page.goto(f"{visit.base}#/{page}")
                await visit.contains(text)
                print(f"first view of {page}: {time.perf_counter() - start:.2f} s")  # noqa: T201
            await visit.go("applications")
            await visit.contains("10,000 of 10,000")
            rows = visit.page.locator("tbody tr")
            assert await rows.count() <= MOST_ROWS
            await visit.page.evaluate(
                "() => { const box = document.querySelector('.window'); box.scrollTop = box.scrollHeight; }"
            )
            await visit.contains("app-09999")
            assert await rows.count() <= MOST_ROWS
            await visit.page.locator(".search").fill("app-04999")
            await visit.contains("1 of 10,000")
            await visit.go("nodes")
            await visit.contains("5,000 nodes")
            assert await visit.page.locator(".square").count() == 5_000
            assert await visit.page.locator("tbody tr").count() <= MOST_ROWS


async def test_a_closed_core_asks_for_a_token_that_no_address_contains(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    async with live_core.running(AccessSettings(token_file=tmp_path / "token", closed=True)) as live:
        await live.register()
        base = f"http://127.0.0.1:{live.port}/ui/"
        async with visiting(browser, base) as visit:
            page = visit.page
            await page.goto(f"{base}#/queues")
            await page.get_by_text("The core answers: a bearer token is required").wait_for()
            await page.get_by_label("Bearer token").fill(TOKEN)
            await page.keyboard.press("Enter")
            await visit.contains("nightly")
            await page.reload()
            await visit.contains("nightly")
            assert not any(TOKEN in url for url in visit.requests)
            assert TOKEN not in await page.evaluate("JSON.stringify(localStorage) + document.cookie + location.href")
            refused = [text for text in visit.complaints if "401" in text]
            assert refused
            visit.complaints[:] = [text for text in visit.complaints if "401" not in text]


async def test_a_page_that_could_not_be_loaded_says_so(browser: Browser, base: str) -> None:
    async with visiting(browser, base) as visit:
        await visit.page.route("**/ui/health.js", lambda route: route.abort())
        await visit.page.goto(f"{base}#/health")
        await visit.contains("This page could not be loaded")
        await visit.page.unroute("**/ui/health.js")
        await visit.page.get_by_role("button", name="Load again").click()
        await visit.contains("all checks passed")
        visit.complaints[:] = [text for text in visit.complaints if "ERR_FAILED" not in text]


@asynccontextmanager
async def _proxy(live: LiveCore) -> AsyncIterator[str]:
    """A reverse proxy that removes a path prefix, as an Ingress does."""

    async def forward(request: web.Request) -> web.StreamResponse:
        path = request.rel_url.raw_path_qs.removeprefix(PREFIX)
        headers = {key: value for key, value in request.headers.items() if key in {"If-None-Match", "Authorization"}}
        async with session.get(f"http://127.0.0.1:{live.port}{path}", headers=headers, allow_redirects=False) as answer:
            kept = {
                key: value
                for key, value in answer.headers.items()
                if key in {"Content-Type", "ETag", "Location", "Content-Security-Policy"}
            }
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for part in answer.content.iter_any():
                await response.write(part)
            await response.write_eof()
            return response

    app = web.Application()
    app.router.add_get(PREFIX + "/{path:.*}", forward)
    async with aiohttp.ClientSession() as session, TestServer(app) as server:
        yield str(server.make_url(PREFIX + "/"))


async def test_the_ui_works_below_a_path_prefix(browser: Browser, live: LiveCore) -> None:
    async with _proxy(live) as root, visiting(browser, f"{root}ui/") as visit:
        await visit.page.goto(root)
        await visit.contains("waiting pods")
        await visit.contains("Live")
        await visit.page.get_by_role("link", name="Applications", exact=True).click()
        await visit.contains("llm-pretrain")
        assert [url for url in visit.requests if not url.startswith(root)] == []
