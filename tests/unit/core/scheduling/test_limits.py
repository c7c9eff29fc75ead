"""Users and groups cannot use more of a queue than their limits."""

from collections.abc import Iterator

from muster_core.model.config import Timing
from muster_core.model.events import ConfigurationReplaced
from muster_core.model.ids import QueuePath
from muster_core.state.users import UserLedger
from tests.unit.builders import (
    RM,
    SECOND,
    a_configuration,
    a_limit,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.scenario import Scenario, placed, releases, states, waits

_REFUSED = "Not enough user quota: user kim in queue root.a, requested cpu 1, available 500m of 2500m"
_A = QueuePath("root.a")


def submit(
    scenario: Scenario, name: str, *, user: str = "kim", groups: tuple[str, ...] = (), queue: str = "root.a"
) -> None:
    scenario.submit(an_application(name, user=user, groups=groups, queue=queue))


def request_pods(scenario: Scenario, app: str, count: int, vcore: int = 1000) -> list[str]:
    """Send `count` requests, and return the keys of those that are allocated immediately."""
    return sorted(placed(scenario.ask(*(an_ask(f"{app}{index}", app=app, vcore=vcore) for index in range(count)))))


def users(scenario: Scenario) -> UserLedger:
    return scenario.partition.users


def test_a_user_gets_no_more_than_the_limit_and_the_reason_names_the_limit() -> None:
    scenario = Scenario(a_configuration(a_queue("a", limits=(a_limit(users=("kim",), vcore=2500),))), nodes=4)
    submit(scenario, "x")
    effects = scenario.ask(*(an_ask(f"x{index}", app="x") for index in range(3)))
    assert placed(effects).keys() == {"x0", "x1"}
    assert waits(effects) == {
        "x2": (
            "SKIPPED",
            _REFUSED,
        )
    }


def test_a_queue_maximum_is_reported_with_its_own_message() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=1000)), nodes=1)
    submit(scenario, "x")
    effects = scenario.ask(an_ask("x0", app="x"), an_ask("x1", app="x"))
    assert waits(effects)["x1"][1].startswith("Not enough queue quota: root.a, requested cpu 1, available 0 of 1")


def test_a_user_limit_counts_only_the_applications_of_the_user_below_the_queue() -> None:
    parent = a_queue("p", a_queue("a"), a_queue("b"), limits=(a_limit(users=("kim",), vcore=2000),))
    scenario = Scenario(a_configuration(parent), nodes=4)
    submit(scenario, "x", queue="root.p.a")
    submit(scenario, "y", queue="root.p.b")
    submit(scenario, "z", queue="root.p.b", user="lee")
    assert (request_pods(scenario, "x", 1), request_pods(scenario, "y", 2), request_pods(scenario, "z", 3)) == (
        ["x0"],
        ["y0"],
        ["z0", "z1", "z2"],
    )


def test_resources_that_a_user_releases_unblock_the_user_in_another_leaf() -> None:
    parent = a_queue("p", a_queue("a"), a_queue("b"), limits=(a_limit(users=("kim",), vcore=1000),))
    scenario = Scenario(a_configuration(parent), nodes=4)
    submit(scenario, "x", queue="root.p.a")
    submit(scenario, "y", queue="root.p.b")
    assert (request_pods(scenario, "x", 1), request_pods(scenario, "y", 1)) == (["x0"], [])
    assert placed(scenario.release("x0", "x")).keys() == {"y0"}


def test_the_wildcard_limit_applies_to_each_user_not_named() -> None:
    limits = (a_limit(users=("kim",), vcore=3000), a_limit(users=("*",), vcore=1000))
    scenario = Scenario(a_configuration(a_queue("a", limits=limits)), nodes=4)
    for name, user in (("x", "kim"), ("y", "lee"), ("z", "max")):
        submit(scenario, name, user=user)
    assert [len(request_pods(scenario, name, 4)) for name in ("x", "y", "z")] == [3, 1, 1]


def test_the_tightest_limit_of_the_path_binds() -> None:
    leaf = a_queue("a", limits=(a_limit(users=("kim",), vcore=3000),))
    scenario = Scenario(a_configuration(a_queue("p", leaf, limits=(a_limit(users=("*",), vcore=2000),))), nodes=4)
    submit(scenario, "x", queue="root.p.a")
    assert len(request_pods(scenario, "x", 4)) == 2


def test_a_limit_of_0_forbids_only_that_resource() -> None:
    scenario = Scenario(a_configuration(a_queue("a", limits=(a_limit(users=("kim",), vcore=0),))), nodes=1)
    submit(scenario, "x")
    assert request_pods(scenario, "x", 1) == []
    assert request_pods(scenario, "x", 1, vcore=0) == ["x0"]


def test_a_group_limit_is_shared_by_all_its_members() -> None:
    scenario = Scenario(a_configuration(a_queue("a", limits=(a_limit(groups=("dev",), vcore=2000),))), nodes=4)
    submit(scenario, "x", user="kim", groups=("dev",))
    submit(scenario, "y", user="lee", groups=("ops", "dev"))
    submit(scenario, "z", user="max", groups=("ops",))
    assert [len(request_pods(scenario, name, 2)) for name in ("x", "y", "z")] == [2, 0, 2]
    assert scenario.app("z").group == ""


def test_the_wildcard_group_limit_is_shared_by_all_other_users() -> None:
    limits = (a_limit(groups=("dev",), vcore=1000), a_limit(groups=("*",), vcore=2000))
    scenario = Scenario(a_configuration(a_queue("a", limits=limits)), nodes=4)
    submit(scenario, "x", user="kim", groups=("dev",))
    submit(scenario, "y", user="lee", groups=("ops",))
    submit(scenario, "z", user="max")
    assert [len(request_pods(scenario, name, 2)) for name in ("x", "y", "z")] == [1, 2, 0]


def test_the_group_is_the_first_that_the_nearest_queue_names_and_does_not_change() -> None:
    leaf = a_queue("a", limits=(a_limit(groups=("ops",), vcore=9000), a_limit(groups=("dev",), vcore=9000)))
    above = a_queue("p", leaf, limits=(a_limit(groups=("qa",), vcore=9000),))
    scenario = Scenario(a_configuration(above), nodes=4)
    for name, groups in (("x", ("qa", "dev", "ops")), ("y", ("qa",)), ("z", ("none",))):
        submit(scenario, name, groups=groups, queue="root.p.a")
        request_pods(scenario, name, 1)
    assert [scenario.app(name).group for name in ("x", "y", "z")] == ["ops", "qa", ""]
    scenario.reload(a_configuration(a_queue("p", a_queue("a"))))
    assert request_pods(scenario, "x", 2) == ["x1"]
    assert scenario.app("x").group == "ops"
    assert users(scenario).groups["ops"][QueuePath("root.p")].allocated["vcore"] == 2000


def test_user_and_group_both_bind() -> None:
    limits = (a_limit(users=("*",), vcore=1000), a_limit(groups=("dev",), vcore=1500))
    scenario = Scenario(a_configuration(a_queue("a", limits=limits)), nodes=4)
    submit(scenario, "x", user="kim", groups=("dev",))
    submit(scenario, "y", user="lee", groups=("dev",))
    assert (len(request_pods(scenario, "x", 2)), len(request_pods(scenario, "y", 2))) == (1, 0)
    assert request_pods(scenario, "y", 3, vcore=500) == ["y0"]


def test_a_raised_limit_applies_immediately_and_a_lowered_one_releases_nothing() -> None:
    def sized(vcore: int) -> ConfigurationReplaced:
        return ConfigurationReplaced(RM, a_configuration(a_queue("a", limits=(a_limit(users=("kim",), vcore=vcore),))))

    scenario = Scenario(sized(1000).configuration, nodes=4)
    submit(scenario, "x")
    assert request_pods(scenario, "x", 4) == ["x0"]
    assert len(placed(scenario.send(sized(3000)))) == 2
    assert releases(scenario.send(sized(1000))) == {}
    assert placed(scenario.release("x0", "x")) == {}
    assert users(scenario).users["kim"][_A].allocated == resources(vcore=2000, pods=2)


def test_recovered_usage_counts_even_over_the_limit() -> None:
    scenario = Scenario(a_configuration(a_queue("a", limits=(a_limit(users=("kim",), vcore=1000),))))
    submit(scenario, "x")
    scenario.add_node("n0", an_allocation("old", "n0", app="x", vcore=2500))
    assert request_pods(scenario, "x", 1) == []
    scenario.release("old", "x")
    assert users(scenario).users["kim"][_A].allocated == resources(vcore=1000, pods=1)


def test_user_and_group_usage_is_deleted_when_it_is_empty() -> None:
    scenario = Scenario(a_configuration(a_queue("a", limits=(a_limit(groups=("dev",), vcore=9000),))), nodes=1)
    submit(scenario, "x", groups=("dev",))
    request_pods(scenario, "x", 2)
    assert users(scenario).groups.keys() == {"dev"}
    scenario.remove("x")
    assert (users(scenario).users, users(scenario).groups) == ({}, {})


def test_an_ask_for_many_allocations_stops_at_the_limit_and_continues_as_they_finish() -> None:
    scenario = Scenario(a_configuration(a_queue("a", limits=(a_limit(users=("kim",), vcore=2000),))), nodes=4)
    submit(scenario, "x")
    effects = scenario.ask(an_ask("many", app="x", count=3, timeout_s=30))
    assert len(scenario.app("x").allocations) == 2
    assert waits(effects)["many"][1].startswith("Not enough user quota: user kim")
    assert set(releases(scenario.wait(31)).values()) == {"TIMEOUT"}
    assert placed(scenario.release("many", "x", identity="many-0")).keys() == {"many"}
    assert not scenario.app("x").asks


def test_a_gang_reserves_the_rest_of_its_user_limit_before_other_asks_of_the_user() -> None:
    limit = a_limit(users=("kim",), vcore=4000)
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b"), limits=(limit,)), nodes=1, vcore=2000)
    scenario.add_full_node()
    scenario.gang(an_application("gang", gang=4), 4)
    submit(scenario, "x", queue="root.b")
    assert scenario.app("gang").gang.quota_reservation == resources(vcore=2000, pods=2)
    scenario.add_node("n1", vcore=1500)  # a member takes 1000 of it
    effects = scenario.ask(an_ask("x0", app="x", vcore=500))
    assert waits(effects)["x0"][1].startswith(
        "Not enough user quota: user kim in queue root, requested cpu 500m, available 0 of 4"
    )
    assert states(scenario.add_node("n2", vcore=4000), "gang") == ["Running"]


def test_two_gangs_of_one_user_both_finish_one_after_the_other() -> None:
    limit = a_limit(users=("kim",), vcore=3000)
    timing = Timing(starvation_age_ns=60 * SECOND)
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b"), limits=(limit,), timing=timing), nodes=4)
    scenario.gang(an_application("one", gang=2), 2)
    waiting = scenario.gang(an_application("two", gang=2, queue="root.b"), 2)
    scenario.wait(61)
    assert {why.partition(":")[0] for _, why in waits(waiting).values()} == {"Not enough user quota"}
    freed = [effect for index in range(2) for effect in scenario.release(f"one-p{index}", "one")]
    assert states(freed, "two") == ["Running"]


class ComparedGroup(str):
    """A group name that counts how often it is compared."""

    compared = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        ComparedGroup.compared += 1
        return str.__eq__(self, other)


class ReadGroups(tuple[str, ...]):
    """The groups of a user. Counts how often all of them are read."""

    read = 0
    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        ReadGroups.read += 1
        return super().__iter__()


def test_d12_the_group_of_a_waiting_application_is_looked_up_once_in_a_set() -> None:
    limits = tuple(a_limit(groups=(f"g{index}",), vcore=1000) for index in range(50))
    scenario = Scenario(a_configuration(a_queue("a", limits=limits)), nodes=1)
    spec = an_application("x", groups=ReadGroups(ComparedGroup(f"ldap{index}") for index in range(200)))
    scenario.submit(spec)
    read, compared = ReadGroups.read, ComparedGroup.compared
    for index in range(20):  # each attempt fails
        scenario.ask(an_ask(f"x{index}", app="x", vcore=5000 + index))
    assert ReadGroups.read <= read + 1
    assert ComparedGroup.compared == compared


def test_d12_a_group_limit_that_is_added_later_applies_to_a_waiting_application() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    submit(scenario, "x", groups=("dev",))
    request_pods(scenario, "x", 1, vcore=5000)
    assert scenario.app("x").group is None
    assert users(scenario).group_of(scenario.app("x")) == ""
    limited = a_configuration(a_queue("a", limits=(a_limit(groups=("dev",), vcore=1000),)))
    scenario.reload(limited)
    assert users(scenario).group_of(scenario.app("x")) == "dev"
    assert len(request_pods(scenario, "x", 3)) == 1
