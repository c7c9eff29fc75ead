"""Requests that differ only in the names of their claims share the infeasible nodes, which are evaluated once."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.ids import NodeId
from muster_core.model.specs import PodProperties, Volumes
from muster_core.model.storage import ClaimReference, StorageFact, VolumeHandle
from muster_core.placement import node_search
from muster_core.placement.pods import claim_independent_class
from muster_core.state.request_classes import AskClass, class_of
from muster_core.state.snapshot import shape_of
from tests.unit.builders import an_ask
from tests.unit.core.placement.tables import named
from tests.unit.core.placement.volumes.storage_clusters import (
    DRIVER,
    HOST,
    Stored,
    a_claim,
    a_volume,
    attaching,
    bound,
    on,
    using,
)

_NODES = ("n1", "n2", "n3")
_STATES = st.sampled_from(["late", "made", "bound", "anywhere", "lost", "shared", "assumed", "kept", "selected", "one"])


def a_class(volumes: Volumes) -> AskClass:
    return class_of(replace(an_ask("p"), facts=PodProperties(volumes=volumes)), as_usual=True)


def facts_of(name: str, state: str, node: str) -> tuple[StorageFact, ...]:
    host = on(HOST, node)
    match state:
        case "bound":
            return bound(name, a_volume(f"v-{name}", affinity=host))
        case "anywhere" | "shared":
            return bound(name, a_volume(f"v-{name}"))
        case "lost":
            return (a_claim(name, phase="Lost"),)
        case "kept":
            return a_claim(name), a_volume(f"v-{name}", affinity=host, reference=ClaimReference(f"ns/{name}"))
        case "selected":
            return (a_claim(name, of="made", selected_node=NodeId(node)),)
        case "one":
            return (a_claim(name, of="made", modes=("ReadWriteOncePod",)),)
        case "assumed":
            return a_claim(name), a_volume(f"v-{name}", affinity=host)
        case _:
            return (a_claim(name, of=state),)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(_STATES, st.sampled_from(_NODES)), min_size=2, max_size=8), st.integers(0, 2))
def test_requests_of_one_class_have_the_same_nodes_and_the_same_reasons(
    claims: list[tuple[str, str]], free: int
) -> None:
    names = [f"c{number}" for number in range(len(claims))]
    objects = [fact for name, (state, node) in zip(names, claims, strict=True) for fact in facts_of(name, state, node)]
    objects += [a_volume(f"free{number}", affinity=on(HOST, _NODES[number])) for number in range(free)]
    nodes = [replace(attaching(node, number), labels={HOST: node}) for number, node in enumerate(_NODES)]
    stored = Stored(*nodes, objects=tuple(objects))
    for name, (state, node) in zip(names, claims, strict=True):
        if state in ("shared", "one"):
            stored.put(node, using(name))
        if state == "assumed":
            stored.assume(node, **{name: f"v-{name}"})
    snapshot = stored.snapshot()
    found: dict[object, tuple[str, str]] = {}
    for name in names:
        one = a_class(using(name))
        kind = claim_independent_class(snapshot, one)
        answer = (
            named(node_search.allowed(snapshot, shape_of(one)), stored.table),
            node_search.unschedulable_reason(snapshot, shape_of(one)).text(),
        )
        if kind is not None:
            assert found.setdefault(kind, answer) == answer


def test_equal_claims_and_claims_bound_on_the_same_nodes_share_a_class() -> None:
    objects: list[StorageFact] = [a_claim("a"), a_claim("b"), a_claim("large", 2), a_claim("made", of="made")]
    for name, node in (("x", "n1"), ("y", "n1"), ("z", "n2")):
        changes: tuple[StorageFact, ...] = bound(name, a_volume(f"v-{name}", affinity=on(HOST, node)))
        objects += changes
    stored = Stored("n1", "n2", objects=tuple(objects))
    snapshot = stored.snapshot()
    kinds = {
        name: claim_independent_class(snapshot, a_class(using(name)))
        for name in ("a", "b", "large", "made", "x", "y", "z")
    }
    assert None not in kinds.values()
    assert kinds["a"] == kinds["b"]
    assert kinds["x"] == kinds["y"]
    assert len(set(kinds.values())) == 5


def test_a_claim_or_volume_in_use_has_no_class() -> None:
    twice = replace(a_volume("w"), handle=VolumeHandle(DRIVER, "v"))
    stored = Stored("n1", objects=(*bound("a", a_volume("v")), *bound("b", twice), a_claim("free"), a_claim("gone")))
    stored.put("n1", using("a"))
    snapshot = stored.snapshot()
    assert claim_independent_class(snapshot, a_class(using("a"))) is None
    assert claim_independent_class(snapshot, a_class(using("b"))) is None
    assert claim_independent_class(snapshot, a_class(using("free", "free"))) is None
    assert claim_independent_class(snapshot, a_class(using("missing"))) is None
    assert claim_independent_class(snapshot, a_class(Volumes())) is None
