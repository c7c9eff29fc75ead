"""Limits become values, those of the partition become those of root, and they stay within the limits above."""

from pathlib import Path

import pytest

from muster_core.config.document import Findings
from muster_core.config.load import examine, load
from muster_core.config.queues import access
from muster_core.model.config import (
    ALLOW_ALL,
    DENY_ALL,
    AccessList,
    ApplicationOrder,
    ChildTemplate,
    QueuePolicies,
    QuotaLimit,
    RuleFilter,
)
from muster_core.model.errors import ConfigurationError
from muster_core.model.resources import Limit, Resources
from tests.unit.core.config.tree import a_file, child, partition, queues, unplaced


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


# -- Access lists: everyone, users, groups; invalid names grant nothing and are reported.


def users(*names: str) -> AccessList:
    return AccessList(users=frozenset(names))


def groups(*names: str) -> AccessList:
    return AccessList(groups=frozenset(names))


@pytest.mark.parametrize(
    "text, found",
    [
        ("", DENY_ALL),
        (" ", DENY_ALL),
        ("*", ALLOW_ALL),
        (" * ", ALLOW_ALL),
        ("ann", users("ann")),
        ("ann,bob", users("ann", "bob")),
        (" devs", groups("devs")),
        ("\tdevs,ops", groups("devs", "ops")),
        ("ann,bob devs,ops", AccessList(users=frozenset({"ann", "bob"}), groups=frozenset({"devs", "ops"}))),
        ("ann ", users("ann")),
        ("ann   devs  ", AccessList(users=frozenset({"ann"}), groups=frozenset({"devs"}))),
        (",ann,,ann,", users("ann")),
        ("machine$", users("machine$")),
        ("ann@example.com", users("ann@example.com")),
    ],
)
def test_a_list_is_users_then_groups(text: str, found: AccessList) -> None:
    notes = Findings()
    assert access(text, "here", notes) == found
    assert notes.warnings() == ()


@pytest.mark.parametrize(
    "text, found, effects",
    [
        ("a:b,ann", users("ann"), "here.users: 'a:b' is not a valid name in an access list and is ignored"),
        (" a.b", DENY_ALL, "here.groups: 'a.b' is not a valid name in an access list and is ignored"),
        ("$", DENY_ALL, "here.users: '$' is not a valid name in an access list and is ignored"),
        ("*,ann", users("ann"), "here.users: '*' with other names has no effect; write it alone to match all"),
        (
            "ann *",
            users("ann"),
            "here.groups: '*' with other names has no effect; write it alone to match all",
        ),
    ],
)
def test_an_invalid_name_is_ignored_with_a_warning(text: str, found: AccessList, effects: str) -> None:
    notes = Findings()
    assert access(text, "here", notes) == found
    assert notes.warnings() == (effects,)


# -- Filters of placement rules: names, one name, or one expression.

PATH = "partitions[0].placementrules[0].filter"


def of(text: str) -> tuple[RuleFilter | None, tuple[str, ...]]:
    """Return the filter and its problems."""
    loaded = load(
        "partitions: [{queues: [{name: a}], placementrules: [{name: user, create: true, filter: " + text + "}]}]", {}
    )
    return loaded.configuration.partitions[0].rules[0].filter, unplaced(loaded.warnings)


@pytest.mark.parametrize(
    "text, found",
    [
        ("{}", RuleFilter()),
        ("{type: ALLOW}", RuleFilter()),
        ("{type: deny, users: [ann]}", RuleFilter(allow=False, users=frozenset({"ann"}))),
        ("{users: [ann, bob], groups: [devs]}", RuleFilter(True, frozenset({"ann", "bob"}), frozenset({"devs"}))),
        ("{users: ['^dev-']}", RuleFilter(user_expression="^dev-")),
        ("{groups: ['a|b'], users: ['.*']}", RuleFilter(user_expression=".*", group_expression="a|b")),
        ("{users: [machine$]}", RuleFilter(user_expression="machine$")),
        ("{users: [machine$, ann]}", RuleFilter(users=frozenset({"machine$", "ann"}))),
        ("{users: [a.b]}", RuleFilter(users=frozenset({"a.b"}))),
    ],
)
def test_one_entry_may_be_an_expression_and_several_are_names(text: str, found: RuleFilter) -> None:
    assert of(text) == (found, ())


def test_invalid_or_duplicate_entries_are_ignored_with_a_warning() -> None:
    found, effects = of("{users: [ann, '^b', ann], groups: ['a/b', devs]}")
    assert found == RuleFilter(users=frozenset({"ann"}), groups=frozenset({"devs"}))
    assert effects == (
        f"{PATH}.users[1]: '^b' is not a user name and is ignored",
        f"{PATH}.users[2]: 'ann' is listed twice",
        f"{PATH}.groups[0]: 'a/b' is not a group name and is ignored",
    )


# -- Valid files are accepted with no more warnings than needed. Each file of `valid/` begins with its subject;
# `says:` gives the expected warnings.

VALID = sorted((Path(__file__).parent / "valid").glob("*.yaml"))
_SAYS = "# says: "


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_file_is_accepted_with_the_expected_warnings(path: Path) -> None:
    text = path.read_text()
    examined = examine(text, {})
    assert examined.errors == ()
    effects = tuple(line.removeprefix(_SAYS) for line in text.splitlines() if line.startswith(_SAYS))
    assert sorted(unplaced(examined.built.warnings)) == sorted(effects)


def test_there_are_at_least_thirty_valid_files() -> None:
    assert len(VALID) >= 30


def test_a_merged_mapping_fills_what_the_mapping_itself_leaves_out() -> None:
    root = partition((Path(__file__).parent / "valid" / "merge-keys.yaml").read_text()).root
    assert child(root, "second").max == child(root, "small").max == Limit({"vcore": 1000, "memory": 10**9})
    assert child(root, "third").max == Limit({"vcore": 1000, "memory": 2 * 10**9, "pods": 3})


# -- A queue uses its own template or that of the nearest ancestor, and its own one replaces all of it.

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
