"""Limits become values, those of the partition become those of root, and they stay within the limits above."""

import pytest

from muster_core.config.load import load
from muster_core.model.config import QuotaLimit
from muster_core.model.errors import ConfigurationError
from muster_core.model.resources import Limit
from tests.unit.core.config.tree import a_file, child, partition, queues


def test_an_entry_comes_out_with_its_names_in_their_order() -> None:
    root = queues(
        """
        - name: a
          limits:
            - {limit: the team, users: [bob, ann], groups: [devs], maxapplications: 3, maxresources: {vcore: 1, gpu: 0}}
            - {groups: ['*'], maxresources: {memory: 1Ki}}
            - {users: ['*'], maxapplications: 1}
        """
    )
    assert child(root, "a").limits == (
        QuotaLimit(("bob", "ann"), ("devs",), Limit({"vcore": 1000, "gpu": 0}), 3, "the team"),
        QuotaLimit((), ("*",), Limit({"memory": 1024})),
        QuotaLimit(("*",), (), max_applications=1),
    )


ONE = "limits: [{users: [ann], maxapplications: 1}]"


@pytest.mark.parametrize(
    "text",
    [
        "partitions: [{" + ONE + ", queues: [{name: a}]}]",
        "partitions: [{" + ONE + ", queues: [{name: root}]}]",
        "partitions: [{queues: [{name: root, " + ONE + "}]}]",
        "partitions: [{" + ONE + ", queues: [{name: root, " + ONE + "}]}]",
    ],
)
def test_the_limits_of_a_partition_are_those_of_root(text: str) -> None:
    assert partition(text).root.limits == (QuotaLimit(("ann",), max_applications=1),)


def nested(above: str, below: str) -> str:
    """A file with these limits on queue `a`, and those on `a.b`."""
    return a_file(f"- name: a\n  limits: [{above}]\n  queues: [{{name: b, limits: [{below}]}}]\n")


@pytest.mark.parametrize(
    "above, below",
    [
        ("{users: [ann], maxresources: {vcore: 2}}", "{users: [ann], maxresources: {vcore: 2, memory: 9}}"),
        ("{users: [ann], maxresources: {vcore: 2}}", "{users: [bob], maxresources: {vcore: 3}}"),
        ("{users: [ann], maxapplications: 2}", "{users: [ann], maxresources: {vcore: 3}}"),
        ("{users: [ann], maxapplications: 2}", "{groups: [ann], maxapplications: 3}"),
        (
            "{users: [ann], maxapplications: 9}, {users: ['*'], maxapplications: 2}",
            "{users: [ann], maxapplications: 9}",
        ),
    ],
)
def test_a_limit_within_that_of_a_queue_above_is_accepted(above: str, below: str) -> None:
    assert load(nested(above, below), {}).warnings == ()


@pytest.mark.parametrize(
    "above, below, key, rule",
    [
        (
            "{users: [ann], maxresources: {vcore: 2}}",
            "{users: [ann], maxresources: {vcore: 2001m}}",
            "maxresources.vcore",
            "exceeds the limit of 'ann' in a parent queue, 2",
        ),
        (
            "{users: ['*'], maxapplications: 2}",
            "{users: [ann], maxapplications: 3}",
            "maxapplications",
            "exceeds the limit of 'ann' in a parent queue, 2",
        ),
        (
            "{groups: [devs], maxapplications: 9}, {groups: ['*'], maxapplications: 2}",
            "{groups: [ops], maxapplications: 3}",
            "maxapplications",
            "exceeds the limit of 'ops' in a parent queue, 2",
        ),
    ],
)
def test_a_limit_wider_than_that_of_a_queue_above_is_refused(above: str, below: str, key: str, rule: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(nested(above, below), {})
    path = f"partitions[0].queues[0].queues[0].limits[0].{key}"
    assert (caught.value.path, caught.value.rule) == (path, rule)


def test_a_limit_is_held_against_every_queue_above_through_ones_without_limits() -> None:
    text = a_file(
        """
        - name: a
          limits: [{users: [ann], maxresources: {vcore: 5}}]
          queues:
            - name: b
              limits: [{users: [ann], maxresources: {memory: 7}}]
              queues: [{name: c, queues: [{name: d, limits: [{users: [ann], maxresources: {vcore: 6}}]}]}]
        """
    )
    with pytest.raises(ConfigurationError, match="exceeds the limit of 'ann' in a parent queue, 5"):
        load(text, {})
    with pytest.raises(ConfigurationError, match="exceeds the limit of 'ann' in a parent queue, 7"):
        load(text.replace("{vcore: 6}", "{memory: 8}"), {})


def test_the_limits_of_a_partition_bind_those_of_its_queues() -> None:
    text = "partitions: [{" + ONE + ", queues: [{name: a, limits: [{users: [ann], maxapplications: 2}]}]}]"
    with pytest.raises(ConfigurationError, match="exceeds the limit of 'ann' in a parent queue, 1"):
        load(text, {})
    with pytest.raises(ConfigurationError, match="exceeds the limit of 'ann' in a parent queue, 1"):
        load(text.replace("queues: [{", "queues: [{name: root, queues: [{").replace("}]}]}]", "}]}]}]}]"), {})
