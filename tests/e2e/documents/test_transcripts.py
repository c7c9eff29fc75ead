"""The commands of the examples and the quick start have the documented output and leave nothing behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster.errors import ApiError
from devcluster.leftovers import leftovers
from devcluster.muster import CONFIGURATION, NAMESPACE
from tests.e2e.conftest import placement_of_run
from tests.e2e.documents.shell import Shell, opened
from tests.e2e.documents.transcripts import chosen, follow
from tests.e2e.scenario import Scenario

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
WITH_ADMISSION = "04-admission"
"""Needs the webhook: tests/e2e/admission compares its output."""
LESSONS = [path for path in sorted(EXAMPLES.glob("*/README.md")) if path.parent.name != WITH_ADMISSION]
DOCUMENTS = {path: path.parent for path in LESSONS} | {ROOT / "docs" / "start" / "quick-start.md": ROOT}
"""The documents, and the folder in which their commands run."""
WHERE = "lessons"
"""The namespace that the tour of the examples creates."""
OWN_NAMESPACES = "example-"
"""Prefix of the namespaces that a lesson creates."""
BASELINE = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}


@pytest_asyncio.fixture(loop_scope="session")
async def reader(demo: Scenario) -> AsyncIterator[tuple[Scenario, Shell]]:
    """The environment of `KEEP=1 make demo`, and a shell that ran the commands of the tour."""
    shell = await opened(demo)
    try:
        assert await follow(shell, EXAMPLES / "README.md", ROOT) == ""
        await demo.api.patch("namespaces", WHERE, BASELINE)
        await demo.eventually("an account for pods", lambda: _has_account(demo))
        yield demo, shell
    finally:
        await demo.api.delete("namespaces", WHERE)
        await demo.api.delete("configmaps", CONFIGURATION, NAMESPACE)


@pytest.mark.timeout(900)
@pytest.mark.skipif(placement_of_run() != "Auto", reason="the examples show the default placement")
async def test_lessons_and_quick_start_match_the_real_output_and_clean_up(
    reader: tuple[Scenario, Shell], subtests: pytest.Subtests
) -> None:
    scenario, shell = reader
    for document, folder in chosen(DOCUMENTS).items():
        with subtests.test(str(document)):
            try:
                assert await follow(shell, document, folder) == ""
                await scenario.eventually("nothing is left", lambda: _is_clean(scenario))
            finally:
                await _cleaned(scenario)


async def _has_account(scenario: Scenario) -> bool:
    try:
        return bool(await scenario.api.get("serviceaccounts", "default", WHERE))
    except ApiError:
        return False


async def _is_clean(scenario: Scenario) -> bool:
    return not await scenario.api.find("pods", WHERE) and not leftovers(await scenario.muster.dump())


async def _cleaned(scenario: Scenario) -> None:
    """Delete the objects and namespaces that a failed lesson left."""
    for namespace in await scenario.api.find("namespaces"):
        if (name := namespace["metadata"]["name"]).startswith(OWN_NAMESPACES):
            await scenario.api.delete("namespaces", name)
    for plural in ("jobs", "cronjobs", "deployments", "statefulsets", "daemonsets", "replicasets", "pods"):
        await scenario.api.delete_all(plural, WHERE)
    await scenario.eventually("nothing is left", lambda: _is_clean(scenario))
