"""An invalid configuration is rejected with the file, the path, the value, the rule and the fix.

Each file of `invalid/` has one error; its first line is the expected message.
"""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster_core.config.document import MOST, MOST_CHARACTERS, as_written, quantity
from muster_core.config.load import Examination, examine, load
from muster_core.model.config import ApplicationOrder, PreemptionPolicy, PriorityPolicy, QueueConfig, QueuePolicies
from muster_core.model.errors import ConfigurationError
from muster_core.model.resources import NOTHING, Resources
from muster_si import keys
from tests.unit.core.config.tree import a_file, child, queues, unplaced

INVALID = sorted((Path(__file__).parent / "invalid").glob("*.yaml"))


def expected(path: Path) -> str:
    """Return the expected message of an invalid file: its name, the line if there is one, and the text."""
    effects = path.read_text().partition("\n")[0].removeprefix("# ")
    return f"{path.name}:{effects.removeprefix('line ')}" if effects.startswith("line ") else f"{path.name}: {effects}"


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_an_invalid_file_is_refused_for_the_one_fault_that_it_has(path: Path) -> None:
    errors = examine(path.read_text(), {}, path.name).errors
    assert [str(error) for error in errors] == [expected(path)]
    assert all((error.file, error.path, error.rule, error.fix) for error in errors)


def test_at_least_a_hundred_errors_have_distinct_messages() -> None:
    assert len({expected(path).partition(" ")[2] for path in INVALID}) >= 100


def test_the_error_at_start_is_the_first_error_of_the_validation() -> None:
    for path in INVALID:
        text = path.read_text()
        with pytest.raises(ConfigurationError) as caught:
            load(text, {})
        assert str(examine(text).errors[0]) == str(caught.value)


def refusal(text: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load(text, {})
    return caught.value


@pytest.mark.parametrize(
    "text, rule",
    [
        ("x: " + "[" * 200, "is nested too deeply in line 1"),
        (" " * (MOST_CHARACTERS + 1), f"has {MOST_CHARACTERS + 1} characters, more than {MOST_CHARACTERS}"),
        ("a: \udcff", "is not UTF-8 at character 3"),
        ("a: \0", "is not YAML: unacceptable character #x0000: control characters are not allowed"),
    ],
)
def test_an_unsafe_text_is_rejected(text: str, rule: str) -> None:
    error = refusal(text)
    assert (error.path, error.value) == ("the file", None)
    assert error.rule.startswith(rule)


def test_aliases_that_blow_the_text_up_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert refusal("\n".join(lines)).rule == "is too large because of its aliases"


def test_a_long_key_under_many_aliases_is_refused() -> None:
    text = f"a: &a\n  ? {'k' * 100_000}\n  : v\nb: [{', '.join(['*a'] * 1_000)}]"
    assert refusal(text).rule == "is too large because of its aliases"


def test_merges_that_blow_the_text_up_are_refused() -> None:
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 10)]
    assert refusal("\n".join(lines)).rule == "is too large because of its aliases"


def test_a_fault_does_not_hide_the_others_nor_make_new_ones() -> None:
    text = a_file(
        """
        - name: a.b
        - name: c
          limits: [{users: [ann]}, {users: [bob], maxapplications: 1}, {maxapplications: 1}]
          queues: [{name: d, submitacl: a b c}]
        """
    )
    text += "    placementrules: [{name: fixed, value: root.a}]\n"
    errors = examine(text, {"service.expiry": "soon"}).errors
    assert [(error.file, error.path) for error in errors] == [
        ("queues.yaml:5", "partitions[0].queues[0].name"),
        ("queues.yaml:7", "partitions[0].queues[1].limits[0]"),
        ("queues.yaml:7", "partitions[0].queues[1].limits[2]"),
        ("queues.yaml:8", "partitions[0].queues[1].queues[0].submitacl"),
        ("", "service.expiry"),
    ]


def test_only_the_first_errors_and_warnings_are_reported() -> None:
    names = "\n".join(f"- {{name: a.{i}}}" for i in range(MOST + 5))
    assert len(examine(a_file(names), {}).errors) == MOST
    odd = "\n".join(f"- {{name: a{i}, maxapplications: 0}}" for i in range(MOST + 5))
    warnings = unplaced(load(a_file(odd), {}).warnings)
    assert (len(warnings), warnings[-1]) == (MOST + 1, "and 5 more")


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(str(refusal(a_file(f"- {{name: a, parent: {'x' * 5000}}}")))) < 250


# -- Any text is accepted or rejected with one-line messages, and no other error is raised.

FILES = [
    path.read_text() for folder in ("valid", "invalid") for path in (Path(__file__).parent / folder).glob("*.yaml")
]
WORDS = sorted({word for text in FILES for word in text.replace(":", " ").split()})
SETTINGS = sorted(value for name, value in vars(keys).items() if name.startswith(("EXTRA_", "SETTING_")))
lines = st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=4).map(" ".join)
edits = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2), st.integers(0, 12), lines), min_size=1, max_size=4)


def has_readable_problems(examined: Examination) -> bool:
    """Whether every line of it is one, and short."""
    effects = (*map(str, examined.errors), *examined.built.warnings)
    return all(line.isprintable() and len(line) < 1000 for line in effects)


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: raw.decode(errors="surrogateescape")))
@example("a: !!binary x")
@example("%YAML 9.9\n---\na")
@example("!<tag:x> {? [] : }")
def test_any_text_is_validated(text: str) -> None:
    assert has_readable_problems(examine(text, {}))


@given(st.sampled_from(FILES), edits)
def test_a_file_with_removed_inserted_or_replaced_lines_is_validated(
    text: str, edited: list[tuple[int, int, int, str]]
) -> None:
    rows = text.splitlines()
    for place, lost, blanks, line in edited:
        at = place % (len(rows) + 1)
        rows[at : at + lost] = [" " * blanks + line]
    assert has_readable_problems(examine("\n".join(rows), {}))


@given(
    st.dictionaries(st.sampled_from([*SETTINGS, "log.core.level"]), st.text(max_size=12) | st.sampled_from(["5", "1m"]))
)
def test_any_settings_are_validated(extra: dict[str, str]) -> None:
    assert has_readable_problems(examine("", extra))


amounts = st.dictionaries(st.sampled_from(["vcore", "memory"]), st.integers(0, 4).map(str), max_size=2)
limits = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "users": st.lists(st.sampled_from(["ann", "bob", "*"]), max_size=1),
            "groups": st.lists(st.sampled_from(["devs", "*"]), max_size=1),
            "maxresources": amounts,
            "maxapplications": st.integers(0, 3).map(str),
        },
    ),
    max_size=2,
)
trees: st.SearchStrategy[list[dict[str, object]]] = st.recursive(
    st.just([]),
    lambda inner: st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from(["a", "b", "c"])},
            optional={
                "queues": inner,
                "parent": st.just("true"),
                "maxapplications": st.integers(0, 3).map(str),
                "resources": st.fixed_dictionaries({}, optional={"max": amounts, "guaranteed": amounts}),
                "limits": limits,
            },
        ),
        max_size=3,
        unique_by=lambda queue: str(queue["name"]),
    ),
    max_leaves=8,
)


@given(trees)
def test_an_accepted_queue_tree_keeps_guarantees_within_the_maximums(tree: list[dict[str, object]]) -> None:
    examined = examine(json.dumps({"partitions": [{"queues": tree}]}), {})
    assert has_readable_problems(examined)
    if not examined.errors:
        for below in examined.built.configuration.partitions[0].root.children:
            assert promised(below) is not None


def promised(queue: QueueConfig) -> Resources:
    """The guarantees of a queue and its children; asserts that they are within the maximums."""
    total = NOTHING
    for below in queue.children:
        assert all(
            (queue.max.get(name) or 0) >= bound for name, bound in below.max.items() if name in dict(queue.max.items())
        )
        assert not queue.max_applications or 1 <= below.max_applications <= queue.max_applications
        total += promised(below)
    assert queue.max.allows(total)
    assert queue.max.allows(queue.guaranteed)
    assert all(queue.guaranteed[name] >= total[name] for name in queue.guaranteed)
    assert queue.parent or not queue.children
    for limit in queue.limits:
        assert queue.max.allows(Resources(dict(limit.max.items())))
    return Resources({name: max(queue.guaranteed[name], total[name]) for name in {*queue.guaranteed, *total}})


@given(st.sampled_from(["vcore", "memory", "nvidia.com/gpu"]), st.integers(0, 2**63 - 1))
def test_an_amount_is_read_back_as_it_is_written(resource: str, amount: int) -> None:
    assert quantity(resource, as_written(resource, amount), "here") == amount


SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@given(st.integers(0, 2**12), st.sampled_from(sorted(SUFFIXES)), st.sampled_from(["", " "]))
def test_a_suffix_multiplies(count: int, suffix: str, blank: str) -> None:
    assert quantity("memory", f"{count}{blank}{suffix}", "here") == count * SUFFIXES[suffix]
    assert quantity("vcore", f"{count}{suffix}", "here") == 1000 * count * SUFFIXES[suffix]


# -- Queue properties: meaning, inheritance, and the default with a warning for an invalid value.

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
