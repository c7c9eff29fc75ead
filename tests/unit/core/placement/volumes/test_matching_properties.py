"""Free volumes of all rows equal those of a search per row, and cached pools equal new ones."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.constraints import Target, TargetOperator
from muster_core.model.storage import Claim, ClaimReference, Volume
from muster_core.placement.volumes.binding import Matching, reach
from muster_core.state.snapshot import Assumptions
from muster_core.state.storage import meets
from tests.unit.builders import a_node
from tests.unit.core.placement.volumes.storage_clusters import HOST, ZONE, Stored, a_claim, a_volume, on

_NODES = ("n1", "n2", "n3", "n4")
_FAST = (Target("tier", TargetOperator.IN, ("fast",)),)
_AFFINITIES = st.sampled_from([None, on(ZONE, "a"), on(ZONE, "b"), *(on(HOST, node) for node in _NODES)])
_VOLUMES = st.builds(
    lambda gib, of, affinity, labels, reference: a_volume(
        "", gib, of=of, affinity=affinity, labels=labels, reference=reference
    ),
    st.integers(1, 3),
    st.sampled_from(["late", "late", "made"]),
    _AFFINITIES,
    st.sampled_from([(), (("tier", "fast"),)]),
    st.sampled_from([None, None, None, ClaimReference("ns/c0"), ClaimReference("ns/other")]),
)
_CLAIMS = st.builds(
    lambda gib, of, selector: a_claim("", gib, of=of, selector=selector),
    st.integers(1, 3),
    st.sampled_from(["late", "late", "made"]),
    st.sampled_from([None, None, _FAST]),
)


def _found_naively(stored: Stored, volumes: list[Volume], claims: list[Claim], taken: set[str], row: int) -> list[str]:
    """As kube-scheduler does it: a loop over everything."""
    gone = set(taken)
    found = []
    for claim in sorted(claims, key=lambda one: one.request or 0):
        own = [one for one in volumes if one.reference and one.reference.claim == claim.name and one.name not in gone]
        own = [one for one in own if one.capacity >= (claim.request or 0)]
        own = [one for one in own if one.storage_class == claim.demand.storage_class]
        free = [
            one
            for one in volumes
            if one.reference is None and one.name not in gone and meets(one, claim.demand)
            if one.capacity >= (claim.request or 0) and reach(stored.table, one.affinity)[row]
        ]
        if own:
            volume = own[0].name if reach(stored.table, own[0].affinity)[row] else ""
        else:
            volume = min(free, key=lambda one: (one.capacity, one.name)).name if free else ""
        gone.add(volume)
        found.append(volume)
    return found


@settings(deadline=None)
@given(
    volumes=st.lists(_VOLUMES, max_size=7),
    later=st.lists(st.tuples(st.integers(0, 6), _VOLUMES), max_size=3),
    claims=st.lists(_CLAIMS, min_size=1, max_size=3),
    taken=st.sets(st.integers(0, 6), max_size=2),
)
def test_rows_and_choices_equal_those_of_an_exhaustive_loop(
    volumes: list[Volume], later: list[tuple[int, Volume]], claims: list[Claim], taken: set[int]
) -> None:
    nodes = (a_node(name, labels={HOST: name, ZONE: "a" if name < "n3" else "b"}) for name in _NODES)
    named = [replace(claim, name=f"ns/c{number}") for number, claim in enumerate(claims)]
    known = {f"v{number}": replace(volume, name=f"v{number}") for number, volume in enumerate(volumes)}
    stored = Stored(*nodes, objects=(*known.values(), *named))
    assumptions = Assumptions(stored.table.pods_on_nodes.attachments.storage)
    assert len(Matching(stored.table, assumptions, named).rows()) == len(named)  # from here on pools are kept
    for number, volume in later:
        known[f"v{number}"] = replace(volume, name=f"v{number}")
        stored.send(known[f"v{number}"])
    for number in taken:
        if f"v{number}" in known and known[f"v{number}"].reference is None:
            stored.assume("n1", **{f"somebody{number}": f"v{number}"})
    gone = set(stored.table.pods_on_nodes.attachments.storage.taken)
    matching = Matching(stored.table, assumptions, named)
    columns = matching.rows()
    for node in stored.table:
        row = stored.table.rows.row(node)
        naive = _found_naively(stored, sorted(known.values(), key=lambda one: one.name), named, gone, row)
        assert matching.at(row) == naive
        assert [bool(column[row]) for column in columns] == [bool(volume) for volume in naive]
