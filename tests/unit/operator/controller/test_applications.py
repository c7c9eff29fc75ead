"""An application is defined by its first pod and its tags, which later pods cannot change."""

import json

from muster_operator.controller import recovery
from muster_operator.model.commands import CreatePlaceholder, Outcome
from muster_operator.model.core_messages import ApplicationSpec, ApplicationSubmitted
from muster_operator.model.states import AppState
from muster_si import keys
from tests.unit.operator.controller.driver import (
    APP,
    SHARED,
    SHARING,
    Driver,
    events,
    live,
    orders,
    requested_keys,
    whole,
)
from tests.unit.operator.controller.kubernetes import namespace_seen
from tests.unit.operator.controller.objects import CREATED_S, QUEUE, a_group, a_namespace, a_pod, gang_annotations
from tests.unit.operator.controller.simulation import Simulation
from tests.unit.operator.model.signing import OTHER_KEYS, sign_binding

CPU = '{"cpu": "1"}'


def submitted(out: Outcome) -> ApplicationSpec:
    [requests] = [item for item in out.requests if isinstance(item, ApplicationSubmitted)]
    return requests.spec


def quota(vcore: int) -> str:
    return json.dumps({"resources": {"vcore": {"value": vcore}}}, separators=(",", ":"))


def a_namespace_with_everything(driver: Driver) -> None:
    raw = a_namespace(namespace_quota='{"cpu": "2"}', namespace_guaranteed=CPU, parentqueue="root.team")
    raw["metadata"]["annotations"]["yunikorn.apache.org/namespace.maxApps"] = "4"
    driver.fact(namespace_seen(raw))


def test_an_application_carries_exactly_these_tags() -> None:
    """YuniKorn's tags, and Muster's own with the prefix ``muster/``."""
    driver = live()
    a_namespace_with_everything(driver)
    parameters = "gangSchedulingStyle=Hard gangWaitTimeoutInSeconds=5 topologyKey=rack topologyMode=required"
    annotations = gang_annotations(a_group(), parameters=parameters)
    raw = a_pod("w0", app=APP, annotations=annotations)
    tags = dict(submitted(driver.see(raw)).tags)
    assert json.loads(tags.pop(keys.APP_TAG_MEMBERS))[0]["name"] == "workers"
    assert tags == {
        "namespace": "dev",
        "namespace.parentqueue": "root.team",
        "namespace.resourcequota": quota(2000),
        "namespace.resourceguaranteed": quota(1000),
        "namespace.resourcemaxapps": "4",
        "yunikorn.apache.org/creationTime": str(CREATED_S),
        "yunikorn.apache.org/schedulingPolicyParameters": annotations["yunikorn.apache.org/schedulingPolicyParameters"],
        keys.APP_TAG_APPLICATION_ID: "job",
        keys.APP_TAG_GANG_WAIT_TIMEOUT: "5000",
        keys.APP_TAG_TOPOLOGY: '{"keys":["rack"],"required":true}',
    }


def test_an_application_is_force_created_only_in_a_recovery_with_a_pod_that_muster_bound() -> None:
    """A node that a user wrote, or YuniKorn, gives no rights; nor does a signature of another pod or node."""
    driver = live()
    bound = sign_binding(a_pod("b0", app="bound", nodeName="n1"))
    copied = a_pod("c0", app="copied", annotations=dict(bound["metadata"]["annotations"]), nodeName="n1")
    moved = sign_binding(a_pod("m0", app="moved", nodeName="n1"))
    moved["spec"]["nodeName"] = "n2"
    foreign = sign_binding(a_pod("f0", app="foreign", nodeName="n1"), OTHER_KEYS)
    placed = a_pod("p0", app="placed", nodeName="n1")
    for pod in (bound, copied, moved, foreign, placed, a_pod("w0", app="waits")):
        assert keys.APP_TAG_CREATE_FORCE not in submitted(driver.see(pod)).tags
    again = whole(recovery.begin(driver.ledger, 0.0)).requests
    specs = [item.spec for item in again if isinstance(item, ApplicationSubmitted)]
    assert len(specs) == 6
    assert [spec.app for spec in specs if spec.tags.get(keys.APP_TAG_CREATE_FORCE) == "true"] == ["dev/bound"]


def test_a_later_pod_does_not_enlarge_a_task_group() -> None:
    """Only the pod that creates the application is parsed."""
    driver = live()
    driver.see(a_pod("w0", app=APP, annotations=gang_annotations(a_group(members=2), member_of="workers")))
    driver.see(a_pod("w1", app=APP, annotations=gang_annotations(a_group(members=5), member_of="workers")))
    created = [order for order in orders(driver.accepted()) if isinstance(order, CreatePlaceholder)]
    assert len(created) == 2


def test_an_invalid_gang_definition_is_reported_and_the_application_runs_without_a_gang() -> None:
    driver = live()
    out = driver.see(a_pod("w0", app=APP, annotations=gang_annotations(a_group(minMember=-1))))
    assert events(out) == [("w0", "GangScheduling", "TaskGroupsError")]
    assert submitted(out).placeholder_ask == {}
    assert keys.APP_TAG_MEMBERS not in submitted(out).tags
    assert requested_keys(out) == ["uid-w0"]


def test_pods_of_one_id_in_a_sharing_group_join_the_application_of_the_first_pod() -> None:
    """As in YuniKorn, where IDs are not kept apart by namespace."""
    driver = live(settings=SHARING)
    driver.see(a_pod("w0", app=APP, annotations=gang_annotations(a_group(members=1))))
    driver.fact(namespace_seen(a_namespace("other")))
    raw = a_pod("w1", app=APP)
    raw["metadata"]["namespace"] = "other"
    assert ("w1", "Scheduling", "Scheduling") in events(driver.see(raw))
    [order] = [order for order in orders(driver.accepted(SHARED)) if isinstance(order, CreatePlaceholder)]
    assert order.spec.namespace == "dev"


def test_an_application_completes_after_its_originator_was_deleted() -> None:
    """Its left-over placeholders went with it, and a restart finds another originator."""
    simulation = Simulation()
    simulation.kubernetes.add_nodes(3)
    annotations = gang_annotations(a_group(members=3), member_of="workers")
    simulation.kubernetes.add(*(a_pod(f"w{index}", app=APP, annotations=annotations) for index in range(2)))
    simulation.start()
    simulation.run()
    assert simulation.ledger.applications[APP].state is AppState.RUNNING
    assert len(simulation.kubernetes.placeholders()) == 1
    simulation.kubernetes.delete_by_name("w0")
    simulation.run()
    assert simulation.ledger.applications[APP].originator.ref.name == "w1"
    simulation.kill_operator(lose_commands=True)
    simulation.run()
    assert simulation.ledger.applications[APP].originator.ref.name == "w1"
    assert simulation.kubernetes.placeholders() == []
    simulation.kubernetes.change("w1", phase="Succeeded")
    simulation.run()
    simulation.core.complete()
    simulation.run()
    assert simulation.ledger.applications == {}
    assert simulation.core.apps == {}


def test_placeholders_use_the_queue_of_the_first_pod() -> None:
    driver = live()
    raw = a_pod("w0", app=APP, annotations=gang_annotations(a_group(members=1)))
    raw["metadata"]["labels"][QUEUE] = "root.a"
    assert submitted(driver.see(raw)).queue == "root.a"
    [order] = [order for order in orders(driver.accepted()) if isinstance(order, CreatePlaceholder)]
    assert order.spec.queue == "root.a"
