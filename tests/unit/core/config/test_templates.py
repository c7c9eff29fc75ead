"""A queue uses its own template or that of the nearest ancestor, and its own one replaces all of it."""

from muster_core.config.load import load
from muster_core.model.config import ApplicationOrder, ChildTemplate, QueuePolicies
from muster_core.model.resources import Limit, Resources
from tests.unit.core.config.tree import a_file, child, queues, unplaced

FIRST = ChildTemplate(
    max=Limit({"vcore": 2000}),
    guaranteed=Resources({"vcore": 1000}),
    max_applications=3,
    properties={"application.sort.policy": "fair"},
    policies=QueuePolicies(ApplicationOrder.FAIR),
    origin="root",
)

TREE = """
- name: root
  properties: {preemption.delay: 5s}
  childtemplate:
    maxapplications: 3
    properties: {application.sort.policy: fair}
    resources: {max: {vcore: 2}, guaranteed: {vcore: 1}}
  queues:
    - name: parent
      parent: true
      childtemplate: {resources: {max: {memory: 1G}}}
    - name: notemplate
      queues: [{name: deep, parent: true}]
    - name: empty
      parent: true
      childtemplate: {resources: {}}
"""


def test_the_nearest_template_applies_and_a_closer_one_replaces_it_completely() -> None:
    root = queues(TREE)
    found = [child(root, name).template for name in ("parent", "notemplate", "notemplate.deep", "empty")]
    assert found == [ChildTemplate(max=Limit({"memory": 10**9}), origin="root.parent"), FIRST, FIRST, FIRST]
    assert root.template == FIRST


def test_an_empty_template_counts_as_absent_with_a_warning() -> None:
    path = "partitions[0].queues[0].queues[2].childtemplate"
    assert unplaced(load(a_file(TREE), {}).warnings) == (f"{path}: is empty and is ignored",)


def test_a_queue_without_a_template_on_its_path_has_none() -> None:
    assert child(queues("- {name: a, parent: true}"), "a").template is None


def test_unsupported_template_settings_are_reported() -> None:
    loaded = load(
        a_file(
            """
            - name: leaf
              childtemplate: {maxapplications: 1}
            - name: b
              parent: true
              childtemplate: {properties: {quota.preemption.delay: 1m, colour: red}}
            """
        ),
        {},
    )
    path = "partitions[0].queues[1].childtemplate.properties"
    assert unplaced(loaded.warnings) == (
        "partitions[0].queues[0].childtemplate: has no effect on a leaf",
        f"{path}.colour: is not a known property and has no effect",
        f"{path}.quota.preemption.delay: has no effect on queues that are created on demand",
    )
    template = child(loaded.configuration.partitions[0].root, "b").template
    assert template is not None
    assert template.policies == QueuePolicies()
