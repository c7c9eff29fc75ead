"""Builders of commands with defaults. A test specifies only the values that matter to it."""

from muster_operator.model.commands import (
    BindPod,
    CreatePlaceholder,
    DeletePod,
    EventType,
    Importance,
    MarkDisrupted,
    PostEvent,
    SetCondition,
    Subject,
)
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.pods import GangSource, PlaceholderSpec, PodRef, TaskGroup


def a_ref(name: str = "p") -> PodRef:
    return PodRef("ns", name, PodUid(f"uid-{name}"))


def a_pod(name: str = "p", node: str = "", uid: str = "") -> dict[str, object]:
    """Return a raw pod as the API server returns it."""
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}"}, "spec": spec}


def a_bind(name: str = "p", node: str = "n1") -> BindPod:
    return BindPod(a_ref(name), NodeName(node))


def a_delete(name: str = "p") -> DeletePod:
    return DeletePod(a_ref(name), "released")


def a_disruption(name: str = "p") -> MarkDisrupted:
    return MarkDisrupted(a_ref(name), "for job high")


def a_condition(name: str = "p", reason: str = "Unschedulable") -> SetCondition:
    return SetCondition(a_ref(name), reason, "no node has it")


def a_create(name: str = "tg-1") -> CreatePlaceholder:
    group = TaskGroup("workers", 1, {"vcore": 100}, {"cpu": "100m"})
    spec = PlaceholderSpec(name, AppId("app"), "root.q", group, a_ref("driver"), "muster", "", (), GangSource())
    return CreatePlaceholder(spec)


def an_event(
    note: str = "hello", *, series: str = "", importance: Importance = Importance.RESULT, name: str = "p"
) -> PostEvent:
    return PostEvent(
        Subject.POD, "ns", name, f"uid-{name}", EventType.NORMAL, "Scheduled", "Bind", note, importance, series
    )
