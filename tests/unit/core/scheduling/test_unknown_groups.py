"""Applications whose user's groups cannot be looked up: no decision that depends on the groups is made without them."""

from dataclasses import replace

import pytest

from muster_core.model import limits
from muster_core.model.config import AccessList, Configuration, PlacementRule, QueueConfig, RuleFilter
from muster_core.model.effects import ApplicationAccepted, Effect
from muster_core.model.events import AllocationReported, ApplicationAdded, ApplicationRemoved, GroupsResolved
from muster_core.model.ids import RECOVERY, ApplicationId
from muster_core.model.resources import NOTHING
from muster_core.model.specs import ApplicationSpec
from muster_core.scheduling.requeue import requeue_some
from muster_core.scheduling.scheduler import step
from tests.unit.builders import (
    PARTITION,
    a_configuration,
    a_limit,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.preemption_scenario import PREEMPTED, a_daemon, victims
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, refused_asks, rejection, waits

WHY = "ldap does not answer"


def unknown(name: str = "app", *, user: str = "kim", forced: bool = False) -> ApplicationSpec:
    return replace(an_application(name, user=user, forced=forced), groups_unknown=WHY)


def with_rule(found: RuleFilter) -> Configuration:
    """Only `provided` with this filter."""
    complete = a_configuration(a_queue("a"))
    [partition] = complete.partitions
    return replace(complete, partitions=(replace(partition, rules=(PlacementRule("provided", filter=found),)),))


def with_list(submit: AccessList) -> Configuration:
    complete = a_configuration(a_queue("a"))
    [partition] = complete.partitions
    leaf = QueueConfig("a", submit_acl=submit)
    root = replace(partition.root, submit_acl=AccessList(), children=(leaf,))
    return replace(complete, partitions=(replace(partition, root=root),))


def limited(*groups: str) -> Configuration:
    return a_configuration(a_queue("a", limits=(a_limit(groups=groups, vcore=1000),)))


def is_accepted(effects: list[Effect]) -> bool:
    return any(isinstance(effect, ApplicationAccepted) for effect in effects)


READERS = {
    "a deny rule": with_rule(RuleFilter(allow=False, groups=frozenset({"contractors"}))),
    "a rule with a group expression": with_rule(RuleFilter(group_expression="^dev")),
    "an access list": with_list(AccessList(groups=frozenset({"dev"}))),
    "a limit": limited("dev", "*"),
}


@pytest.mark.parametrize("configuration", READERS.values(), ids=READERS)
def test_an_application_waits_where_a_rule_a_list_or_a_limit_reads_groups(configuration: Configuration) -> None:
    scenario = Scenario(configuration, nodes=1)
    effects = scenario.submit(unknown())
    assert not is_accepted(effects)
    assert rejection(effects) == ""
    [notice] = notices(effects)
    assert "waiting for the groups of user kim (ldap does not answer): " in notice
    assert "not accepted yet" in refused_asks(scenario.ask(an_ask("p")))["p"]
    assert not scenario.partition.applications


def test_once_the_groups_are_known_the_application_is_placed_by_them() -> None:
    scenario = Scenario(READERS["a deny rule"], nodes=1)
    scenario.send(ApplicationAdded(unknown("good", user="ann")), ApplicationAdded(unknown("bad")))
    assert is_accepted(scenario.send(GroupsResolved(PARTITION, "ann", ("dev",))))
    assert placed(scenario.ask(an_ask("p", app="good"))) == {"p": "n0"}
    assert "its filter excludes user kim" in rejection(
        scenario.send(GroupsResolved(PARTITION, "kim", ("contractors",)))
    )
    assert not scenario.partition.undecided
    assert not scenario.partition.unresolved


@pytest.mark.parametrize(
    "configuration",
    [
        a_configuration(a_queue("a", limits=(a_limit(users=("kim",), vcore=1000),))),
        limited("*"),
        with_list(AccessList(users=frozenset({"kim"}), groups=frozenset({"dev"}))),
        with_rule(RuleFilter(users=frozenset({"kim"}), groups=frozenset({"dev"}))),
    ],
)
def test_an_application_is_accepted_if_no_rule_or_limit_reads_its_groups(configuration: Configuration) -> None:
    scenario = Scenario(configuration, nodes=1)
    assert is_accepted(scenario.submit(unknown()))
    assert placed(scenario.ask(an_ask("p"))) == {"p": "n0"}


def test_the_limit_of_the_group_holds_once_the_groups_are_known() -> None:
    scenario = Scenario(limited("dev", "*"), nodes=1)
    scenario.send(ApplicationAdded(unknown()), GroupsResolved(PARTITION, "kim", ("dev",)))
    effects = scenario.ask(an_ask("p0"), an_ask("p1"))
    assert placed(effects) == {"p0": "n0"}
    assert scenario.app().group == "dev"


def test_a_running_application_is_counted_in_its_queue_and_its_new_requests_wait() -> None:
    scenario = Scenario(limited("dev", "*"), nodes=1)
    scenario.send(ApplicationAdded(unknown(forced=True)), AllocationReported(an_allocation("old", "n0", vcore=500)))
    leaf = scenario.partition.queues.by_path[scenario.app().queue.path]
    assert (leaf.path, leaf.allocated) == ("root.a", resources(vcore=500, pods=1))
    [(state, reason)] = waits(scenario.ask(an_ask("new", vcore=500))).values()
    assert state == "SKIPPED"
    assert "queue root.a has a limit for group dev" in reason
    effects = scenario.send(GroupsResolved(PARTITION, "kim", ("dev",)))
    assert placed(effects) == {"new": "n0"}
    used = scenario.partition.users.groups["dev"][leaf.path].allocated
    assert used == resources(vcore=1000, pods=2)
    assert "*" not in scenario.partition.users.groups


def test_a_running_application_moves_from_the_maximum_of_one_group_to_that_of_another() -> None:
    """An application that waits for the first maximum starts, and one of the other group waits."""
    one_each = tuple(a_limit(groups=(group,), applications=1) for group in ("*", "dev"))
    scenario = Scenario(a_configuration(a_queue("a", limits=one_each)), nodes=1)
    scenario.send(
        ApplicationAdded(unknown("old", forced=True)), AllocationReported(an_allocation("o", "n0", app="old"))
    )
    scenario.send(
        ApplicationAdded(an_application("other", user="lee")),
        ApplicationAdded(replace(an_application("same", user="pat"), groups=("dev",))),
    )
    assert placed(scenario.ask(an_ask("x", app="other"))) == {}
    assert placed(scenario.send(GroupsResolved(PARTITION, "kim", ("dev",)))) == {"x": "n0"}
    leaf = scenario.app("old").queue.path
    assert {name: accounts[leaf].running for name, accounts in scenario.partition.users.groups.items()} == {
        "*": 1,
        "dev": 1,
    }
    assert placed(scenario.ask(an_ask("y", app="same"))) == {}
    assert placed(scenario.release("o", app="old")) == {"y": "n0"}, "a Completing application does not count"


def test_a_running_application_that_no_rule_can_place_is_counted_in_the_recovery_queue_and_waits() -> None:
    scenario = Scenario(READERS["an access list"], nodes=1)
    scenario.send(ApplicationAdded(unknown(forced=True)), AllocationReported(an_allocation("old", "n0")))
    assert scenario.app().queue.path == RECOVERY
    assert not placed(scenario.ask(an_ask("new")))
    scenario.wait(3600)
    assert scenario.app().pending != NOTHING


def test_once_the_groups_are_known_it_moves_to_its_queue_and_counts_for_its_group() -> None:
    complete = READERS["an access list"]
    [partition] = complete.partitions
    leaf = replace(partition.root.children[0], limits=(a_limit(groups=("dev",), vcore=2000),))
    placed_by_groups = replace(partition, root=replace(partition.root, children=(leaf,)))
    scenario = Scenario(replace(complete, partitions=(placed_by_groups,)), nodes=1)
    scenario.send(ApplicationAdded(unknown(forced=True)), AllocationReported(an_allocation("old", "n0")))
    assert not placed(scenario.ask(an_ask("new"), an_ask("more")))
    assert placed(scenario.send(GroupsResolved(PARTITION, "kim", ("dev",)))) == {"new": "n0"}
    assert scenario.app().queue.path == "root.a"
    assert scenario.partition.users.groups["dev"][scenario.app().queue.path].allocated == resources(vcore=2000, pods=2)


def test_a_victim_counts_for_the_group_that_is_resolved_later() -> None:
    """The invariants compare the sums of both groups."""
    both = a_queue("a", limits=(a_limit(groups=("dev", "*"), vcore=1000),))
    scenario = Scenario(a_configuration(both, a_queue("b")), nodes=1, vcore=1000)
    scenario.send(ApplicationAdded(unknown(forced=True)), AllocationReported(an_allocation("old", "n0")))
    scenario.submit(an_application("agents", queue="root.b"))
    answers = scenario.ask(replace(a_daemon("agent", "n0"), application=ApplicationId("agents"))) + scenario.wait(60)
    assert victims(answers) == {"old"}
    leaf = scenario.app().queue.path
    assert scenario.partition.users.groups["*"][leaf].preempting == resources(vcore=1000, pods=1)
    scenario.send(GroupsResolved(PARTITION, "kim", ("dev",)))
    assert scenario.partition.users.groups["dev"][leaf].preempting == resources(vcore=1000, pods=1)
    assert placed(scenario.release("old", why=PREEMPTED)) == {"agent": "n0"}
    assert scenario.partition.users.groups == {}


def test_placeholders_of_a_running_gang_are_still_replaced() -> None:
    scenario = Scenario(limited("dev"), nodes=1)
    gang = replace(an_application(gang=1, forced=True), groups_unknown=WHY)
    scenario.send(
        ApplicationAdded(gang), AllocationReported(an_allocation("ph", "n0", group="workers", placeholder=True))
    )
    effects = scenario.ask(an_ask("real", group="workers"))
    assert scenario.app().asks[an_ask("real").key].replacement is not None
    assert not placed(effects)
    assert placed(scenario.release("ph")) == {"real": "n0"}


def test_a_reload_that_reads_groups_makes_applications_wait() -> None:
    scenario = Scenario(limited("dev"), nodes=1)
    scenario.send(ApplicationAdded(unknown("new")), ApplicationAdded(unknown("old", forced=True)))
    assert is_accepted(scenario.reload(a_configuration(a_queue("a"))))
    assert placed(scenario.ask(an_ask("n", app="new"), an_ask("o", app="old"))) == {"n": "n0", "o": "n0"}
    scenario.reload(limited("dev"))
    assert not placed(scenario.ask(an_ask("n2", app="new")))


def test_an_application_that_is_removed_or_replaced_while_it_waits_is_forgotten() -> None:
    scenario = Scenario(limited("dev"), nodes=1)
    scenario.send(ApplicationAdded(unknown()), ApplicationRemoved(PARTITION, ApplicationId("app")))
    assert not is_accepted(scenario.send(GroupsResolved(PARTITION, "kim", ("dev",))))
    scenario.submit(unknown())
    assert is_accepted(scenario.submit(an_application(groups=("dev",))))
    assert not scenario.partition.unresolved


def test_no_more_than_a_fixed_number_of_applications_waits() -> None:
    scenario = Scenario(limited("dev"))
    for number in range(limits.UNDECIDED_APPLICATIONS):
        step(scenario.scheduler_state, ApplicationAdded(unknown(f"a{number}")), scenario.now_ns)
    effects = scenario.submit(unknown("late"))
    assert f"the limit of {limits.UNDECIDED_APPLICATIONS} applications" in rejection(effects)


def test_a_removed_partition_rejects_waiting_applications() -> None:
    scenario = Scenario(limited("dev"), unknown())
    other = replace(limited("dev").partitions[0], name="other")
    effects = scenario.reload(Configuration((other,)))
    assert "is being removed" in rejection(effects)


def test_resolved_groups_of_many_users_requeue_applications_once() -> None:
    scenario = Scenario(limited("dev"), nodes=2)
    users = [f"user{number}" for number in range(5)]
    for user in users:
        bound = replace(an_allocation(f"{user}-old", "n0", vcore=1), application=ApplicationId(user))
        scenario.send(ApplicationAdded(unknown(user, user=user, forced=True)), AllocationReported(bound))
    scenario.submit(an_application("other", user="lee"), an_ask("waits", vcore=50_000))
    scheduling, other = scenario.partition.scheduling, ApplicationId("other")
    for user in users:
        step(scenario.scheduler_state, GroupsResolved(PARTITION, user, ("dev",)), scenario.now_ns)
        assert other not in scheduling.requeued
    requeue_some(scenario.partition)
    assert other in scheduling.requeued
