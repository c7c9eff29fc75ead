"""Each page in a real browser: data of a live core, no complaints, accessible, in light and dark, wide and narrow.

`MUSTER_UI_PICTURES=folder` writes a picture of each page there. Those of the documents are `docs/pictures/ui-*.png`.
"""

import os
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser

from muster.simulation_report import Result, page
from muster_core.config.load import load
from muster_core.foresight.measures import summary
from muster_core.foresight.simulation import simulate
from muster_core.foresight.workload import read_nodes, read_trace
from tests.browser.conftest import NARROW, WIDE, Visit, visiting
from tests.browser.live_core import QUEUES, LiveCore

MANIFESTS: Final = """\
apiVersion: batch/v1
kind: Job
metadata: {name: tokenize}
spec:
  parallelism: 3
  template:
    metadata:
      labels: {applicationId: tokenize, queue: root.default}
    spec:
      containers:
        - {name: main, resources: {requests: {cpu: 500m, memory: 2Gi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: pretrain}
spec:
  parallelism: 4
  template:
    metadata:
      labels: {applicationId: pretrain, queue: root.research.training}
    spec:
      containers:
        - {name: main, resources: {requests: {cpu: 12, nvidia.com/gpu: 4}}}
"""
#: Jobs may use less than they do, and notebooks more.
EDITED: Final = (
    QUEUES.replace("          - name: default", "            resources: {max: {vcore: 24}}\n          - name: default")
    .replace("max: {vcore: 8, memory: 64Gi}", "max: {vcore: 16, memory: 64Gi}")
    .replace("maxresources: {vcore: 8}", "maxresources: {vcore: 16}")
)

#: Name of the picture, address, and a text that the page shows.
PAGES: Final = {
    "overview": ("overview", "waiting pods"),
    "queues": ("queues", "notebooks"),
    "queue": ("queues/root.research.training", "Waiting, in scheduling order"),
    "applications": ("applications", "team-a/llm-pretrain"),
    "application": ("applications/team-a/llm-finetune", "What would start it, and when?"),
    "nodes": ("nodes", "Which gang still fits"),
    "node": ("nodes/node-00", "Pods of other schedulers"),
    "users": ("users", "16 of 16"),
    "preemptions": ("preemptions", "for llm-finetune: 2 allocations are preempted"),
    "what-if": ("what-if", "Would they start now"),
    "reports": ("reports", "Open a file that"),
    "health": ("health", "all checks passed"),
}


async def _foresight(visit: Visit) -> None:
    await visit.go("applications/team-a/llm-finetune")
    await visit.page.get_by_role("button", name="What would start it, and when?").click()
    await visit.contains("end team-a/llm-pretrain (4 pods")
    await visit.contains("Estimated start: not within 30 days")


async def _dry_run(visit: Visit) -> None:
    await visit.go("what-if")
    await visit.page.get_by_role("textbox", name="Manifests").fill(MANIFESTS)
    await visit.page.get_by_label("Namespace").fill("team-b")
    await visit.page.get_by_label("User").fill("kim")
    await visit.page.get_by_role("button", name="Ask").click()
    await visit.contains("team-b/tokenize in queue root.default: would start now on node-")
    await visit.contains("team-b/pretrain in queue root.research.training: would wait")


async def _plan(visit: Visit) -> None:
    await visit.go("what-if?of=queues")
    await visit.page.get_by_role("button", name="Active configuration").click()
    await visit.page.wait_for_function("() => document.querySelector('textarea').value.includes('notebooks')")
    await visit.page.get_by_role("textbox", name="Queue configuration").fill(EDITED)
    await visit.page.keyboard.press("Control+Enter")
    await visit.contains("against the active configuration")


async def _report(visit: Visit) -> None:
    await visit.go("reports")
    await visit.page.locator("input[type=file]").set_input_files(
        {"name": "fair and fifo.html", "mimeType": "text/html", "buffer": a_report().encode()}
    )
    await visit.contains("Jain's index of users")
    assert await visit.page.locator(".report polyline").count() == 8


@cache
def a_report() -> str:
    """The report of two simulations with the same jobs."""
    nodes = read_nodes(["name,cpu_milli,memory_mib,gpu,count", "n,8000,32768,4,4"])
    header = "id,submit_s,run_s,pods,cpu_milli,memory_mib,gpu_milli,user,queue"
    users = ("ada", "kim", "lee")
    lines = [f"j{n},{60 * n},{900 + 37 * n},{1 + n % 3},1000,1024,1000,{users[n % 3]},root.a" for n in range(150)]
    results = []
    for name, policy in (("fifo.yaml", "fifo"), ("<b>fair</b>.yaml", "fair")):
        leaf = f"{{name: a, properties: {{application.sort.policy: {policy}}}}}"
        text = f'partitions: [{{name: default, queues: [{{name: root, submitacl: "*", queues: [{leaf}]}}]}}]'
        run = simulate(nodes, read_trace([header, *lines]), load(text, {}).configuration)
        results.append(Result(name, run, summary(run)))
    return page(results)


async def _earlier(visit: Visit) -> None:
    """Before the operator registered, and back."""
    await visit.go("applications")
    await visit.contains("llm-pretrain")
    await visit.page.get_by_role("button", name="Time machine").click()
    await visit.page.wait_for_function(
        "() => (({ min, value }) => value > min)(document.querySelector('[type=range]'))"
    )
    await visit.page.get_by_label("Since the start of the core").focus()
    await visit.page.keyboard.press("Home")
    await visit.page.get_by_role("button", name="Show this time").click()
    await visit.contains("No operator has registered with this core")
    await visit.page.get_by_title("Back to now").click()
    await visit.contains("llm-pretrain")
    await visit.page.evaluate("location.search = `?at=${Date.now()}`")
    await visit.page.get_by_title("Back to now").wait_for()
    await visit.contains("llm-pretrain")
    for address in ("health", "overview"):
        await visit.page.evaluate(f"location.hash = '#/{address}'")
        await visit.contains("Only the present is known.")


#: Pages after what a user does on them.
ANSWERS: Final = {"earlier": _earlier, "foresight": _foresight, "dry-run": _dry_run, "plan": _plan, "report": _report}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_every_page_shows_the_cluster_without_complaints(
    browser: Browser, base: str, theme: str, size: tuple[int, int]
) -> None:
    async with visiting(browser, base, size, theme) as visit:
        for name, (address, text) in PAGES.items():
            await visit.go(address)
            await visit.contains(text)
            if size == WIDE:
                assert await visit.accessibility() == [], name
            assert await _is_as_wide_as_the_window(visit), name
            await _picture(visit, f"{name}-{theme}-{size[0]}")
        for name, act in ANSWERS.items():
            await act(visit)
            await visit.settled()
            if size == WIDE:
                assert await visit.accessibility() == [], name
            assert await _is_as_wide_as_the_window(visit), name
            await _picture(visit, f"{name}-{theme}-{size[0]}")
        assert {url for url in visit.requests if not url.startswith(base.removesuffix("ui/"))} == set()


async def _is_as_wide_as_the_window(visit: Visit) -> bool:
    """Whether nothing is cut at the right: neither the page nor a table, except measures of many configurations."""
    parts = "html, .scroll:not([aria-label=Measures]), .window, .drawer"
    fits = f"[...document.querySelectorAll('{parts}')].every((part) => part.scrollWidth <= part.clientWidth)"
    return bool(await visit.page.evaluate(fits))


async def _picture(visit: Visit, name: str) -> None:
    if folder := os.environ.get("MUSTER_UI_PICTURES"):
        await visit.page.screenshot(path=Path(folder) / f"{name}.png")


async def test_pages_show_a_gang_that_starts_while_they_are_open(browser: Browser, base: str, live: LiveCore) -> None:
    async with visiting(browser, base) as visit:
        await visit.go("applications?q=live-gang")
        await visit.contains("None.")
        await live.application("live-gang", "root.batch.reports", 3, gang=3)
        await visit.contains("team-a/live-gang")
        await visit.page.locator("tr", has_text="live-gang").get_by_text("Running").wait_for()
        await live.end("live-gang")
        await visit.contains("None.")


async def test_addresses_keys_and_colours(browser: Browser, base: str) -> None:
    async with visiting(browser, base) as visit:
        page = visit.page
        await visit.go("applications")
        await page.keyboard.press("/")
        await page.keyboard.type("notebook")
        await visit.contains("5 of")
        assert page.url.endswith("#/applications?q=notebook")
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await page.keyboard.press("k")
        assert await page.locator("tr.selected").inner_text() == await page.locator("tbody tr").nth(0).inner_text()
        await page.keyboard.press("g")
        await page.keyboard.press("q")
        await page.get_by_role("heading", name="Queues").wait_for()
        await page.get_by_role("link", name="training").click()
        assert page.url.endswith("#/queues/root.research.training")
        await page.get_by_role("complementary").wait_for()
        await page.keyboard.press("Escape")
        await page.get_by_role("complementary").wait_for(state="detached")
        background = "getComputedStyle(document.body).backgroundColor"
        before = await page.evaluate(background)
        await page.get_by_role("button", name="Light or dark").click()
        assert await page.evaluate(background) != before
        await page.reload()
        await visit.settled()
        assert await page.evaluate(background) != before


async def test_a_pause_stops_requests_and_keeps_what_is_shown(browser: Browser, base: str, live: LiveCore) -> None:
    async with visiting(browser, base) as visit:
        await visit.page.clock.install()
        await visit.go("applications?q=paused")
        await visit.page.keyboard.press("p")
        await visit.contains("Paused")
        await live.application("paused-0", "root.batch.reports")
        await live.idle()
        visit.requests.clear()
        await visit.page.clock.run_for(60_000)  # the timers of the page, not the time of the test
        assert visit.requests == []
        assert "paused-0" not in await visit.text()
        await visit.page.keyboard.press("p")
        await visit.contains("paused-0")
        await live.end("paused-0")


async def test_rows_keep_their_places_under_the_pointer(browser: Browser, base: str, live: LiveCore) -> None:
    async with visiting(browser, base) as visit:
        await live.application("order-b", "root.batch.reports")
        await live.application("order-c", "root.batch.reports")
        await visit.go("applications?q=order-")
        await visit.contains("order-c")
        names = visit.page.locator("tbody .main .name")
        await names.first.hover()
        await live.application("order-a", "root.batch.reports")
        await visit.contains("order-a")
        assert await names.all_inner_texts() == ["team-a/order-b", "team-a/order-c", "team-a/order-a"]
        await live.end("order-b")
        await visit.page.locator("tr.gone", has_text="order-b").wait_for()
        assert await names.all_inner_texts() == ["team-a/order-b", "team-a/order-c", "team-a/order-a"]
        await visit.page.mouse.move(5, 5)
        await visit.page.wait_for_function("() => document.querySelector('tbody .name').innerText === 'team-a/order-a'")
        assert await names.all_inner_texts() == ["team-a/order-a", "team-a/order-c"]
        for name in ("order-a", "order-c"):
            await live.end(name)
