"""The first placement rule with a usable leaf chooses the queue; else the fallback, else a reason."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.config.load import DEFAULT_TEXT, load
from muster_core.model.config import (
    ALLOW_ALL,
    DENY_ALL,
    AccessList,
    Configuration,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
    RuleFilter,
)
from muster_core.model.ids import RECOVERY, QueuePath
from muster_core.model.messages import NOT_PLACED
from muster_core.model.specs import ApplicationSpec
from muster_core.model.states import QueueState
from muster_core.queues.placement_rules import Chosen, admits, choose_queue, is_requested, may_submit
from muster_core.state.queues import QueueTree, new_tree
from tests.unit.builders import a_queue, an_application
from tests.unit.core.scheduling.scenario import Scenario, rejection

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


# -- Filters of placement rules and access lists; the next rule is evaluated after a rejection.


def names(*found: str) -> frozenset[str]:
    return frozenset(found)


def app(user: str = "kim", *groups: str, queue: str = "", forced: bool = False, **tags: str) -> ApplicationSpec:
    return replace(an_application(queue=queue, user=user, forced=forced), groups=groups, tags=tags)


def leaf(name: str, submit: AccessList = DENY_ALL, admin: AccessList = DENY_ALL) -> QueueConfig:
    return QueueConfig(name, submit_acl=submit, admin_acl=admin)


def parent(
    name: str, *children: QueueConfig, submit: AccessList = DENY_ALL, admin: AccessList = DENY_ALL
) -> QueueConfig:
    return QueueConfig(name, parent=True, children=children, submit_acl=submit, admin_acl=admin)


def tree(*queues: QueueConfig, submit: AccessList = DENY_ALL, admin: AccessList = DENY_ALL) -> QueueTree:
    return new_tree(parent("root", *queues, submit=submit, admin=admin))


def chosen_for(path: str, *made: str) -> Chosen:
    return Chosen(QueuePath(path), tuple(QueuePath(one) for one in made))


@pytest.mark.parametrize(
    "found, user, groups, is_for",
    [
        (None, "kim", (), True),
        (RuleFilter(), "kim", (), True),
        (RuleFilter(allow=False), "kim", (), False),
        (RuleFilter(users=names("kim", "ann")), "ann", (), True),
        (RuleFilter(users=names("kim", "ann")), "Ann", (), False),
        (RuleFilter(users=names("kim")), "kimberley", (), False),
        (RuleFilter(groups=names("dev", "ops")), "kim", ("all", "ops"), True),
        (RuleFilter(groups=names("dev")), "dev", (), False),
        (RuleFilter(allow=False, users=names("kim")), "kim", (), False),
        (RuleFilter(allow=False, users=names("kim")), "ann", (), True),
        (RuleFilter(allow=False, groups=names("guests")), "ann", ("dev", "guests"), False),
        (RuleFilter(user_expression="^svc-"), "svc-spark", (), True),
        (RuleFilter(user_expression="^svc-"), "my-svc-spark", (), False),
        (RuleFilter(user_expression="pa.k"), "svc-spark", (), True),
        (RuleFilter(group_expression="^dev-.*$"), "kim", ("all", "dev-core"), True),
        (RuleFilter(group_expression="^all dev$"), "kim", ("all", "dev"), False),
        (RuleFilter(allow=False, group_expression="guest"), "kim", ("guests",), False),
        (RuleFilter(users=names("ann"), group_expression="dev"), "kim", ("dev",), True),
    ],
)
def test_a_filter_selects_the_users_of_a_rule(
    found: RuleFilter | None, user: str, groups: tuple[str, ...], *, is_for: bool
) -> None:
    assert admits(found, user, groups) is is_for


def test_a_rule_with_a_non_matching_filter_is_skipped() -> None:
    rules = (
        PlacementRule("fixed", value="prod", filter=RuleFilter(groups=names("ops"))),
        PlacementRule("user", create=True, filter=RuleFilter(allow=False, users=names("guest"))),
    )
    queues = tree(leaf("prod"), submit=ALLOW_ALL)
    assert choose_queue(queues, rules, app("kim", "ops")) == chosen_for("root.prod")
    assert choose_queue(queues, rules, app("kim", "dev")) == chosen_for("root.kim", "root.kim")
    refused = choose_queue(queues, rules, app("guest"))
    assert "(fixed: its filter excludes user guest; user: its filter excludes user guest)" in str(refused)


def test_the_filter_of_a_parent_rule_applies_to_the_complete_rule() -> None:
    inner = PlacementRule("tag", create=True, value="namespace", filter=RuleFilter(users=names("kim")))
    rules = (PlacementRule("user", create=True, parent=inner),)
    queues = tree(submit=ALLOW_ALL)
    assert choose_queue(queues, rules, app("kim", namespace="dev")) == chosen_for(
        "root.dev.kim", "root.dev", "root.dev.kim"
    )
    refused = choose_queue(queues, rules, app("ann", namespace="dev"))
    assert "user: its parent rule tag: its filter excludes user ann" in str(refused)


@pytest.mark.parametrize(
    "found, user, groups",
    [
        (AccessList(users=names("kim")), "kim", ()),
        (AccessList(groups=names("dev")), "kim", ("all", "dev")),
        (ALLOW_ALL, "anybody", ()),
    ],
)
@pytest.mark.parametrize("kind", ["submit", "admin"])
@pytest.mark.parametrize("level", ["root", "top", "sub"])
def test_submit_or_admin_access_on_the_queue_or_a_parent_permits_submission(
    found: AccessList, user: str, groups: tuple[str, ...], kind: str, level: str
) -> None:
    def access_list(name: str, which: str) -> AccessList:
        return found if (name, which) == (level, kind) else DENY_ALL

    queues = tree(
        parent(
            "top",
            leaf("sub", submit=access_list("sub", "submit"), admin=access_list("sub", "admin")),
            submit=access_list("top", "submit"),
            admin=access_list("top", "admin"),
        ),
        submit=access_list("root", "submit"),
        admin=access_list("root", "admin"),
    )
    spec = app(user, *groups, queue="root.top.sub")
    assert choose_queue(queues, (), spec) == chosen_for("root.top.sub")
    if found is not ALLOW_ALL:
        assert isinstance(choose_queue(queues, (), replace(spec, user="ann", groups=())), str)


def test_a_user_without_access_is_rejected_with_a_reason() -> None:
    queues = tree(leaf("a", submit=AccessList(users=names("ann"), groups=names("ops"))))
    refused = choose_queue(queues, (), app("kim", "dev", queue="root.a"))
    assert "(provided: user kim may not submit to queue root.a)" in str(refused)


def test_access_to_a_sibling_or_child_queue_does_not_permit_submission() -> None:
    mine = AccessList(users=names("kim"))
    queues = tree(parent("top", leaf("mine", submit=mine), leaf("other")))
    assert isinstance(choose_queue(queues, (), app(queue="root.top.other")), str)
    creating = (PlacementRule("provided", create=True),)
    assert isinstance(choose_queue(queues, creating, app(queue="root.top.new")), str)


def test_a_queue_to_be_created_uses_the_access_of_the_nearest_existing_queue() -> None:
    queues = tree(parent("teams", submit=AccessList(groups=names("dev"))))
    rules = (PlacementRule("provided", create=True),)
    path = "root.teams.a.b"
    assert choose_queue(queues, rules, app("kim", "dev", queue=path)) == chosen_for(path, "root.teams.a", path)
    assert "user kim may not submit to queue root.teams.a.b" in str(choose_queue(queues, rules, app(queue=path)))


def test_the_fallback_queue_checks_its_access_list() -> None:
    queues = tree(leaf("default", submit=AccessList(users=names("ann"))))
    assert choose_queue(queues, (), app("ann")) == chosen_for("root.default")
    assert "fallback: user kim may not submit to queue root.default" in str(choose_queue(queues, (), app("kim")))


def test_a_running_application_without_access_is_placed_in_the_recovery_queue() -> None:
    queues = tree(leaf("a"))
    assert choose_queue(queues, (), app(queue="root.a", forced=True)) == Chosen(RECOVERY, (RECOVERY,))


def test_a_user_rule_below_a_namespace_with_a_filter_for_groups() -> None:
    """Members of `research` have a queue each in their namespace, all others share one."""
    namespace = PlacementRule("tag", create=True, value="namespace")
    rules = (
        PlacementRule("user", create=True, parent=namespace, filter=RuleFilter(groups=names("research"))),
        PlacementRule("fixed", value="root.default"),
    )
    queues = tree(leaf("default"), submit=ALLOW_ALL)
    made = chosen_for("root.lab.kim", "root.lab", "root.lab.kim")
    assert choose_queue(queues, rules, app("kim", "research", namespace="lab")) == made
    assert choose_queue(queues, rules, app("ann", "ops", namespace="lab")) == chosen_for("root.default")


def test_a_tag_rule_below_a_fixed_parent() -> None:
    namespaces = PlacementRule("fixed", value="root.namespaces", create=True)
    rules = (PlacementRule("tag", create=True, value="namespace", parent=namespaces),)
    made = ("root.namespaces", "root.namespaces.dev")
    assert choose_queue(tree(submit=ALLOW_ALL), rules, app(namespace="dev")) == chosen_for("root.namespaces.dev", *made)


def test_users_without_production_access_get_a_user_queue() -> None:
    users = PlacementRule("fixed", value="root.users")
    rules = (PlacementRule("fixed", value="root.production"), PlacementRule("user", create=True, parent=users))
    queues = tree(leaf("production", submit=AccessList(groups=names("sre"))), parent("users", submit=ALLOW_ALL))
    assert choose_queue(queues, rules, app("lee", "sre")) == chosen_for("root.production")
    assert choose_queue(queues, rules, app("kim", "dev")) == chosen_for("root.users.kim", "root.users.kim")


# -- For any application, placement gives an open leaf with submit access, or a reason, and the tree stays
# consistent.

_PART = re.compile(r"[a-z0-9_:#/@-]{1,64}")
NAMES = st.one_of(
    st.sampled_from(
        ["", "root", "root.a", "root.p.x", "root.p.x.y", "a", "root.@recovery@", "root..", ".", "A B", "p.q"]
    ),
    st.text(max_size=20),
)
FILTERS = st.one_of(
    st.none(),
    st.builds(RuleFilter, allow=st.booleans(), users=st.sampled_from([frozenset(), frozenset({"kim"})])),
    st.builds(RuleFilter, allow=st.booleans(), user_expression=st.sampled_from(["", "^k", ".*"])),
)


def _rules(parents: st.SearchStrategy[PlacementRule | None]) -> st.SearchStrategy[PlacementRule]:
    kinds = st.sampled_from([("provided", ""), ("user", ""), ("tag", "namespace"), ("fixed", "p"), ("fixed", "root.a")])
    return st.builds(
        lambda kind, create, parent, found: PlacementRule(kind[0], create, kind[1], parent, found),
        kinds,
        st.booleans(),
        parents,
        FILTERS,
    )


RULES = _rules(st.one_of(st.none(), _rules(st.none())))


@given(
    rules=st.lists(RULES, max_size=3),
    named=st.lists(st.tuples(NAMES, NAMES, st.sampled_from(["kim", "", "a.b", "root.a"]), st.booleans()), max_size=4),
    open_to=st.sampled_from([ALLOW_ALL, AccessList(users=frozenset({"kim"}))]),
)
@settings(max_examples=60, deadline=None)
def test_an_application_gets_a_leaf_that_it_may_use_or_a_reason(
    rules: list[PlacementRule], named: list[tuple[str, str, str, bool]], open_to: AccessList
) -> None:
    tree = QueueConfig(
        "root", parent=True, children=(QueueConfig("a"), QueueConfig("p", parent=True)), submit_acl=open_to
    )
    scenario = Scenario(Configuration((PartitionConfig("default", tree, tuple(rules)),)))
    for number, (queue, namespace, user, forced) in enumerate(named):
        spec = replace(
            an_application(f"app{number}", queue=queue, user=user, forced=forced), tags={"namespace": namespace}
        )
        reason = rejection(scenario.submit(spec))
        if reason:
            assert not forced
            assert reason.startswith("application rejected: no placement rule matched")
            continue
        leaf = scenario.app(spec.id).queue
        assert leaf.is_leaf
        if leaf.path == RECOVERY:
            assert forced
            continue
        assert may_submit(leaf, user, spec.groups)
        assert all(_PART.fullmatch(part) for part in leaf.path.split("."))
