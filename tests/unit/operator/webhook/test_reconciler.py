"""Certificates and the registration are reconciled periodically; errors are reported and retried."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from muster_operator.kube.session import KubeSession, LeadershipGuard
from muster_operator.model.errors import StartupRefused
from muster_operator.webhook.certificates import (
    RETIRE,
    SECRET,
    SETTLE,
    AuthoritySecret,
    BadCertificate,
    Leaf,
    issue,
    split,
)
from muster_operator.webhook.registration import MUTATING, NAME, Registrar, Registration, bundle_of, discover_api
from muster_operator.webhook.service import GivenSource, OwnSource, WebhookReconciler
from tests.unit.operator.kube.apiserver import ApiServer, FixedCredentials, reply, serving, status
from tests.unit.operator.webhook.cluster_peer import Peer, a_session
from tests.unit.operator.webhook.test_certificates import HOST, a_pair, accepts
from tests.unit.operator.webhook.test_registration import CLIENT_CONFIG, OURS

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SECRET_PATH = f"/api/v1/namespaces/muster/secrets/{SECRET}"


class Replica:
    """A keeper and what it serves."""

    def __init__(self, session: KubeSession) -> None:
        self.served: list[Leaf] = []
        source = OwnSource(AuthoritySecret(session, "muster"), [HOST])
        self.keeper = WebhookReconciler(
            source, Registrar(session, Registration(CLIENT_CONFIG, OURS)), self.served.append
        )

    async def at(self, now: datetime) -> Leaf:
        await self.keeper.attempt(now)
        return self.served[-1]


def trusted(peer: Peer) -> tuple[bytes, ...]:
    return split(bundle_of(peer.objects[f"{MUTATING}/{NAME}"]))


async def test_a_starting_replica_is_registered_after_one_attempt() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        replica = Replica(session)
        assert replica.keeper.missing == "there is no certificate yet"
        leaf = await replica.at(NOW)
        assert replica.keeper.missing == ""
    assert accepts(trusted(peer), leaf, NOW)


async def test_two_replicas_stay_trusted_for_a_year_and_after_a_lost_secret() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        replicas = [Replica(session), Replica(session)]
        now = NOW
        for day in range(0, 400, 9):
            now = NOW + timedelta(days=day)
            if day == 351:
                peer.put(SECRET_PATH, {**peer.objects[SECRET_PATH], "data": {}})
            for second in (0, 6):
                for replica in replicas:
                    leaf = await replica.at(now + second * SECOND)
                    assert all(accepts(trusted(peer), one.served[-1], now) for one in replicas if one.served), day
                    assert replica.keeper.missing == ""
                    assert leaf.not_after > now
    assert len(replicas[0].served) > 15
    assert len(trusted(peer)) <= 4


async def test_a_new_certificate_is_served_only_after_its_authorities_are_trusted() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        replica = Replica(session)
        first = await replica.at(NOW)
        del peer.objects[SECRET_PATH]
        assert await replica.at(NOW + SECOND) is first
        assert set(first.authorities) < set(trusted(peer))
        second = await replica.at(NOW + SETTLE + SECOND)
        assert second is not first
        await replica.at(NOW + SECOND + RETIRE)
        assert set(trusted(peer)) == set(second.authorities)


async def test_without_permissions_the_current_certificate_is_served_and_rbac_yaml_is_named() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        replica = Replica(session)
        first = await replica.at(NOW)
        peer.denied.add("GET")
        assert await replica.at(NOW + SECOND) is first
        assert replica.keeper.missing == ""
        fresh = Replica(session)
        await fresh.keeper.attempt(NOW)
        assert "deploy/rbac.yaml" in fresh.keeper.missing


async def test_a_standby_serves_what_the_leader_registered_and_writes_nothing() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        behind_the_guard = KubeSession(
            FixedCredentials(session._credentials.current().server, ["t"]), LeadershipGuard()
        )
        standby, leader = Replica(behind_the_guard), Replica(session)
        assert standby.keeper.missing == "there is no certificate yet"
        provisional = await standby.at(NOW)
        assert standby.keeper.missing == "", "a rolling update that enables the webhook waits for a ready standby"
        assert await standby.at(NOW) is provisional
        assert peer.writes == []
        await leader.at(NOW)
        written = list(peer.writes)
        leaf = await standby.at(NOW + SECOND)
        assert standby.keeper.missing == ""
        assert accepts(trusted(peer), leaf, NOW)
        assert peer.writes == written
        del peer.objects[SECRET_PATH]
        await leader.at(NOW + 2 * SECOND)
        registered = peer.objects[f"{MUTATING}/{NAME}"]
        drifted = [{**hook, "timeoutSeconds": 9} for hook in registered["webhooks"]]
        peer.put(f"{MUTATING}/{NAME}", {**registered, "webhooks": drifted})  # the task of the leader, which has stopped
        written = list(peer.writes)
        assert await standby.at(NOW + 3 * SECOND) is leaf
        assert await standby.at(NOW + 3 * SECOND + SETTLE) is not leaf
        peer.put(f"{MUTATING}/{NAME}", {"metadata": {"name": NAME}, "webhooks": []})
        await standby.keeper.attempt(NOW + 30 * SECOND)
        assert standby.keeper.missing == "not registered yet"
        await behind_the_guard.close()
    assert peer.writes == written


async def test_provided_files_are_reloaded_on_change_and_rejected_if_they_do_not_match(tmp_path: Path) -> None:
    pair = a_pair()
    first, second = issue(pair, [HOST], NOW), issue(pair, [HOST], NOW)
    chain, key, authority = (tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt"))
    source = GivenSource(chain, key, authority)
    with pytest.raises(BadCertificate, match=r"tls\.crt"):
        await source.leaf(NOW)
    for leaf in (first, second):
        chain.write_bytes(leaf.chain)
        key.write_bytes(leaf.key)
        authority.write_bytes(b"".join(leaf.authorities))
        read = await source.leaf(NOW)
        assert read is not None
        assert read.chain == leaf.chain
        assert await source.leaf(NOW) is read
    key.write_bytes(first.key)
    with pytest.raises(BadCertificate, match="does not match"):
        await source.leaf(NOW)


async def test_a_replica_waits_for_a_leader_to_renew_expired_authorities() -> None:
    """The first attempt precedes the lease, so an operator that exited then would never get the lease."""
    peer = Peer()
    async with a_session(peer) as session:
        await Replica(session).at(NOW)
        guard = LeadershipGuard()
        own = KubeSession(FixedCredentials(session._credentials.current().server, ["t"]), guard)
        starting = Replica(own)
        later = NOW + timedelta(days=400)
        await starting.keeper.attempt(later)
        assert starting.served == []
        assert starting.keeper.missing == "there is no certificate yet"
        guard.open_until(float("inf"))
        leaf = await starting.at(later + SECOND)
        await own.close()
    assert accepts(trusted(peer), leaf, later)


# -- Checks before the registration: the own account, and whether the API server keeps match conditions.

WHO = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews"


async def introduction(server: ApiServer) -> str:
    """Discovery of a standby, which may only read."""
    async with serving(server):
        session = KubeSession(FixedCredentials(server.url, ["t"]), LeadershipGuard())
        try:
            return await discover_api(session)
        finally:
            await session.close()


async def test_the_api_server_reports_the_own_account() -> None:
    server = ApiServer()
    server.plan("GET /version", lambda: reply(200, {"major": "1", "minor": "28+"}))
    server.plan(WHO, lambda: reply(201, {"status": {"userInfo": {"username": "system:serviceaccount:muster:m"}}}))
    assert await introduction(server) == "system:serviceaccount:muster:m"


async def test_a_starting_api_server_is_queried_again() -> None:
    server = ApiServer()
    server.plan(
        "GET /version", lambda: status(503, "ServiceUnavailable"), lambda: reply(200, {"major": "1", "minor": "34"})
    )
    server.plan(WHO, lambda: reply(201, {"status": {"userInfo": {"username": "m"}}}))
    assert await introduction(server) == "m"


@pytest.mark.parametrize("minor", ["27", "24+"])
async def test_an_api_server_without_match_conditions_is_rejected_at_startup(minor: str) -> None:
    server = ApiServer()
    server.plan("GET /version", lambda: reply(200, {"major": "1", "minor": minor}))
    with pytest.raises(StartupRefused, match=r"needs Kubernetes 1\.28"):
        await introduction(server)
