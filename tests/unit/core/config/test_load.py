"""A valid configuration becomes the model's values, with warnings for its author."""

from dataclasses import replace

import pytest

from muster_core.config.document import amounts, as_written, quantity
from muster_core.config.load import DEFAULT_TEXT, checksum, examine, load
from muster_core.model.config import (
    ALLOW_ALL,
    AccessList,
    ApplicationOrder,
    GroupResolver,
    NodeOrder,
    NodeSort,
    PlacementRule,
    RuleFilter,
)
from muster_core.model.resources import Limit, Resources
from muster_si import keys
from tests.unit.core.config.tree import child, partition, queues, unplaced

EVERYTHING = """
checksum: ABC
partitions:
  - name: Default
    placementrules:
      - {name: Provided, create: true, filter: {type: deny, users: [eve]}}
      - name: user
        create: true
        parent: {name: tag, value: namespace, create: true, parent: {name: fixed, value: Teams}}
      - {name: fixed, value: root.fallback}
    limits:
      - {limit: everybody, users: ['*'], maxapplications: 5}
    preemption: {enabled: true, quotapreemptionenabled: false}
    nodesortpolicy: {type: binpacking, resourceweights: {vcore: 2.0, memory: 0}}
    usergroupresolver: {type: ldap}
    queues:
      - name: Root
        submitacl: '*'
        maxapplications: 100
        properties: {application.sort.policy: fair}
        queues:
          - name: teams
            parent: true
            maxapplications: 50
            resources:
              guaranteed: {vcore: 4, memory: 8Gi}
              max: {vcore: 10500m, memory: 100 G, nvidia.com/gpu: 8}
            childtemplate:
              maxapplications: 3
              properties: {application.sort.policy: fifo}
              resources: {max: {vcore: 2}, guaranteed: {vcore: 1}}
          - name: fallback
            maxapplications: 10
            adminacl: 'admin,root wheel'
            properties: {application.sort.policy: stateaware}
            limits:
              - {users: [ann, bob], groups: [devs], maxapplications: 1, maxresources: {vcore: 1}}
              - {groups: ['*'], maxresources: {memory: 1G, vcore: 0}}
"""


def test_every_field_of_the_contract_is_known() -> None:
    found = partition(EVERYTHING)
    assert found.name == "default"
    assert found.node_sort == NodeSort(NodeOrder.BINPACKING, (("memory", 0.0), ("vcore", 2.0)))
    assert found.rules == (
        PlacementRule("provided", create=True, filter=RuleFilter(allow=False, users=frozenset({"eve"}))),
        PlacementRule(
            "user",
            create=True,
            parent=PlacementRule("tag", create=True, value="namespace", parent=PlacementRule("fixed", value="teams")),
        ),
        PlacementRule("fixed", value="root.fallback"),
    )
    teams, fallback = child(found.root, "teams"), child(found.root, "fallback")
    assert (found.root.parent, teams.parent, fallback.parent) == (True, True, False)
    assert teams.max == Limit({"vcore": 10_500, "memory": 100 * 10**9, "nvidia.com/gpu": 8})
    assert teams.guaranteed == Resources({"vcore": 4000, "memory": 8 * 2**30})
    assert (found.root.max_applications, teams.max_applications, fallback.max_applications) == (100, 50, 10)
    assert (teams.policies.order, fallback.policies.order) == (ApplicationOrder.FAIR, ApplicationOrder.FIFO)
    assert (found.root.submit_acl, fallback.admin_acl) == (
        ALLOW_ALL,
        AccessList(users=frozenset({"admin", "root"}), groups=frozenset({"wheel"})),
    )


def test_a_file_without_oddities_is_accepted_without_a_message() -> None:
    assert load(EVERYTHING, {}).warnings == ()


def test_the_flags_of_preemption_and_the_resolver_of_groups_are_read() -> None:
    found = partition(EVERYTHING)
    assert (found.preemption, found.quota_preemption, found.resolver) == (True, False, GroupResolver.LDAP)
    other = partition("partitions: [{preemption: {enabled: no, quotapreemptionenabled: yes}, queues: [{name: a}]}]")
    assert (other.preemption, other.quota_preemption, other.resolver) == (False, True, GroupResolver.NONE)
    assert partition("partitions: [{queues: [{name: a}]}]").preemption


def test_an_empty_text_means_one_dynamic_queue_per_namespace() -> None:
    for text in ("", "\n", "# nothing\n", "---\n"):
        loaded = load(text, {})
        assert loaded == replace(load(DEFAULT_TEXT, {}), is_default=True)
        [only] = loaded.configuration.partitions
        assert (only.name, only.rules) == ("default", (PlacementRule("tag", create=True, value="namespace"),))
        assert (only.root.name, only.root.children, only.root.submit_acl) == ("root", (), ALLOW_ALL)
        assert unplaced(loaded.warnings) == ()


def test_root_is_put_on_top_where_the_file_leaves_it_out() -> None:
    root = queues("      - name: a\n      - name: B\n")
    assert (root.name, root.parent, [queue.name for queue in root.children]) == ("root", True, ["a", "b"])
    assert [queue.name for queue in queues("      - name: a\n").children] == ["a"]
    assert queues("      []\n").children == ()


def test_a_queue_without_children_is_a_leaf_unless_it_sets_parent() -> None:
    root = queues("      - {name: a}\n      - {name: b, parent: true}\n      - {name: c, queues: [{name: d}]}\n")
    assert [child(root, name).parent for name in ("a", "b", "c", "c.d")] == [False, True, True, False]


def test_an_unknown_sort_policy_or_property_is_reported_and_ignored() -> None:
    loaded = load(
        """
partitions:
  - queues:
      - name: a
        properties: {application.sort.policy: lifo, priority.offset: '1', colour: red}
""",
        {},
    )
    assert child(loaded.configuration.partitions[0].root, "a").policies.order is ApplicationOrder.FIFO
    path = "partitions[0].queues[0].properties"
    assert unplaced(loaded.warnings) == (
        f"{path}.application.sort.policy: 'lifo' is not fifo or fair; the default is used; did you mean fifo?",
        f"{path}.colour: is not a known property and has no effect",
    )


def test_a_maximum_of_zero_forbids_and_zero_applications_mean_unlimited_with_a_warning() -> None:
    loaded = load("partitions: [{queues: [{name: a, maxapplications: 0, resources: {max: {licence: 0}}}]}]", {})
    queue = child(loaded.configuration.partitions[0].root, "a")
    assert (queue.max, queue.max_applications) == (Limit({"licence": 0}), 0)
    assert unplaced(loaded.warnings) == ("partitions[0].queues[0].maxapplications: 0 means unlimited",)


def test_a_limit_on_cpu_is_reported_to_have_no_effect() -> None:
    loaded = load("partitions: [{queues: [{name: a, resources: {max: {cpu: 1}}}]}]", {})
    assert unplaced(loaded.warnings) == ("partitions[0].queues[0].resources.max.cpu: has no effect; use vcore for CPU",)


def test_guarantees_of_children_may_add_up_to_their_parents() -> None:
    root = queues(
        """
      - name: a
        resources: {guaranteed: {vcore: 3}, max: {vcore: 3, memory: 10}}
        queues:
          - {name: b, resources: {guaranteed: {vcore: 1, memory: 10}}}
          - {name: c, queues: [{name: d, resources: {guaranteed: {vcore: 2}}}]}
"""
    )
    assert child(root, "a.c.d").guaranteed == Resources({"vcore": 2000})


def test_numbers_are_accepted_as_names() -> None:
    assert [queue.name for queue in queues("      - {name: 0123}\n      - {name: 'null'}\n").children] == [
        "0123",
        "null",
    ]


def test_several_partitions_are_read() -> None:
    text = "partitions: [{queues: [{name: a}]}, {name: GPU, queues: [{name: a}]}]"
    assert [found.name for found in load(text, {}).configuration.partitions] == ["default", "gpu"]


def test_an_alias_stands_for_what_it_names() -> None:
    root = queues("      - {name: a, resources: &r {max: {vcore: 1}}}\n      - {name: b, resources: *r}\n")
    assert child(root, "a").max == child(root, "b").max == Limit({"vcore": 1000})


def test_the_checksum_is_of_the_text_without_its_own_line() -> None:
    text = "partitions: [{queues: [{name: a}]}]\n"
    assert load("checksum: 'FFFF'\n" + text, {}).configuration.checksum == checksum(text)
    # From sha256sum(1) of one line `a`.
    assert checksum("a\n") == "87428FC522803D31065E7BCE3CF03FE475096631E5E07BBD7A0FDE60C4CF25C7"


@pytest.mark.parametrize(
    "policy, expected",
    [
        ("", NodeSort(balanced=True)),
        ("nodesortpolicy: {type: fair}", NodeSort()),
        ("nodesortpolicy: {resourceweights: {vcore: 1.0}}", NodeSort(weights=(("vcore", 1.0),))),
    ],
)
def test_nodes_are_balanced_by_default_only_without_a_node_sort_policy(policy: str, expected: NodeSort) -> None:
    text = f"partitions: [{{name: default, queues: [{{name: root}}]{', ' + policy if policy else ''}}}]"
    [partition] = load(text, {}).configuration.partitions
    assert partition.node_sort == expected


def test_restricted_options_are_accepted_from_resource_managers_that_enable_them() -> None:
    text = """
partitions:
  - nodesortpolicy: {type: utilization}
    usergroupresolver: {type: test}
    queues: [{name: a}]
"""
    rules = [error.path for error in examine(text, {}).errors]
    assert rules == ["partitions[0].nodesortpolicy.type"]
    allowed = {keys.EXTRA_UTILIZATION: "true", keys.EXTRA_TEST_GROUPS: "true"}
    [found] = load(text, allowed).configuration.partitions
    assert (found.node_sort.order, found.resolver) == (NodeOrder.UTILIZATION, GroupResolver.TEST)


# -- A validation result has the errors of a configuration and reports whether its checksum is correct.

TEXT = "partitions: [{queues: [{name: a, maxapplications: 0}]}]\n"
RIGHT = checksum(TEXT)
ODD = ("partitions[0].queues[0].maxapplications: 0 means unlimited",)


def test_a_valid_text_is_allowed_with_its_warnings() -> None:
    found = examine(TEXT)
    assert (found.errors, found.checksum, found.checksum_match) == ((), RIGHT, None)
    assert found.built.warnings == tuple(f"queues.yaml:1: {text}" for text in ODD)


@pytest.mark.parametrize("effects, is_right", [(RIGHT, True), (RIGHT.lower(), True), ("0" * 64, False)])
def test_a_checksum_in_the_text_is_compared_in_either_case_and_forbids_nothing(effects: str, *, is_right: bool) -> None:
    found = examine(f"checksum: '{effects}'\n{TEXT}")
    assert (found.errors, found.checksum, found.checksum_match) == ((), RIGHT, is_right)


def test_the_checksum_of_a_text_with_errors_is_reported() -> None:
    text = "partitions: [{queues: [{name: a.b}, {name: c.d}]}]\n"
    found = examine(text, file="mine.yaml")
    first, _ = map(str, found.errors)
    assert first.startswith("mine.yaml:1: partitions[0].queues[0].name: 'a.b' is not a queue name; ")
    assert found.checksum == checksum(text)


def test_settings_are_validated_too() -> None:
    found = examine(TEXT, {"service.expiry": "soon", "event.maxStreams": "many"})
    assert str(found.errors[0]).startswith("service.expiry: 'soon' is not a duration; ")
    assert unplaced(found.built.warnings) == (
        *ODD,
        "event.maxStreams: 'many' is not a whole number from 0 to 10000000, 100 is used",
    )


def test_an_empty_text_is_allowed() -> None:
    found = examine("")
    assert (found.errors, found.checksum) == ((), checksum(""))


# -- Quantities are read in YuniKorn's notation.


@pytest.mark.parametrize(
    "resource, text, amount",
    [
        ("vcore", "10", 10_000),
        ("vcore", "500m", 500),
        ("vcore", "0", 0),
        ("vcore", "2k", 2_000_000),
        ("memory", "010", 10),
        ("memory", "1 k", 1000),
        ("memory", "3M", 3_000_000),
        ("memory", "1Ki", 1024),
        ("memory", "2Mi", 2 * 1024**2),
        ("memory", "2 Gi", 2 * 1024**3),
        ("memory", "1Ti", 1024**4),
        ("memory", "1Pi", 1024**5),
        ("memory", "7Ei", 7 * 1024**6),
        ("memory", "9223372036854775807", 2**63 - 1),
        ("pods", "5", 5),
        ("nvidia.com/gpu", "1T", 10**12),
    ],
)
def test_a_quantity_is_digits_and_a_suffix(resource: str, text: str, amount: int) -> None:
    assert quantity(resource, text, "here") == amount


def test_absent_amounts_are_empty() -> None:
    assert amounts(None, "here") == {}


def test_an_amount_is_shown_in_an_exact_unit() -> None:
    assert (as_written("vcore", 1500), as_written("memory", 1500)) == ("1500m", "1500")
