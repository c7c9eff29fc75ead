"""What holds for all tests: end-to-end tests are marked by their folder, and random tests are repeatable.

``MUSTER_HYPOTHESIS=thorough`` makes the random tests run much longer.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

E2E = Path(__file__).parent / "e2e"
SECONDS_FOR_AN_E2E_TEST = 300

# No deadline: a slow machine is not a failure. Repeatable: the same tree gives the same verdict.
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("MUSTER_HYPOTHESIS", "repeatable"))


class OneForTheCluster(LoadScopeScheduling):
    """End-to-end tests share one cluster: one process of a run in several (`-n 2`) has them all, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return "cluster" if nodeid.startswith("tests/e2e/") else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneForTheCluster:
    """All other tests go one by one to whoever has time."""
    return OneForTheCluster(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the end-to-end tests, and gives each the time a cluster needs unless it says otherwise."""
    for item in items:
        if item.path.is_relative_to(E2E):
            item.add_marker(pytest.mark.e2e)
            if item.get_closest_marker("timeout") is None:
                # Of the test itself: a fixture may have to compile the control plane first.
                item.add_marker(pytest.mark.timeout(SECONDS_FOR_AN_E2E_TEST, func_only=True))
