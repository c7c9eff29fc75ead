"""Parses partitions and queues for the tests of this folder."""

import re
from collections.abc import Iterable
from textwrap import dedent, indent

from muster_core.config.load import load
from muster_core.model.config import PartitionConfig, QueueConfig


def a_file(queues: str) -> str:
    """Return a file with one partition and these queues (a YAML list)."""
    return "partitions:\n  - name: default\n    queues:\n" + indent(dedent(queues), "      ")


def partition(text: str) -> PartitionConfig:
    """Return the first partition of the file."""
    return load(text, {}).configuration.partitions[0]


def queues(text: str) -> QueueConfig:
    """Return the root queue of a partition with these queues."""
    return partition(a_file(text)).root


def child(queue: QueueConfig, path: str) -> QueueConfig:
    """Return the queue with this path below `queue`."""
    for name in path.split("."):
        queue = next(found for found in queue.children if found.name == name)
    return queue


def unplaced(warnings: Iterable[str]) -> tuple[str, ...]:
    """The warnings without file and line. Raises AssertionError if a warning about the file has no line."""
    assert [warning for warning in warnings if re.match(r"partitions|queues\.yaml: ", warning)] == []
    return tuple(re.sub(r"^queues\.yaml:\d+: ", "", warning) for warning in warnings)
