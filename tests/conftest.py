"""What holds for all tests: end-to-end tests are marked by their folder, and random tests are repeatable.

``MUSTER_HYPOTHESIS=thorough`` makes the random tests run much longer.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

#: Tests that need a cluster, each folder with one of its own.
ON_A_CLUSTER = [Path(__file__).parent / name for name in ("e2e", "attacks")]
SECONDS_FOR_AN_E2E_TEST = 300

# No deadline: a slow machine is not a failure. Repeatable: the same tree gives the same verdict.
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("MUSTER_HYPOTHESIS", "repeatable"))


class OneForTheCluster(LoadScopeScheduling):
    """The tests of a folder that needs a cluster share one: one process of several (`-n 2`) runs them all, in order."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in ("tests/e2e/", "tests/attacks/") if nodeid.startswith(folder)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneForTheCluster:
    """All other tests go one by one to whoever has time."""
    return OneForTheCluster(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the end-to-end tests, and gives each the time a cluster needs unless it says otherwise."""
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in ON_A_CLUSTER):
            item.add_marker(pytest.mark.e2e)
            if item.get_closest_marker("timeout") is None:
                # Of the test itself: a fixture may have to compile the control plane first.
                item.add_marker(pytest.mark.timeout(SECONDS_FOR_AN_E2E_TEST, func_only=True))
