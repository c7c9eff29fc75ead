"""The optional features: the core schedules without them, and rejects what needs them with a clear answer."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster_core.main import install_extensions
from muster_core.placement.plugins.hooks import HOOKS
from muster_si import keys, muster_pb2, si_pb2
from muster_si.errors import RefusalCode, Refused
from tests.unit.core.conftest import Bench
from tests.unit.core.messages import RM, a_node, an_application, an_ask, applications, asks, nodes

ROOT = Path(__file__).parents[4]
FEATURES = ("placement_constraints", "predicate_callbacks", "utilization", "recommendations")
CONSTRAINT = '{"simpleConstraint": {"nodeAffinityConstraint": {"targetExpressions": []}}}'
MODULES = "muster_core.runtime.service, muster_core.rest.server, muster_core.placement.plugins.hooks"


@pytest.fixture
async def bare(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A core with a node and an application, and without the optional features."""
    for feature in FEATURES:
        monkeypatch.setattr(HOOKS, feature, None)
    await bench.register()
    await bench.core.update_node(nodes(a_node()))
    await bench.core.update_application(applications(an_application()))
    return bench


def answers(bench: Bench) -> Iterator[si_pb2.AllocationResponse]:
    return (effects for effects in bench.rm.received if isinstance(effects, si_pb2.AllocationResponse))


def test_the_core_is_loaded_without_the_package_of_the_features() -> None:
    code = (
        "import sys; sys.modules['muster_core.extensions'] = None\n"
        f"import {MODULES}\n"
        "hooks = muster_core.placement.plugins.hooks.HOOKS\n"
        f"assert all(getattr(hooks, name) is None for name in {FEATURES})"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_installation_sets_every_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    for feature in FEATURES:
        monkeypatch.setattr(HOOKS, feature, None)
    install_extensions()
    assert set(FEATURES) == set(HOOKS.__slots__)
    assert all(getattr(HOOKS, feature) is not None for feature in FEATURES)


def test_random_events_that_run_without_pytest_have_every_hook() -> None:
    """`make soak` does; its requests have placement constraints."""
    code = (
        "import tools.soak\n"
        "from muster_core.placement.plugins.hooks import HOOKS\n"
        f"assert all(getattr(HOOKS, name) is not None for name in {FEATURES})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


async def test_a_core_without_the_features_schedules(bare: Bench) -> None:
    avoiding = {keys.TAG_AVOID_NODES: "another-node"}
    await bare.core.update_allocation(asks(an_ask("plain"), an_ask("avoids", tags=avoiding)))
    await bare.wait_until_idle()
    assert {one.allocationKey for effects in answers(bare) for one in effects.new} == {"plain", "avoids"}


async def test_an_ask_with_a_placement_constraint_is_rejected(bare: Bench) -> None:
    await bare.core.update_allocation(asks(an_ask("x", tags={keys.TAG_PLACEMENT: CONSTRAINT}), an_ask("y")))
    await bare.wait_until_idle()
    [rejected] = [one for effects in answers(bare) for one in effects.rejected]
    assert rejected.allocationKey == "x"
    assert (
        rejected.reason == f"{keys.TAG_PLACEMENT} is not supported: this scheduler runs without placement constraints"
    )
    assert [one.allocationKey for effects in answers(bare) for one in effects.new] == ["y"]


async def test_utilization_reports_are_rejected(bare: Bench) -> None:
    with pytest.raises(Refused, match="this scheduler runs without utilization reports") as refused:
        await bare.core.update_utilization(muster_pb2.UtilizationRequest(rmID=RM))
    assert refused.value.code is RefusalCode.FAILED_PRECONDITION


async def test_a_registration_that_announces_utilization_is_rejected(bare: Bench) -> None:
    with pytest.raises(Refused, match=f"without utilization reports, which {keys.EXTRA_UTILIZATION} announces"):
        await bare.register(**{keys.EXTRA_UTILIZATION: "true"})


@pytest.mark.parametrize("wanted", ["predicates", "preemptionPredicates"])
async def test_a_declaration_of_callbacks_is_rejected(bare: Bench, wanted: str) -> None:
    with pytest.raises(Refused, match="this scheduler runs without predicate callbacks"):
        await bare.core.answer(RM, muster_pb2.Answer(attendance=muster_pb2.Attendance(**{wanted: True})))
    await bare.core.answer(RM, muster_pb2.Answer(attendance=muster_pb2.Attendance(stateDump=True)))


async def test_an_interval_of_recommendations_is_a_warning(bare: Bench) -> None:
    await bare.register(**{keys.EXTRA_EMPTY_NODE_INTERVAL: "1m"})
    await bare.wait_until_idle()
    found = {one.noted.message for one in bare.core.events.batch(0, 100).records or ()}
    assert [text for text in found if "has no effect" in text] == [
        "service.emptyNodeInterval has no effect: this scheduler runs without recommendations"
    ]
