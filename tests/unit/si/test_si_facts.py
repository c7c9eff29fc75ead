"""si.proto is wire-compatible: names, numbers, types, labels, enum values, reserved numbers and streams are equal."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

from muster_si import si_pb2

FILE = FileDescriptorProto()
si_pb2.DESCRIPTOR.CopyToProto(FILE)

TYPES = {
    FieldDescriptorProto.TYPE_STRING: "string",
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_INT32: "int32",
    FieldDescriptorProto.TYPE_INT64: "int64",
}


def specified_blocks() -> dict[str, list[str]]:
    """The facts file by the head of each block; the order of lines does not matter."""
    text = (Path(__file__).parent / "si_facts.txt").read_text(encoding="utf-8")
    blocks: dict[str, list[str]] = {}
    head = ""
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        if line.startswith("  "):
            blocks[head].append(line.strip())
        else:
            head = line
            assert head not in blocks, "a block is in the facts file once"
            blocks[head] = []
    return {name: sorted(lines) for name, lines in blocks.items()}


def blocks_of_the_descriptors() -> dict[str, list[str]]:
    """The same of the compiled si.proto."""
    blocks = {f"syntax {FILE.syntax}": list[str](), f"package {FILE.package}": list[str]()}
    for extension in FILE.extension:
        blocks[f"extend {extension.extendee.lstrip('.')}"] = [field(extension, {})]
    for enum in FILE.enum_type:
        blocks[f"enum {enum.name}"] = values(enum)
    for message in FILE.message_type:
        blocks |= dict(message_blocks(message, ""))
    for service in FILE.service:
        blocks[f"service {service.name}"] = rpcs(service)
    return {name: sorted(lines) for name, lines in blocks.items()}


def message_blocks(message: DescriptorProto, parent: str) -> Iterator[tuple[str, list[str]]]:
    name = parent + message.name
    maps = {f".si.v1.{name}.{each.name}": each for each in message.nested_type if each.options.map_entry}
    yield f"message {name}", [field(each, maps) for each in message.field] + reserved(message)
    for enum in message.enum_type:
        yield f"enum {name}.{enum.name}", values(enum)
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from message_blocks(nested, f"{name}.")


def field(each: FieldDescriptorProto, maps: dict[str, DescriptorProto]) -> str:
    label = "many" if each.label == FieldDescriptorProto.LABEL_REPEATED else "one"
    return f"{each.number} {each.name} {type_of(each, maps)} {label}"


def type_of(each: FieldDescriptorProto, maps: dict[str, DescriptorProto]) -> str:
    if each.type_name in maps:
        key, value = maps[each.type_name].field
        return f"map<{type_of(key, {})},{type_of(value, {})}>"
    if each.type_name:
        # A type that is nested is named inside its parent without the parent, as in the specification.
        return each.type_name.rpartition(".")[2]
    return TYPES[each.type]


def reserved(message: DescriptorProto) -> list[str]:
    numbers = [str(number) for span in message.reserved_range for number in range(span.start, span.end)]
    lines = [f"reserved {' '.join(sorted(numbers, key=int))}"] if numbers else []
    return lines + ([f"reserved-names {' '.join(sorted(message.reserved_name))}"] if numbers else [])


def values(enum: EnumDescriptorProto) -> list[str]:
    return [f"{value.number} {value.name}" for value in enum.value]


def rpcs(service: ServiceDescriptorProto) -> list[str]:
    def side(name: str, *, is_stream: bool) -> str:
        return f"{'stream' if is_stream else 'single'} {name.rpartition('.')[2]}"

    return [
        f"{rpc.name} {side(rpc.input_type, is_stream=rpc.client_streaming)}"
        f" {side(rpc.output_type, is_stream=rpc.server_streaming)}"
        for rpc in service.method
    ]


SPECIFIED = specified_blocks()
OURS = blocks_of_the_descriptors()


#: Values of later YuniKorn releases. The specification does not use these numbers.
LATER: dict[str, list[str]] = {
    "enum EventRecord.Type": ["5 USERGROUP"],
    "enum EventRecord.ChangeDetail": [
        "213 APP_CANNOTRUN_QUEUE",
        "214 APP_RUNNABLE_QUEUE",
        "215 APP_CANNOTRUN_QUOTA",
        "216 APP_RUNNABLE_QUOTA",
        "407 QUEUE_PREEMPTION",
        "600 UG_USER_LIMIT",
        "601 UG_GROUP_LIMIT",
        "602 UG_APP_LINK",
        "603 UG_USER_RESOURCE",
        "604 UG_GROUP_RESOURCE",
    ],
}


@pytest.mark.parametrize("name", SPECIFIED)
def test_every_specified_definition_is_implemented(name: str) -> None:
    assert OURS.get(name) == sorted(SPECIFIED[name] + LATER.get(name, []))


def test_no_definition_is_outside_the_specification() -> None:
    assert sorted(OURS) == sorted(SPECIFIED)


def test_the_table_is_complete() -> None:
    """The numbers were counted in the specification: a facts file that lost a block would agree with an si.proto that
    lost it too.
    """
    assert sum(name.startswith(("message ", "enum ")) for name in SPECIFIED) == 39
    assert sum(len(lines) for lines in SPECIFIED.values()) == 200


def test_the_go_package_is_the_specified_one() -> None:
    assert FILE.options.go_package == "lib/go/si"


def test_the_full_method_names_match_the_specification() -> None:
    service = si_pb2.DESCRIPTOR.services_by_name["Scheduler"]
    assert [method.full_name for method in service.methods] == [
        "si.v1.Scheduler.RegisterResourceManager",
        "si.v1.Scheduler.UpdateAllocation",
        "si.v1.Scheduler.UpdateApplication",
        "si.v1.Scheduler.UpdateNode",
    ]
