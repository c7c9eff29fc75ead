"""The audit log is read from an offset, only complete lines, and counted by user and kind."""

from pathlib import Path

import orjson

from devcluster.api import Json
from devcluster.audit import AuditLog, bindings_per_pod, counts
from devcluster.leftovers import leftovers


def line(
    verb: str = "create", *, name: str = "p", subresource: str = "", code: int = 201, user: str = "u", uid: str = ""
) -> bytes:
    event = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "verb": verb,
        "user": {"username": user},
        "userAgent": "agent",
        "objectRef": {"resource": "pods", "subresource": subresource, "namespace": "ns", "name": name},
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": "2026-11-20T00:00:00.000000Z",
        "requestObject": {"metadata": {"uid": uid}, "target": {"name": "node-1"}} if subresource == "binding" else None,
    }
    return orjson.dumps(event) + b"\n"


def test_a_missing_log_is_empty(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    assert (log.mark(), log.since()) == (0, [])


def test_a_line_still_being_written_is_left_for_the_next_time(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    complete = line(name="first")
    log.path.write_bytes(complete + line(name="second")[:20])
    assert [write.name for write in log.since()] == ["first"]
    log.path.write_bytes(complete + line(name="second"))
    assert [write.name for write in log.since(len(complete))] == ["second"]


def test_a_truncated_line_does_not_affect_other_lines(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.path.write_bytes(line(name="first")[:60] + line(name="second") + b'{"kind":"Ev\n' + line(name="third"))
    assert [write.name for write in log.since()] == ["second", "third"]


def test_only_successful_bindings_count_and_each_counts(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.path.write_bytes(
        line(name="twice", subresource="binding")
        + line(name="twice", subresource="binding")
        + line(name="again", uid="1", subresource="binding")
        + line(name="again", uid="2", subresource="binding")
        + line(name="refused", subresource="binding", code=409)
        + line(name="made")
    )
    assert bindings_per_pod(log.since()) == {
        ("ns", "twice", ""): 2,
        ("ns", "again", "1"): 1,
        ("ns", "again", "2"): 1,
    }
    assert {write.node for write in log.since() if write.subresource} == {"node-1"}


def test_writes_are_counted_by_kind_for_one_user(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.path.write_bytes(line() + line(user="other") + line("delete", code=404) + line(subresource="binding"))
    assert counts(log.since(), "u") == {"create pods": 1, "delete pods": 1, "create pods/binding": 1}


def test_incremental_reads_return_each_write_once(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.path.write_bytes(line(name="a") + line(name="b")[:-20])
    first, mark = log.writes_with_mark(0)
    log.path.write_bytes(line(name="a") + line(name="b") + line(name="c"))
    second, _ = log.writes_with_mark(mark)
    assert [write.name for write in first] == ["a"]
    assert [write.name for write in second] == ["b", "c"]


# -- A core is empty only if every part of its dump is empty.


def a_dump(applications: list[Json] | None = None, invariants: list[str] | None = None, **ledgers: object) -> Json:
    return {"ledgers": ledgers, "applications": applications or [], "invariants": invariants}


def test_zeros_foreign_pods_and_odd_messages_are_nothing_left_over() -> None:
    assert leftovers(a_dump(asks=0, queues={}, users={"u": {"root": {"vcore": 0}}}, foreign=3, ignored={"x": 1})) == []


def test_each_amount_is_named_by_its_path() -> None:
    dump = a_dump(asks=2, queues={"root.a": {"allocated": {"vcore": 100}, "pending": {}}})
    assert leftovers(dump) == ["asks = 2", "queues/root.a/allocated/vcore = 100"]


def test_a_living_application_and_a_broken_invariant_are_left_over() -> None:
    dump = a_dump([{"applicationID": "app", "applicationState": "Running"}], ["sums differ"])
    assert leftovers(dump) == ["app is Running", "invariant: sums differ"]
