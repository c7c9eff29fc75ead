"""Requests and applications for the core: preemption, priority, user, and the quota of the namespace."""

import json

import pytest

from muster_operator.model.cluster_events import ClusterEvent, NamespaceSeen, PriorityClassSeen
from muster_operator.model.commands import Outcome
from muster_operator.model.core_messages import ApplicationSpec, ApplicationSubmitted, AskSubmitted
from muster_operator.model.pods import UserInfo
from muster_operator.translate.nodes import read_namespace
from muster_si import keys
from tests.unit.operator.controller.driver import APP, Driver, live
from tests.unit.operator.controller.objects import CREATED_S, a_namespace, a_pod

ALLOW = "yunikorn.apache.org/allow-preemption"
USER = "yunikorn.apache.org/user.info"


def submitted(out: Outcome) -> ApplicationSpec:
    [requests] = [item for item in out.requests if isinstance(item, ApplicationSubmitted)]
    return requests.spec


def quota(amount: str) -> ClusterEvent:
    found = read_namespace(a_namespace(namespace_quota=json.dumps({"cpu": amount})))
    assert found is not None
    return NamespaceSeen(found)


@pytest.mark.parametrize(
    "on_class,on_pod,allowed",
    [
        (None, None, True),
        (False, None, False),
        (False, "true", True),
        (True, "false", False),
        (False, "perhaps", False),
    ],
)
def test_preemptibility_comes_from_the_pod_or_else_from_its_priority_class(
    on_class: bool | None,  # noqa: FBT001
    on_pod: str | None,
    allowed: bool,  # noqa: FBT001
) -> None:
    driver = live()
    if on_class is not None:
        driver.fact(PriorityClassSeen("batch", allow_preemption=on_class))
    out = driver.see(a_pod("w0", app=APP, annotations={ALLOW: on_pod} if on_pod else {}, priorityClassName="batch"))
    [ask] = [item.ask for item in out.requests if isinstance(item, AskSubmitted)]
    assert ask.allow_preempt_self is allowed


def test_a_request_carries_the_priority_and_preemption_policy_of_its_pod() -> None:
    driver = live()
    out = driver.see(a_pod("w0", app=APP, preemptionPolicy="Never", priority=1000))
    [ask] = [item.ask for item in out.requests if isinstance(item, AskSubmitted)]
    assert (ask.priority, ask.allow_preempt_other) == (1000, False)


def test_the_first_pod_determines_the_user_and_creation_time_of_the_application() -> None:
    """The other pods are treated as pods of the same user."""
    driver = live()
    ann = {USER: json.dumps({"user": "ann", "groups": ["research"]})}
    spec = submitted(driver.see(a_pod("w0", app=APP, annotations=ann)))
    assert spec.user == UserInfo("ann", ("research",))
    assert spec.tags[keys.APP_TAG_CREATION_TIME] == str(CREATED_S)
    later = driver.see(a_pod("w1", app=APP, annotations={USER: json.dumps({"user": "bob"})}))
    assert not later.requests
    assert {type(item) for item in driver.accepted().requests} == {AskSubmitted}


def quota_sent(driver: Driver, app: str) -> str:
    return submitted(driver.see(a_pod(app, app=app))).tags[keys.APP_TAG_RESOURCE_QUOTA]


def test_a_changed_namespace_quota_reaches_the_next_application() -> None:
    driver = live()
    driver.fact(quota("2"))
    first = quota_sent(driver, "first")
    renewal = submitted(driver.fact(quota("1")))
    assert (renewal.app, renewal.tags[keys.APP_TAG_RENEWAL]) == ("dev/first", "true")
    assert [json.loads(sent)["resources"][keys.CPU]["value"] for sent in (first, quota_sent(driver, "second"))] == [
        2000,
        1000,
    ]
