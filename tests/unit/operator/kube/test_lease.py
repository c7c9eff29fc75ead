"""Which candidate may take the lease, by its own clock only, and the content of the object."""

import pytest

from muster_operator.kube.leases import NEVER_HELD, NO_HOLDER, Lease, LeaseObservation, body, read

A = Lease("a", 10, acquired="t0", renewed="t1", transitions=3, version="7", uid="u")


def test_a_lease_without_a_holder_is_free() -> None:
    assert LeaseObservation().free_in_s("b", 0.0) == 0
    assert LeaseObservation().updated(A.given_back("t2"), 5.0).free_in_s("b", 5.0) == 0


@pytest.mark.parametrize("looks", [[0.0], [0.0, 4.0, 9.0]])
def test_an_unchanged_lease_is_free_after_its_duration(looks: list[float]) -> None:
    observation = LeaseObservation()
    for moment in looks:
        observation = observation.updated(A, moment)
    assert observation.free_in_s("b", 9.0) == 1
    assert observation.free_in_s("b", 10.0) == 0


def test_a_renewal_counts_from_when_it_was_observed() -> None:
    observation = LeaseObservation().updated(A, 0.0).updated(A.renewed_by_holder(10, "long ago"), 9.0)
    assert observation.free_in_s("b", 10.0) == 9


def test_a_metadata_change_is_not_a_renewal() -> None:
    labelled = Lease("a", 10, acquired="t0", renewed="t1", transitions=3, version="8", uid="u")
    observation = LeaseObservation().updated(A, 0.0).updated(labelled, 9.0)
    assert observation.free_in_s("b", 10.0) == 0
    assert observation.lease.version == "8"


def test_a_candidate_may_take_its_own_lease_immediately() -> None:
    assert LeaseObservation().updated(A, 0.0).free_in_s("a", 0.0) == 0


def test_a_deleted_lease_is_not_free_before_it_expires() -> None:
    observation = LeaseObservation().updated(A, 0.0).updated(None, 1.0)
    assert observation.free_in_s("b", 1.0) == 9
    assert "resourceVersion" not in body("ns", "muster", observation.lease)["metadata"]


def test_holder_changes_are_counted_and_renewals_are_not() -> None:
    assert NEVER_HELD.taken_by("a", 10, "t").transitions == 0
    assert A.renewed_by_holder(10, "t2") == Lease("a", 10, "t0", "t2", 3)
    assert A.taken_by("a", 10, "t2") == Lease("a", 10, "t2", "t2", 3)
    assert A.taken_by("b", 20, "t2") == Lease("b", 20, "t2", "t2", 4)
    assert A.given_back("t2").taken_by("b", 10, "t3").transitions == 4


def test_a_holder_change_is_detected_after_the_lease_was_released() -> None:
    taken = A.taken_by("b", 10, "t2")
    for state, shown in [(A, False), (A.given_back("t"), False), (taken, True), (taken.given_back("t"), True)]:
        assert LeaseObservation().updated(state, 0.0).has_changed_hands(A) is shown
    assert not LeaseObservation().updated(A.renewed_by_holder(10, "t2"), 0.0).has_changed_hands(A)
    assert LeaseObservation().updated(A.taken_by("a", 10, "t2"), 0.0).has_changed_hands(A)


def test_a_lease_object_is_read_back_unchanged() -> None:
    raw = body("ns", "muster", A)
    assert read(raw) == A
    assert raw["metadata"]["resourceVersion"] == "7"
    assert (raw["kind"], raw["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")


@pytest.mark.parametrize("raw", [{}, {"spec": None, "metadata": None}, {"spec": {"holderIdentity": None}}])
def test_an_empty_lease_object_has_no_holder(raw: dict[str, object]) -> None:
    assert read(raw).holder == NO_HOLDER
    assert "acquireTime" not in body("ns", "muster", read(raw))["spec"]
