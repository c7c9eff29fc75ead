"""The registration: only own objects fail closed, and changes by others are reverted."""

import base64
from dataclasses import dataclass
from typing import Any

import pytest

from muster_operator.kube.session import KubeSession
from muster_operator.model.errors import ApiRefused
from muster_operator.model.names import ANNOTATION_USER_INFO, INTERNAL_PREFIX
from muster_operator.webhook import registration
from muster_operator.webhook.certificates import split
from muster_operator.webhook.context import KINDS, MusterIdentity
from muster_operator.webhook.registration import (
    MUTATING,
    NAME,
    VALIDATING,
    Registrar,
    Registration,
    WebhookClientConfig,
    bundle_of,
    mutating,
    validating,
)
from tests.unit.operator.webhook.cluster_peer import Peer, a_session
from tests.unit.operator.webhook.test_certificates import a_pair

OURS = MusterIdentity(frozenset({"muster", "yunikorn"}), "system:serviceaccount:muster:muster-operator", "muster")
CLIENT_CONFIG = WebhookClientConfig("muster", service="muster-webhook")
PATHS = [f"{path}/{NAME}" for path in (MUTATING, VALIDATING)]
PEMS = tuple(one.pem for one in a_pair())
Json = dict[str, Any]


def hooks(configuration: Json) -> dict[str, Json]:
    return {hook["name"].partition(".")[0]: hook for hook in configuration["webhooks"]}


def registrar(session: KubeSession, *, by_manifest: bool = False) -> Registrar:
    return Registrar(session, Registration(CLIENT_CONFIG, OURS, by_manifest))


async def reconcile(registrar: Registrar, bundle: tuple[bytes, ...]) -> None:
    await registrar.keep(await registrar.read(), bundle)


def test_own_webhooks_fail_closed_and_others_fail_open_with_a_short_timeout() -> None:
    for name, hook in hooks(mutating(CLIENT_CONFIG, OURS, PEMS)).items():
        is_ours = name.startswith("own-")
        assert hook["failurePolicy"] == ("Fail" if is_ours else "Ignore"), name
        assert hook["timeoutSeconds"] == (5 if is_ours else 2), name
        assert hook["clientConfig"]["service"]["path"] == ("/mutate" if is_ours else "/mutate/others"), name
        # A second call would find the user's name that the first one wrote, and refuse it.
        assert hook["reinvocationPolicy"] == "Never"
    [hook] = validating(CLIENT_CONFIG, OURS, PEMS)["webhooks"]
    assert (hook["failurePolicy"], hook["clientConfig"]["service"]["path"]) == ("Ignore", "/validate-conf")


def test_the_webhook_covers_creation_and_update_of_every_kind() -> None:
    covered = {
        (group, resource, operation)
        for name, hook in hooks(mutating(CLIENT_CONFIG, OURS, PEMS)).items()
        if name.startswith("own-")
        for rule in hook["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }
    wanted = {(kind.group, kind.resource, did) for kind in KINDS.values() for did in ("CREATE", "UPDATE")}
    # A pod's annotations can be changed through its subresources too, and come with its binding.
    ways = {("", "pods/*", "UPDATE"), ("", "pods/binding", "CREATE"), ("", "bindings", "CREATE")}
    assert covered == wanted | ways


def test_the_control_plane_and_the_own_namespace_are_excluded() -> None:
    for hook in mutating(CLIENT_CONFIG, OURS, PEMS)["webhooks"]:
        [expression] = hook["namespaceSelector"]["matchExpressions"]
        assert expression == {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-node-lease", "kube-system", "muster"],
        }
        conditions = {one["name"]: one["expression"] for one in hook["matchConditions"]}
        assert conditions["not-of-muster"] == f"request.userInfo.username != '{OURS.account}'"
        assert "system:nodes" in conditions["not-of-a-kubelet"]
        # Labels are users' to write, so no condition and no selector looks at one.
        assert hook["objectSelector"] == {}
        assert not any(".labels" in expression for expression in conditions.values())


def test_match_conditions_cover_every_guarded_annotation() -> None:
    for name, hook in hooks(mutating(CLIENT_CONFIG, OURS, PEMS)).items():
        record_registered = "".join(one["expression"] for one in hook["matchConditions"])
        assert all(key in record_registered for key in (ANNOTATION_USER_INFO, INTERNAL_PREFIX)) or name == "pods", name


def test_an_operator_outside_of_the_cluster_is_found_by_its_url() -> None:
    client_config = WebhookClientConfig("muster", url="https://10.0.0.1:9089/")
    [hook] = validating(client_config, OURS, PEMS)["webhooks"]
    assert hook["clientConfig"]["url"] == "https://10.0.0.1:9089/validate-conf"
    assert "service" not in hook["clientConfig"]
    assert split(bundle_of(validating(client_config, OURS, PEMS))) == PEMS


def test_two_musters_register_next_to_each_other() -> None:
    for own_namespace, name in (("muster", NAME), ("gangs", f"{NAME}-gangs")):
        ours = MusterIdentity(OURS.scheduler_names, OURS.account, own_namespace)
        assert {make(CLIENT_CONFIG, ours, PEMS)["metadata"]["name"] for make in (mutating, validating)} == {name}


async def test_the_registration_is_created_once_and_not_written_again() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        await reconcile(registrar(session), PEMS)
        assert peer.writes == [f"POST {path}" for path in PATHS]
        await reconcile(registrar(session), PEMS)
        assert (await registrar(session).read()).authorities == (PEMS, PEMS)
    assert len(peer.writes) == 2


@dataclass
class DefaultingPeer(Peer):
    """Adds a field to each webhook that is written, as a later API server or an admission webhook of a cloud does."""

    def put(self, path: str, thing: dict[str, Any]) -> dict[str, Any]:
        return super().put(path, {**thing, "webhooks": [{**hook, "later": 1} for hook in thing["webhooks"]]})


async def test_fields_that_the_api_server_adds_to_the_webhooks_cause_no_further_writes() -> None:
    peer = DefaultingPeer()
    async with a_session(peer) as session:
        ours = registrar(session)
        for _ in range(3):
            await reconcile(ours, PEMS)
        assert len(peer.writes) == 2
        peer.put(PATHS[0], {**peer.objects[PATHS[0]], "webhooks": []})
        await reconcile(ours, PEMS)
        await reconcile(ours, PEMS)
    assert peer.writes[2:] == [f"PUT {PATHS[0]}"], "a change of another client is reverted once"


@pytest.mark.parametrize("field, value", [("failurePolicy", "Ignore"), ("namespaceSelector", {}), ("rules", [])])
async def test_changed_webhooks_are_restored_and_added_annotations_stay(field: str, value: object) -> None:
    peer = Peer()
    async with a_session(peer) as session:
        await reconcile(registrar(session), PEMS)
        existing = peer.objects[PATHS[0]]
        labels = {**existing["metadata"]["labels"], "team": "infra"}
        peer.put(
            PATHS[0],
            {
                **existing,
                "metadata": {**existing["metadata"], "annotations": {"team": "infra"}, "labels": labels},
                "webhooks": [{**existing["webhooks"][0], field: value}, *existing["webhooks"][1:]],
            },
        )
        await reconcile(registrar(session), PEMS)
    assert peer.writes[2:] == [f"PUT {PATHS[0]}"]
    assert peer.objects[PATHS[0]]["webhooks"] == existing["webhooks"]
    assert peer.objects[PATHS[0]]["metadata"]["labels"] == {**existing["metadata"]["labels"], "team": "infra"}
    assert peer.objects[PATHS[0]]["metadata"]["annotations"] == {"team": "infra"}


async def test_injected_authorities_stay_if_muster_has_none() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        await reconcile(registrar(session), ())
        injected = base64.b64encode(PEMS[0]).decode()
        existing = peer.objects[PATHS[0]]
        changed = [
            {**hook, "clientConfig": {**hook["clientConfig"], "caBundle": injected}} for hook in existing["webhooks"]
        ]
        peer.put(PATHS[0], {**existing, "webhooks": changed})
        await reconcile(registrar(session), ())
    assert len(peer.writes) == 2


async def test_only_the_authorities_of_a_manifest_registration_are_written() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        ours = registrar(session, by_manifest=True)
        with pytest.raises(ApiRefused, match=r"deploy/webhooks\.yaml"):
            await reconcile(ours, PEMS)
        for path, made in zip(
            PATHS, (mutating(CLIENT_CONFIG, OURS, ()), validating(CLIENT_CONFIG, OURS, ())), strict=True
        ):
            peer.put(path, {**made, "webhooks": [{**hook, "timeoutSeconds": 9} for hook in made["webhooks"]]})
        await reconcile(ours, PEMS)
        await reconcile(ours, PEMS)
    assert peer.writes == [f"PUT {path}" for path in PATHS]
    for path in PATHS:
        assert {hook["timeoutSeconds"] for hook in peer.objects[path]["webhooks"]} == {9}
        assert split(registration.bundle_of(peer.objects[path])) == PEMS


async def test_a_write_conflict_does_not_overwrite_the_newer_registration() -> None:
    peer = Peer()
    async with a_session(peer) as session:
        await reconcile(registrar(session), PEMS)
        peer.put(PATHS[0], {**peer.objects[PATHS[0]], "webhooks": []})
        theirs = {**peer.objects[PATHS[0]], "metadata": {"name": NAME, "labels": {"theirs": "x"}}}
        peer.rivals.append((PATHS[0], theirs))
        await reconcile(registrar(session), PEMS)
        assert peer.objects[PATHS[0]]["metadata"]["labels"] == {"theirs": "x"}
        await reconcile(registrar(session), PEMS)
    assert peer.objects[PATHS[0]]["webhooks"]
