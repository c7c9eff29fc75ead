"""Every name of every version of the Scheduler Interface has a row with its implementation."""

from importlib import import_module
from typing import Any

from muster_si import muster_pb2, si_pb2
from tools import compatibility

ROWS: list[dict[str, Any]] = [row.model_dump() for row in compatibility.load().section("all-versions").rows]
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


def is_implemented(where: str, known: set[str]) -> bool:
    """Whether the name is in the descriptors or in a module."""
    if where in known:
        return True
    module, _, name = where.rpartition(".")
    return where == "muster_si.keys" or (module.startswith("muster_") and hasattr(import_module(module), name))


def test_every_row_names_its_implementation_or_the_difference() -> None:
    known = descriptors()
    assert [
        row["name"]
        for row in ROWS
        if row["kind"] not in KINDS
        or not all(is_implemented(where, known) for where in row["where"])
        or not (row["where"] or row.get("differs"))
    ] == []


def test_every_name_has_one_row_and_every_current_message_has_a_row() -> None:
    names = [(version, row["name"]) for row in ROWS for version in row["versions"]]
    assert len(names) == len(set(names))
    current = {name for version, name in names if version == "current"}
    assert {message.name for message in si_pb2.DESCRIPTOR.message_types_by_name.values()} <= current


def test_the_kept_parts_of_the_first_version_have_rows() -> None:
    listed = {where for row in ROWS for where in row["where"]}
    assert {
        "muster.v1.UtilizationReport",
        "muster.v1.NodeRecommendation",
        "muster.v1.AutoScalingMetrics",
        "muster.v1.AdminService.UpdateConfig",
        "muster.v1.MetricsService",
    } <= listed
