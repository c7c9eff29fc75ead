"""Any text is accepted or rejected with one-line messages, and no other error is raised."""

import json
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from muster_core.config.document import as_written, quantity
from muster_core.config.load import Examination, examine
from muster_core.model.config import QueueConfig
from muster_core.model.resources import NOTHING, Resources
from muster_si import keys

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
        for child in examined.built.configuration.partitions[0].root.children:
            assert promised(child) is not None


def promised(queue: QueueConfig) -> Resources:
    """The guarantees of a queue and its children; asserts that they are within the maximums."""
    total = NOTHING
    for child in queue.children:
        assert all(
            (queue.max.get(name) or 0) >= bound for name, bound in child.max.items() if name in dict(queue.max.items())
        )
        assert not queue.max_applications or 1 <= child.max_applications <= queue.max_applications
        total += promised(child)
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
