"""Everything in the seeds' Scheduler Interface has a row: where it lives now, and a test that is there."""

from importlib import import_module
from typing import Any

from muster_si import muster_pb2, si_pb2
from tools import compatibility

ROWS: list[dict[str, Any]] = [row.model_dump() for row in compatibility.load().section("seeds").rows]
KINDS = {"constants", "enum", "interface", "message", "option", "rpc", "service"}


def descriptors() -> set[str]:
    """Full names of all messages, enumerations, services, calls and options."""
    found = set()
    for file in (si_pb2.DESCRIPTOR, muster_pb2.DESCRIPTOR):
        found |= {message.full_name for message in file.message_types_by_name.values()}
        found |= {one.full_name for message in file.message_types_by_name.values() for one in message.enum_types}
        found |= {one.full_name for one in file.enum_types_by_name.values()}
        found |= {one.full_name for one in file.extensions_by_name.values()}
        for service in file.services_by_name.values():
            found |= {service.full_name, *(f"{service.full_name}.{call.name}" for call in service.methods)}
    return found


def stands(where: str, known: set[str]) -> bool:
    """In the descriptors, or in a module."""
    if where in known:
        return True
    module, _, name = where.rpartition(".")
    return where == "muster_si.keys" or (module.startswith("muster_") and hasattr(import_module(module), name))


def test_every_row_says_where_it_lives_or_why_nowhere() -> None:
    known = descriptors()
    assert [
        row["name"]
        for row in ROWS
        if row["kind"] not in KINDS
        or not all(stands(where, known) for where in row["where"])
        or not (row["where"] or row.get("differs"))
    ] == []


def test_no_row_stands_twice_and_all_of_seed_003_has_one() -> None:
    names = [(seed, row["name"]) for row in ROWS for seed in row["seeds"]]
    assert len(names) == len(set(names))
    of_003 = {name for seed, name in names if seed == "003"}
    assert {message.name for message in si_pb2.DESCRIPTOR.message_types_by_name.values()} <= of_003


def test_everything_of_ours_that_seed_001_named_is_in_the_list() -> None:
    listed = {where for row in ROWS for where in row["where"]}
    assert {
        "muster.v1.UtilizationReport",
        "muster.v1.NodeRecommendation",
        "muster.v1.AutoScalingMetrics",
        "muster.v1.AdminService.UpdateConfig",
        "muster.v1.MetricsService",
    } <= listed
