"""The first placement rule with a usable leaf chooses the queue; else the fallback, else a reason."""

import pytest

from muster_core.config.load import DEFAULT_TEXT, load
from muster_core.model.config import ALLOW_ALL, PlacementRule, QueueConfig
from muster_core.model.ids import RECOVERY, QueuePath
from muster_core.model.messages import NOT_PLACED
from muster_core.model.specs import ApplicationSpec
from muster_core.model.states import QueueState
from muster_core.queues.placement_rules import Chosen, choose_queue, is_requested
from muster_core.state.queues import QueueTree, new_tree
from tests.unit.builders import a_queue, an_application

PROVIDED = PlacementRule("provided")
CREATING = PlacementRule("provided", create=True)
NAMESPACE = PlacementRule("tag", create=True, value="namespace")


def a_tree(*queues: QueueConfig) -> QueueTree:
    """Everybody may submit everywhere."""
    return new_tree(QueueConfig("root", parent=True, children=queues, submit_acl=ALLOW_ALL))


TREE = a_tree(a_queue("leaf"), a_queue("top", a_queue("sub")))


def chosen(path: str, *create: str) -> Chosen:
    return Chosen(QueuePath(path), tuple(QueuePath(made) for made in create))


def an_app(queue: str = "", user: str = "kim", **tags: str) -> ApplicationSpec:
    app = an_application(queue=queue, user=user)
    return ApplicationSpec(app.partition, app.id, queue=app.queue, user=app.user, tags=tags)


@pytest.mark.parametrize(
    "rule, app, expected",
    [
        (PROVIDED, an_app("root.leaf"), chosen("root.leaf")),
        (PROVIDED, an_app("leaf"), chosen("root.leaf")),
        (PROVIDED, an_app(" ROOT.Leaf "), chosen("root.leaf")),
        (PROVIDED, an_app("root.top.sub"), chosen("root.top.sub")),
        (CREATING, an_app("root.x.y"), chosen("root.x.y", "root.x", "root.x.y")),
        (CREATING, an_app("root.top.new"), chosen("root.top.new", "root.top.new")),
        (CREATING, an_app("x.y"), chosen("root.x_dot_y", "root.x_dot_y")),
        (PlacementRule("provided", parent=PlacementRule("fixed", value="top")), an_app("sub"), chosen("root.top.sub")),
        (
            PlacementRule("provided", parent=PlacementRule("fixed", value="top")),
            an_app("root.leaf"),
            chosen("root.leaf"),
        ),
        (NAMESPACE, an_app(namespace="dev"), chosen("root.dev", "root.dev")),
        (NAMESPACE, an_app(namespace="a.b"), chosen("root.a_dot_b", "root.a_dot_b")),
        (
            PlacementRule("tag", create=True, value="namespace.parentqueue"),
            an_app(**{"namespace.parentqueue": "root.top.ns"}),
            chosen("root.top.ns", "root.top.ns"),
        ),
        (
            PlacementRule("user", create=True, parent=NAMESPACE),
            an_app(user="ann.lee", namespace="dev"),
            chosen("root.dev.ann_dot_lee", "root.dev", "root.dev.ann_dot_lee"),
        ),
        (
            PlacementRule("user", create=True),
            an_app(user="root.leaf"),
            chosen("root.root_dot_leaf", "root.root_dot_leaf"),
        ),
        (PlacementRule("fixed", value="top.sub"), an_app(), chosen("root.top.sub")),
        (PlacementRule("fixed", value="root.top.sub"), an_app(), chosen("root.top.sub")),
        (
            PlacementRule(
                "tag", create=True, value="namespace", parent=PlacementRule("fixed", value="root.ns", create=True)
            ),
            an_app(namespace="dev"),
            chosen("root.ns.dev", "root.ns", "root.ns.dev"),
        ),
    ],
)
def test_a_rule_yields_a_leaf(rule: PlacementRule, app: ApplicationSpec, expected: Chosen) -> None:
    assert choose_queue(TREE, (rule,), app) == expected


@pytest.mark.parametrize(
    "rule, app, why",
    [
        (PROVIDED, an_app(), "the application names no queue"),
        (PROVIDED, an_app("root.gone"), "queue root.gone does not exist and the rule may not create it"),
        (PROVIDED, an_app("root.top"), "queue root.top is a parent queue and accepts no applications"),
        (PROVIDED, an_app("root"), "queue root is a parent queue and accepts no applications"),
        (CREATING, an_app("root.leaf.new"), "queue root.leaf.new would be below the leaf root.leaf"),
        (CREATING, an_app("root.a b"), "'a b' cannot be the name of a queue"),
        (CREATING, an_app("root..x"), "'' cannot be the name of a queue"),
        (CREATING, an_app("x" * 65), "cannot be the name of a queue"),
        (CREATING, an_app("root" + ".x" * 40), "at most 32 levels"),
        (CREATING, an_app("root.@recovery@.mine"), "is reserved for recovered applications"),
        (CREATING, an_app("root.@recovery@"), "is reserved for recovered applications"),
        (NAMESPACE, an_app(), "the application has no such tag"),
        (PlacementRule("user"), an_app(user=""), "the application has no user"),
        (
            PlacementRule("provided", create=True, parent=PlacementRule("fixed", value="leaf")),
            an_app("x"),
            "its parent root.leaf is a leaf",
        ),
        (
            PlacementRule("provided", create=True, parent=PlacementRule("tag", value="namespace")),
            an_app("x", namespace="dev"),
            "its parent root.dev does not exist and the parent rule may not create it",
        ),
        (PlacementRule("user", create=True, parent=NAMESPACE), an_app(), "the application has no such tag"),
    ],
)
def test_a_rule_without_a_usable_leaf_reports_why(rule: PlacementRule, app: ApplicationSpec, why: str) -> None:
    answer = choose_queue(TREE, (rule,), app)
    assert isinstance(answer, str)
    assert answer.startswith(f"{NOT_PLACED} ({rule.name}: ")
    assert why in answer


@pytest.mark.parametrize(
    "requested, path, is_same",
    [
        ("", "root.dev", True),
        ("root.dev", "root.dev", True),
        (" ROOT.Dev ", "root.dev", True),
        ("dev", "root.dev", True),
        ("dev", "root.team.dev", True),
        ("root.dev", "root.team", False),
        ("dev", "root.mydev", False),
        ("root.gone", "root.@recovery@", False),
    ],
)
def test_a_queue_is_the_requested_one_by_its_path_or_its_end(requested: str, path: str, is_same: bool) -> None:  # noqa: FBT001
    assert is_requested(requested, QueuePath(path)) is is_same


def test_rules_are_evaluated_in_order_and_the_first_match_wins() -> None:
    rules = (PROVIDED, NAMESPACE)
    assert choose_queue(TREE, rules, an_app("root.leaf", namespace="dev")) == chosen("root.leaf")
    assert choose_queue(TREE, rules, an_app("root.gone", namespace="dev")) == chosen("root.dev", "root.dev")
    assert choose_queue(TREE, rules, an_app("root.gone")) == (
        f"{NOT_PLACED} (provided: queue root.gone does not exist and the rule may not create it; "
        "tag: the application has no such tag); "
        "name a leaf queue that queues.yaml has and that you may submit to, or let a rule create it (create: true)"
    )


def test_without_rules_the_provided_queue_must_exist() -> None:
    assert choose_queue(TREE, (), an_app("root.leaf")) == chosen("root.leaf")
    assert isinstance(choose_queue(TREE, (), an_app("root.gone")), str)


def test_the_fallback_is_root_default_only_where_it_exists() -> None:
    assert choose_queue(a_tree(a_queue("default")), (), an_app("root.gone")) == chosen("root.default")
    assert isinstance(choose_queue(a_tree(a_queue("default", a_queue("x"))), (), an_app("root.gone")), str)


def test_a_draining_queue_accepts_no_applications_and_no_children() -> None:
    tree = a_tree(a_queue("leaf"), a_queue("top", a_queue("sub")))
    for queue in tree.by_path.values():
        queue.state = QueueState.ACTIVE if queue.path == "root" else QueueState.DRAINING
    for name in ("root.leaf", "root.top.new"):
        answer = choose_queue(tree, (CREATING,), an_app(name))
        assert isinstance(answer, str)
        assert "draining" in answer


def test_a_stopped_leaf_and_a_parent_that_becomes_a_leaf_take_nothing_new() -> None:
    tree = a_tree(a_queue("leaf"), a_queue("top", a_queue("sub")))
    tree.by_path[QueuePath("root.leaf")].state = QueueState.STOPPED
    tree.by_path[QueuePath("root.top")].wanted = QueueConfig("top")
    assert "becomes a parent queue when its last application ends" in str(
        choose_queue(tree, (CREATING,), an_app("root.leaf"))
    )
    assert "becomes a leaf when it is empty" in str(choose_queue(tree, (CREATING,), an_app("root.top.new")))


def test_a_forced_application_always_has_a_queue() -> None:
    forced = an_application(queue="root.gone", forced=True)
    assert choose_queue(TREE, (), forced) == Chosen(RECOVERY, (RECOVERY,))
    assert choose_queue(a_tree(a_queue("@recovery@")), (), forced) == Chosen(RECOVERY)
    assert choose_queue(TREE, (), an_application(queue="root.leaf", forced=True)) == chosen("root.leaf")


def test_without_a_configuration_each_namespace_has_its_own_queue_and_a_named_queue_is_ignored() -> None:
    [partition] = load(DEFAULT_TEXT, {}).configuration.partitions
    app = an_app("root.default", namespace="team-a")
    assert choose_queue(new_tree(partition.root), partition.rules, app) == chosen("root.team-a", "root.team-a")
