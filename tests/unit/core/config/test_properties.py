"""Queue properties: meaning, inheritance, and the default with a warning for an invalid value."""

import pytest

from muster_core.config.load import load
from muster_core.model.config import ApplicationOrder, PreemptionPolicy, PriorityPolicy, QueuePolicies
from tests.unit.core.config.tree import a_file, child, queues, unplaced

SECOND = 1_000_000_000

EVERY = """
- name: parent
  properties:
    application.sort.policy: fair
    application.sort.priority: Disabled
    priority.policy: fence
    priority.offset: '-5'
    preemption.policy: %s
    preemption.delay: 1m
    preemption.daemonsets: 'True'
    quota.preemption.delay: 2m
    application.unschedasks.backoff: '7'
    application.unschedasks.backoff.delay: 500ms
  queues:
    - name: child
"""
COMES_DOWN = QueuePolicies(
    ApplicationOrder.FAIR,
    sorts_by_priority=False,
    preemption_delay_ns=60 * SECOND,
    daemonsets_preempt_all=True,
    quota_preemption_delay_ns=120 * SECOND,
    backoff_after=7,
    backoff_delay_ns=SECOND // 2,
)


def test_every_property_has_its_meaning() -> None:
    assert child(queues(EVERY % "fence"), "parent").policies == QueuePolicies(
        ApplicationOrder.FAIR,
        sorts_by_priority=False,
        priority=PriorityPolicy.FENCE,
        priority_offset=-5,
        preemption=PreemptionPolicy.FENCE,
        preemption_delay_ns=60 * SECOND,
        daemonsets_preempt_all=True,
        quota_preemption_delay_ns=120 * SECOND,
        backoff_after=7,
        backoff_delay_ns=SECOND // 2,
    )


def test_a_child_inherits_all_but_priority_offset_and_fences() -> None:
    assert child(queues(EVERY % "fence"), "parent.child").policies == COMES_DOWN


def test_child_queues_inherit_the_delay_of_quota_preemption_and_may_switch_it_off() -> None:
    root = queues(
        """
        - name: a
          properties: {quota.preemption.delay: 1m}
          queues:
            - name: inherits
              queues: [{name: leaf}]
            - {name: own, properties: {quota.preemption.delay: 5m}}
            - {name: off, properties: {quota.preemption.delay: 0s}}
        """
    )
    found = [child(root, f"a.{path}").policies.quota_preemption_delay_ns for path in ("inherits.leaf", "own", "off")]
    assert found == [60 * SECOND, 300 * SECOND, 0]


def test_only_the_disabled_preemption_policy_is_inherited() -> None:
    root = queues(EVERY % "DISABLED")
    assert child(root, "parent.child").policies.preemption is PreemptionPolicy.DISABLED
    assert "priority.offset" not in child(root, "parent.child").properties


def test_a_child_overrides_inherited_properties_and_passes_its_own_on() -> None:
    root = queues(
        """
        - name: a
          properties: {application.sort.policy: fair, preemption.policy: disabled}
          queues:
            - name: b
              properties: {application.sort.policy: StateAware, preemption.policy: default}
              queues: [{name: c}]
        """
    )
    for path in ("a.b", "a.b.c"):
        found = child(root, path).policies
        assert (found.order, found.preemption) == (ApplicationOrder.FIFO, PreemptionPolicy.DEFAULT)


def test_root_hands_down_what_has_no_effect_on_itself() -> None:
    text = a_file(
        """
        - name: root
          properties: {preemption.policy: disabled, priority.offset: '9', preemption.delay: 1s}
          queues: [{name: a}]
        """
    )
    loaded = load(text, {})
    root = loaded.configuration.partitions[0].root
    assert root.policies == QueuePolicies(preemption_delay_ns=SECOND)
    expected = QueuePolicies(preemption=PreemptionPolicy.DISABLED, preemption_delay_ns=SECOND)
    assert child(root, "a").policies == expected
    path = "partitions[0].queues[0].properties"
    assert unplaced(loaded.warnings) == (
        f"{path}.priority.offset: has no effect on root itself",
        f"{path}.preemption.policy: has no effect on root itself",
    )


@pytest.mark.parametrize(
    "key, text, what",
    [
        ("application.sort.policy", "lifo", "not fifo or fair"),
        ("application.sort.priority", "yes", "not enabled or disabled"),
        ("priority.policy", "wall", "not default or fence"),
        ("priority.offset", "1.5", "not a whole number of 32 bits"),
        ("priority.offset", "2147483648", "not a whole number of 32 bits"),
        ("preemption.policy", "off", "not default, fence or disabled"),
        ("preemption.delay", "0s", "not a duration longer than 0"),
        ("preemption.delay", "-1s", "not a duration longer than 0"),
        ("preemption.delay", "30", "not a duration longer than 0"),
        ("quota.preemption.delay", "soon", "not a duration"),
        ("application.unschedasks.backoff", "-1", "not a whole number of 0 or more"),
        ("application.unschedasks.backoff", "18446744073709551616", "not a whole number of 0 or more"),
        ("application.unschedasks.backoff.delay", "0s", "not a duration longer than 0"),
    ],
)
def test_an_invalid_value_is_reported_and_the_default_is_used(key: str, text: str, what: str) -> None:
    loaded = load(a_file(f"- {{name: a, properties: {{{key}: '{text}'}}}}"), {})
    assert child(loaded.configuration.partitions[0].root, "a").policies == QueuePolicies()
    path = f"partitions[0].queues[0].properties.{key}"
    [warning] = unplaced(loaded.warnings)
    assert warning.partition("; did you mean")[0] == f"{path}: {text!r} is {what}; the default is used"


@pytest.mark.parametrize("text, offset", [("2147483647", 2**31 - 1), ("-2147483648", -(2**31)), ("+5", 5)])
def test_an_offset_has_32_bits(text: str, offset: int) -> None:
    root = queues(f"- {{name: a, properties: {{priority.offset: '{text}'}}}}")
    assert child(root, "a").policies.priority_offset == offset


def test_a_queue_knows_which_queue_sets_each_inherited_property() -> None:
    own = "- {name: a, properties: {priority.policy: fence}, queues: [{name: b, properties: {preemption.delay: 1m}}]}"
    text = "- name: root\n  properties: {application.sort.policy: fair}\n  queues:\n    " + own
    found = child(queues(text), "a.b")
    assert found.origins == {"application.sort.policy": "root", "preemption.delay": "root.a.b"}
    assert found.properties.keys() == found.origins.keys()
