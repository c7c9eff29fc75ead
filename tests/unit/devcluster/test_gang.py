"""The demo's view of a gang depends only on the watch events of its pods."""

import json

from devcluster import demo
from devcluster.api import Json
from devcluster.gang import GangView

GROUPS = json.dumps([{"name": "workers", "minMember": 2, "minResource": {"cpu": "1"}}])


def a_pod(name: str, *, node: str = "", placeholder: bool = False, phase: str = "Pending") -> Json:
    annotations = {
        "yunikorn.apache.org/task-group-name": "workers",
        "yunikorn.apache.org/task-groups": GROUPS,
        **({"internal.yunikorn.apache.org/placeholder": "true"} if placeholder else {}),
    }
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec, "status": {"phase": phase}}


def view_of(*events: tuple[str, Json]) -> GangView:
    view = GangView()
    for now, (kind, pod) in enumerate(events):
        view.see(kind, pod, float(now))
    return view


def totals(view: GangView) -> dict[str, int]:
    return {
        what: view.total(what) for what in ("asked", "created", "reserved", "replaced", "released", "left", "bound")
    }


def test_a_pod_without_a_group_is_not_a_gang_member() -> None:
    assert view_of(("ADDED", {"metadata": {"name": "p"}, "spec": {}})).groups == {}


def test_the_first_pod_announces_the_group_and_placeholders_are_counted_once() -> None:
    view = view_of(
        ("ADDED", a_pod("real-0")),
        ("ADDED", a_pod("tg-0", placeholder=True)),
        ("MODIFIED", a_pod("tg-0", placeholder=True, node="n")),
        ("MODIFIED", a_pod("tg-0", placeholder=True, node="n")),
    )
    assert totals(view) == {
        "asked": 2, "created": 1, "reserved": 1, "replaced": 0, "released": 0, "left": 1, "bound": 0,
    }  # fmt: skip


def test_every_placeholder_that_went_is_released_and_replaced_only_if_a_real_pod_came() -> None:
    view = view_of(
        ("ADDED", a_pod("tg-0", placeholder=True, node="n")),
        ("ADDED", a_pod("tg-1", placeholder=True, node="n")),
        ("DELETED", a_pod("tg-0", placeholder=True, node="n")),
        ("MODIFIED", a_pod("real-0", node="n")),
        ("DELETED", a_pod("tg-1", placeholder=True, node="n")),
    )
    assert (view.total("replaced"), view.total("released"), view.total("left")) == (1, 2, 0)


def test_milestones_keep_the_time_they_were_first_reached() -> None:
    view = view_of(
        ("ADDED", a_pod("tg-0", placeholder=True)),
        ("ADDED", a_pod("tg-1", placeholder=True)),
        ("MODIFIED", a_pod("tg-0", placeholder=True, node="n")),
        ("MODIFIED", a_pod("tg-1", placeholder=True, node="n")),
        ("MODIFIED", a_pod("tg-1", placeholder=True, node="n")),
    )
    assert view.milestones["all placeholders created"] == 1.0
    assert view.milestones["all placeholders bound"] == 3.0
    assert "all real pods bound" not in view.milestones


def test_what_the_demo_says_at_its_end_fits_80_columns() -> None:
    kept = demo.KEPT.format(kubeconfig="k", server="http://127.0.0.1:31578", path="p")
    assert [line for line in (demo.NEXT + kept).splitlines() if len(line) > 80] == []
