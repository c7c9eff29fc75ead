"""What holds for all tests: end-to-end tests are marked by their folder, and random tests are repeatable."""

import gc
import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
import structlog
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.amounts import IS_THOROUGH
from tests.e2e import permissions

#: Tests that need a cluster, each folder with one of its own.
ON_A_CLUSTER = [Path(__file__).parent / name for name in ("e2e", "attacks")]
FOLDERS = ("tests/e2e/", "tests/attacks/")
DOCUMENTS = "tests/e2e/documents/"
COMPARISON = "tests/conformance/test_placement.py"
#: Tests that share one browser.
BROWSER = "tests/browser/"
#: Tests that parse all Python files.
OF_THE_TREE = tuple(f"tests/unit/repo/test_{name}.py" for name in ("layout", "messages", "sizes", "words"))
#: Files whose tests take half a minute or more together, longest first. They start first, so that no process is left
#: with one of them when the others have ended.
LONGEST: Final = (
    "tests/e2e/documents/test_transcripts.py",
    "tests/attacks/test_rest.py",
    "tests/e2e/user_reports/test_runs.py",
    "tests/attacks/test_floods.py",
    "tests/e2e/gang_placement/test_placement_modes.py",
    "tests/e2e/gang_placement/test_auto.py",
    "tests/attacks/test_trust.py",
    "tests/attacks/test_questions.py",
    "tests/e2e/faults/test_survival.py",
    "tests/e2e/applications/test_runs.py",
    "tests/e2e/recovery/test_restarts.py",
    "tests/e2e/reservations/test_lost_members.py",
    "tests/e2e/faults/test_each_request.py",
    "tests/e2e/gang_placement/test_missing_members.py",
    "tests/e2e/leader_election/test_leader_election.py",
)
SECONDS_FOR_AN_E2E_TEST = 300

# The user may have exported them for a demo cluster; commands under test would ask its core.
for variable in ("MUSTER_SERVER", "MUSTER_TOKEN_FILE", "MUSTER_NAMESPACE"):
    os.environ.pop(variable, None)

# No deadline: a slow machine is not a failure. Repeatable: the same tree gives the same verdict.
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("thorough" if IS_THOROUGH else "repeatable")

# Tests do not configure the log. The default of structlog draws the local variables of each frame, for up to a second.
structlog.configure(
    processors=[
        structlog.stdlib.add_log_level,
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback, colors=False),
    ]
)


def group(nodeid: str) -> str:
    """Return the name of the tests that run in one process, in order.

    Each process has a cluster of its own. The tests of a file that need one run there in order, except documents, which
    take long. So do the tests of placement, which share one comparison, those of the web UI, which share one browser,
    and those that parse all Python files. All others are distributed one by one.
    """
    file, *_ = nodeid.split("::")
    if file in OF_THE_TREE:
        return "tests/unit/repo"
    if file.startswith(BROWSER):
        return BROWSER
    return file if file.startswith((*FOLDERS, COMPARISON)) and not file.startswith(DOCUMENTS) else nodeid


class ByGroup(LoadScopeScheduling):
    """Distributes the groups in the order in which pytest_collection_modifyitems puts them.

    End-to-end tests wait more than they compute. Of four or more processes the last one begins with the other tests, so
    that these use the time in which the end-to-end tests of the other processes wait.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if len(self.nodes) >= 4 and node is self.nodes[-1]:
            without_cluster = next((name for name in self.workqueue if not name.startswith(FOLDERS)), None)
            if without_cluster is not None:
                self.workqueue.move_to_end(without_cluster, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup:
    """What distributes the tests."""
    return ByGroup(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the end-to-end tests, and gives each the time a cluster needs unless it says otherwise.

    They come first, because they wait more than they compute and take longest. Of these and of the others, the longest
    groups come first.
    """
    sizes = Counter(group(item.nodeid) for item in items)

    def order(item: pytest.Item) -> tuple[bool, int, int]:
        file, *_ = item.nodeid.split("::")
        rank = LONGEST.index(file) if file in LONGEST else len(LONGEST)
        return not file.startswith(FOLDERS), rank, -sizes[group(item.nodeid)]

    items.sort(key=order)
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in ON_A_CLUSTER):
            item.add_marker(pytest.mark.e2e)
            if item.get_closest_marker("timeout") is None:
                # Of the test itself: a fixture may have to compile the control plane first.
                item.add_marker(pytest.mark.timeout(SECONDS_FOR_AN_E2E_TEST, func_only=True))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collection, and exempt what the collection created from it: modules and tests stay until
    the end. Visiting them again and again took a third of the collection and an eighth of the unit tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """A process ended: add the permissions that its operators used to those of the run."""
    permissions.add(node.config, getattr(node, "workeroutput", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the permissions to the process that started this one, or compare them with the role."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput.update(permissions.output(config))
    elif permissions.of_run(config) and not session.testsfailed:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show where the operator's role and what its operators used differ."""
    found = permissions.of_run(config)
    if found:
        terminalreporter.section("permissions of the operator's role", red=True, bold=True)
        for difference in found:
            terminalreporter.write_line(difference)
