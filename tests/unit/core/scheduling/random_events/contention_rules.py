"""Rules with situations that single random events rarely produce: queues compete, and maximums are lowered."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from muster_core.model.config import Configuration, QueueConfig
from muster_core.model.events import ApplicationAdded, AskAdded, ConfigurationReplaced
from muster_core.model.ids import NodeId
from muster_core.model.resources import Limit, Resources
from muster_core.model.specs import GangPlacement
from tests.unit.builders import SECOND, an_application, an_ask
from tests.unit.core.scheduling.random_events.base import Ground

_RICH = ("root.c", "root.p.a", "root.p.b", "root.fair", "root.turned")
_POOR = ("root.p.a", "root.p.b", "root.c", "root.turned.x")


class Contention(Ground):
    """Rules of contention."""

    @precondition(lambda self: self.nodes() and len(self.apps()) < 12)
    @rule(
        rich=st.sampled_from(_RICH),
        poor=st.sampled_from(_POOR),
        pods=st.integers(1, 3),
        members=st.sampled_from([0, 0, 2]),
        daemon=st.booleans(),
        held=st.sampled_from([0, 0, 2, 3, 6]),
    )
    def contend(  # long: each is drawn
        self, rich: str, poor: str, pods: int, members: int, held: int, *, daemon: bool
    ) -> None:
        """One queue uses or reserves the free resources. Another one, possibly below its guarantee, requests them."""
        first, second = self.new_name("rich"), self.new_name("poor")
        direct = GangPlacement.AUTO if pods == 2 else GangPlacement.DIRECT
        self.send(
            ApplicationAdded(
                an_application(first, queue=rich, user="user0", groups=("dev",), gang=held, placement=direct)
            ),
            *(AskAdded(an_ask(f"{first}-{index}", app=first, tags={"role": "y"})) for index in range(14 - held)),
        )
        asks = [an_ask(f"{second}-{index}", app=second, priority=index) for index in range(pods)]
        is_direct = bool(members) and held % 2 == 0
        if members:
            asks = [replace(ask, placeholder=True, group=_GROUP) for ask in asks[:members]]
        if daemon:
            asks.append(replace(an_ask(f"{second}-d", app=second), required_node=NodeId(self.nodes()[0])))
        spec = an_application(second, queue=poor, gang=members, user="user0", groups=("dev",))
        if is_direct:
            spec, asks = replace(spec, gang_placement=direct), [replace(ask, placeholder=False) for ask in asks]
        self.send(ApplicationAdded(spec), *(AskAdded(ask) for ask in asks))
        self.wait(4)

    @precondition(lambda self: self.apps() and not self.partition.is_closing)
    @rule(vcore=st.sampled_from([1_000, 2_000]), delay_s=st.sampled_from([1, 5]), seconds=st.sampled_from([0, 6]))
    def shrink(self, vcore: int, delay_s: int, seconds: int) -> None:
        """Lower the maximum of every leaf, so that quota preemption releases the excess."""
        rm = self.site.rm
        old = self.configurations[rm]
        shrunk = tuple(
            replace(one, quota_preemption=True, root=_shrunk(one.root, vcore, delay_s)) for one in old.partitions
        )
        self.configurations[rm] = Configuration(shrunk, old.timing)
        self.send(ConfigurationReplaced(rm, self.configurations[rm]))
        self.wait(seconds)


_GROUP = an_ask("any", group="workers").group


def _shrunk(queue: QueueConfig, vcore: int, delay_s: int) -> QueueConfig:
    if queue.children:
        return replace(queue, children=tuple(_shrunk(child, vcore, delay_s) for child in queue.children))
    guaranteed = Resources({name: min(amount, vcore) for name, amount in queue.guaranteed.items()})
    policies = replace(queue.policies, quota_preemption_delay_ns=delay_s * SECOND)
    return replace(queue, max=Limit({"vcore": vcore}), guaranteed=guaranteed, policies=policies, limits=())
