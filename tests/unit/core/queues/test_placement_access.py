"""Filters of placement rules and access lists; the next rule is evaluated after a rejection."""

from dataclasses import replace

import pytest

from muster_core.model.config import ALLOW_ALL, DENY_ALL, AccessList, PlacementRule, QueueConfig, RuleFilter
from muster_core.model.ids import RECOVERY, QueuePath
from muster_core.model.specs import ApplicationSpec
from muster_core.queues.placement_rules import Chosen, admits, choose_queue
from muster_core.state.queues import QueueTree, new_tree
from tests.unit.builders import an_application


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


def chosen(path: str, *made: str) -> Chosen:
    return Chosen(QueuePath(path), tuple(QueuePath(one) for one in made))


# -- filters ---------------------------------------------------------------------


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
    assert choose_queue(queues, rules, app("kim", "ops")) == chosen("root.prod")
    assert choose_queue(queues, rules, app("kim", "dev")) == chosen("root.kim", "root.kim")
    refused = choose_queue(queues, rules, app("guest"))
    assert "(fixed: its filter excludes user guest; user: its filter excludes user guest)" in str(refused)


def test_the_filter_of_a_parent_rule_applies_to_the_complete_rule() -> None:
    inner = PlacementRule("tag", create=True, value="namespace", filter=RuleFilter(users=names("kim")))
    rules = (PlacementRule("user", create=True, parent=inner),)
    queues = tree(submit=ALLOW_ALL)
    assert choose_queue(queues, rules, app("kim", namespace="dev")) == chosen(
        "root.dev.kim", "root.dev", "root.dev.kim"
    )
    refused = choose_queue(queues, rules, app("ann", namespace="dev"))
    assert "user: its parent rule tag: its filter excludes user ann" in str(refused)


# -- access lists ----------------------------------------------------------------


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
    assert choose_queue(queues, (), spec) == chosen("root.top.sub")
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
    assert choose_queue(queues, rules, app("kim", "dev", queue=path)) == chosen(path, "root.teams.a", path)
    assert "user kim may not submit to queue root.teams.a.b" in str(choose_queue(queues, rules, app(queue=path)))


def test_the_fallback_queue_checks_its_access_list() -> None:
    queues = tree(leaf("default", submit=AccessList(users=names("ann"))))
    assert choose_queue(queues, (), app("ann")) == chosen("root.default")
    assert "fallback: user kim may not submit to queue root.default" in str(choose_queue(queues, (), app("kim")))


def test_a_running_application_without_access_is_placed_in_the_recovery_queue() -> None:
    queues = tree(leaf("a"))
    assert choose_queue(queues, (), app(queue="root.a", forced=True)) == Chosen(RECOVERY, (RECOVERY,))


# -- the worked examples of YuniKorn's documentation -----------------------------


def test_a_user_rule_below_a_namespace_with_a_filter_for_groups() -> None:
    """Members of `research` have a queue each in their namespace, all others share one."""
    namespace = PlacementRule("tag", create=True, value="namespace")
    rules = (
        PlacementRule("user", create=True, parent=namespace, filter=RuleFilter(groups=names("research"))),
        PlacementRule("fixed", value="root.default"),
    )
    queues = tree(leaf("default"), submit=ALLOW_ALL)
    made = chosen("root.lab.kim", "root.lab", "root.lab.kim")
    assert choose_queue(queues, rules, app("kim", "research", namespace="lab")) == made
    assert choose_queue(queues, rules, app("ann", "ops", namespace="lab")) == chosen("root.default")


def test_a_tag_rule_below_a_fixed_parent() -> None:
    namespaces = PlacementRule("fixed", value="root.namespaces", create=True)
    rules = (PlacementRule("tag", create=True, value="namespace", parent=namespaces),)
    made = ("root.namespaces", "root.namespaces.dev")
    assert choose_queue(tree(submit=ALLOW_ALL), rules, app(namespace="dev")) == chosen("root.namespaces.dev", *made)


def test_users_without_production_access_get_a_user_queue() -> None:
    users = PlacementRule("fixed", value="root.users")
    rules = (PlacementRule("fixed", value="root.production"), PlacementRule("user", create=True, parent=users))
    queues = tree(leaf("production", submit=AccessList(groups=names("sre"))), parent("users", submit=ALLOW_ALL))
    assert choose_queue(queues, rules, app("lee", "sre")) == chosen("root.production")
    assert choose_queue(queues, rules, app("kim", "dev")) == chosen("root.users.kim", "root.users.kim")
