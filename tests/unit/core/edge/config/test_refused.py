"""A configuration that breaks a rule is refused, with the path, the value, the rule and the fix."""

from textwrap import indent

import pytest

from muster_core.edge.config.document import MOST_CHARACTERS
from muster_core.edge.config.load import load
from muster_core.model.errors import ConfigurationError

P, Q = "partitions[0]", "partitions[0].queues[0]"


def refusal(text: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load(text, {})
    return caught.value


def in_partition(text: str) -> ConfigurationError:
    """The refusal of a partition with these lines, and two queues."""
    queues = "queues: [{name: leaf}, {name: top, queues: [{name: sub}]}]\n"
    return refusal("partitions:\n  -\n" + indent(queues + text, "    "))


def in_queue(text: str) -> ConfigurationError:
    """The refusal of a queue `a` with these flow entries."""
    return refusal("partitions: [{queues: [{name: a, " + text + "}]}]")


@pytest.mark.parametrize(
    "text, path, value, rule",
    [
        ("a: [", "the file", "line 2: did not find expected node content", "is not YAML"),
        ("partitions: []\npartitions: []\n", "partitions", "partitions", "is there twice"),
        ("? [a]\n: b\n", "the file", "a key", "is not text"),
        ("hello", "the file", "hello", "is not a mapping"),
        ("- a\n", "the file", "a list", "is not a mapping"),
        ("checksum: x\n", "partitions", "nothing", "is required"),
        ("partitions: []\n", "partitions", "an empty list", "has no partition"),
        ("partitions: {}\n", "partitions", "a mapping", "is not a list"),
        ("partitions: [{name: default}]\n", f"{P}.queues", "nothing", "is required"),
        ("partitions: [{queues: [{name: a}]}]\ncolour: red\n", "colour", "colour", "is not a known key"),
        (
            "partitions: [{queues: [{name: a}]}, {name: DEFAULT, queues: [{name: a}]}]",
            "partitions[1].name",
            "DEFAULT",
            "is the name of another partition",
        ),
        ("x: " + "[" * 200, "the file", "line 1", "is nested too deep"),
        ("x: &a [*a]\n", "the file", "an alias", "makes the document too large"),
        (" " * (MOST_CHARACTERS + 1), "the file", f"{MOST_CHARACTERS + 1} characters", "is too long"),
    ],
)
def test_a_text_without_the_right_form_is_refused(text: str, path: str, value: str, rule: str) -> None:
    error = refusal(text)
    assert (error.path, error.value, error.rule) == (path, value, rule)
    assert error.fix


def test_aliases_that_blow_the_text_up_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert refusal("\n".join(lines)).rule == "makes the document too large"


@pytest.mark.parametrize(
    "text, path, value, rule",
    [
        ("parent: maybe", "parent", "maybe", "is neither true nor false"),
        ("parent: false, queues: [{name: b}]", "parent", "false", "is untrue: there are queues below it"),
        ("queues: [{name: b}, {name: B}]", "queues[1].name", "B", "is the name of another queue beside it"),
        ("queues: [{name: b.c}]", "queues[0].name", "b.c", "is not a queue name"),
        ("queues: [{name: }]", "queues[0].name", "nothing", "is required"),
        (f"queues: [{{name: {'x' * 65}}}]", "queues[0].name", "x" * 65, "is not a queue name"),
        ("queues: [b]", "queues[0]", "b", "is not a mapping"),
        ("colour: red", "colour", "colour", "is not a known key"),
        ("maxapplications: -1", "maxapplications", "-1", "is not a whole number of 0 or more"),
        ("maxapplications: 1.5", "maxapplications", "1.5", "is not a whole number of 0 or more"),
        ("submitacl: 'a b c'", "submitacl", "a b c", "has more than two parts"),
        ("properties: [a]", "properties", "a list", "is not a mapping"),
        ("properties: {a: [b]}", "properties.a", "a list", "is not text"),
        ("resources: {min: {}}", "resources.min", "min", "is not a known key"),
        ("resources: {max: {memory: 1.5G}}", "resources.max.memory", "1.5G", "is not a quantity"),
        ("resources: {max: {memory: -1}}", "resources.max.memory", "-1", "is not a quantity"),
        ("resources: {max: {memory: 1e3}}", "resources.max.memory", "1e3", "is not a quantity"),
        ("resources: {max: {memory: 500m}}", "resources.max.memory", "500m", "has an unknown suffix 'm'"),
        ("resources: {max: {memory: 1GB}}", "resources.max.memory", "1GB", "has an unknown suffix 'GB'"),
        ("resources: {max: {memory: 10E}}", "resources.max.memory", "10E", "is too large for 64 bits"),
        ("resources: {max: {memory: }}", "resources.max.memory", "nothing", "is not text"),
        (
            "resources: {max: {vcore: 1}, guaranteed: {vcore: 2}}",
            "resources.guaranteed.vcore",
            "2",
            "is more than the max of the queue or of one above it",
        ),
        (
            "resources: {max: {vcore: 1}}, queues: [{name: b, queues: [{name: c, resources: {max: {vcore: 1500m}}}]}]",
            "queues[0].queues[0].resources.max.vcore",
            "1500m",
            "is more than the 1000m of a queue above it",
        ),
        (
            """resources: {guaranteed: {vcore: 2}}, queues: [
                {name: b, resources: {guaranteed: {vcore: 1}}},
                {name: c, queues: [{name: d, resources: {guaranteed: {vcore: 1001m}}}]}]""",
            "queues",
            "2001m of vcore",
            "is guaranteed in all, more than the guaranteed above it (2000m)",
        ),
        (
            """resources: {max: {memory: 5}}, queues: [
                {name: b, resources: {guaranteed: {memory: 3}}}, {name: c, resources: {guaranteed: {memory: 3}}}]""",
            "queues",
            "6 of memory",
            "is guaranteed in all, more than the max above it (5)",
        ),
        (
            "maxapplications: 2, queues: [{name: b}]",
            "queues[0].maxapplications",
            "nothing",
            "is required below a queue that has it",
        ),
        (
            "maxapplications: 2, queues: [{name: b, maxapplications: 3}]",
            "queues[0].maxapplications",
            "3",
            "is more than the 2 of the queue above",
        ),
        (
            "childtemplate: {resources: {max: {vcore: 1}, guaranteed: {vcore: 2}}}",
            "childtemplate.resources.guaranteed.vcore",
            "2000m",
            "is more than the max of the template",
        ),
        ("limits: [{maxapplications: 1}]", "limits[0]", "the limit", "is of nobody"),
        ("limits: [{users: [ann]}]", "limits[0]", "the limit", "bounds nothing"),
        ("limits: [{users: [ann], maxresources: {vcore: 0}}]", "limits[0].maxresources", "0", "is all there is"),
        ("limits: [{users: [9], maxapplications: 1}]", "limits[0].users[0]", "9", "is not a name of a user or group"),
        (
            "limits: [{users: [ann, '*'], maxapplications: 1}]",
            "limits[0].users[1]",
            "*",
            "stands beside other names",
        ),
        (
            "limits: [{users: ['*'], maxapplications: 1}, {users: [ann], maxapplications: 1}]",
            "limits[1].users[0]",
            "ann",
            "comes after '*'",
        ),
        ("limits: [{users: [a, a], maxapplications: 1}]", "limits[0].users[1]", "a", "is limited twice in one queue"),
        (
            "limits: [{groups: ['*'], maxapplications: 1}]",
            "limits[0].groups[0]",
            "*",
            "needs a named group before it",
        ),
    ],
)
def test_a_queue_that_breaks_a_rule_is_refused(text: str, path: str, value: str, rule: str) -> None:
    error = in_queue(text)
    assert (error.path, error.value, error.rule) == (f"{Q}.{path}", value, rule)
    assert error.fix


def test_root_can_be_given_no_resources_and_is_always_a_parent() -> None:
    error = refusal("partitions: [{queues: [{name: ROOT, resources: {max: {vcore: 1}}}]}]")
    assert (error.path, error.value) == (f"{Q}.resources", "root")
    assert refusal("partitions: [{queues: [{name: root, parent: false}]}]").path == f"{Q}.parent"


def test_limits_of_a_partition_and_of_its_root_must_not_differ() -> None:
    one, two = ("limits: [{users: [ann], maxapplications: " + count + "}]" for count in "12")
    error = refusal("partitions: [{" + one + ", queues: [{name: root, " + two + "}]}]")
    assert (error.path, error.rule) == (f"{P}.limits", "differ from those of root")


@pytest.mark.parametrize(
    "text, path, value, rule",
    [
        ("nodesortpolicy: fair", "nodesortpolicy", "fair", "is not a mapping"),
        ("nodesortpolicy: {type: random}", "nodesortpolicy.type", "random", "is not an order of nodes"),
        (
            "nodesortpolicy: {resourceweights: {vcore: -1}}",
            "nodesortpolicy.resourceweights.vcore",
            "-1",
            "is not a weight",
        ),
        (
            "nodesortpolicy: {resourceweights: {vcore: nan}}",
            "nodesortpolicy.resourceweights.vcore",
            "nan",
            "is not a weight",
        ),
        ("usergroupresolver: {type: nis}", "usergroupresolver.type", "nis", "is not a resolver"),
        ("preemption: {enabled: 1}", "preemption.enabled", "1", "is neither true nor false"),
        ("placementrules: [{name: magic}]", "placementrules[0].name", "magic", "is not a placement rule"),
        ("placementrules: [{name: recovery}]", "placementrules[0].name", "recovery", "is not a placement rule"),
        ("placementrules: [{name: fixed}]", "placementrules[0].value", "", "is required by the rule fixed"),
        ("placementrules: [{name: tag}]", "placementrules[0].value", "", "is required by the rule tag"),
        ("placementrules: [{name: fixed, value: a..b}]", "placementrules[0].value", "", "is not a queue name"),
        ("placementrules: [{name: fixed, value: root.gone}]", "placementrules[0]", "root.gone", "is not a queue"),
        (
            "placementrules: [{name: fixed, value: top}]",
            "placementrules[0]",
            "root.top",
            "is a parent queue and runs no application",
        ),
        (
            "placementrules: [{name: fixed, value: leaf.new, create: true}]",
            "placementrules[0]",
            "root.leaf.new",
            "would lie below the leaf leaf",
        ),
        (
            "placementrules: [{name: user, create: true, parent: {name: fixed, value: leaf}}]",
            "placementrules[0]",
            "root.leaf",
            "is a leaf and can have no queue below it",
        ),
        (
            "placementrules: [{name: fixed, value: root.leaf, parent: {name: user}}]",
            "placementrules[0].value",
            "root.leaf",
            "starts at root and has a parent rule too",
        ),
        (
            "placementrules: [{name: user, filter: {type: maybe}}]",
            "placementrules[0].filter.type",
            "maybe",
            "is not a type of filter",
        ),
    ],
)
def test_a_partition_that_breaks_a_rule_is_refused(text: str, path: str, value: str, rule: str) -> None:
    error = in_partition(text)
    assert (error.path, error.value, error.rule) == (f"{P}.{path}", value, rule)
    assert error.fix


def test_the_message_has_path_value_rule_and_fix_in_one_line() -> None:
    assert str(in_queue("resources: {max: {vcore: 0.5}}")) == (
        "queues.yaml: partitions[0].queues[0].resources.max.vcore: '0.5' is not a quantity; "
        "write whole cores (10) or thousandths of a core (500m)"
    )


def test_an_unknown_key_is_told_which_keys_are_known() -> None:
    assert in_queue("resources: {maximum: {}}").fix == "known here: guaranteed, max"


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(str(in_queue(f"parent: {'x' * 5000}"))) < 250
