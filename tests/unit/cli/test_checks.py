"""The findings of `muster doctor` for objects of the API server."""

import base64
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from muster import checks, config, ignored_names, permissions, placeholders, printers
from muster.checks import Finding, Level
from muster.errors import Unreachable
from muster.permissions import Permission
from muster_operator.kube import leases as operators
from muster_operator.model import names, signing
from muster_operator.webhook import registration
from muster_operator.webhook.certificates import authority
from muster_operator.webhook.context import MusterIdentity
from tests.unit.repo.tree import ROOT

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
BOTH = frozenset({"muster", "yunikorn"})
Json = dict[str, Any]


def levels(found: Iterable[Finding]) -> list[Level]:
    return [finding.level for finding in found]


def only(found: Iterable[Finding]) -> Finding:
    [finding] = found
    return finding


# -- leader -------------------------------------------------------------------


def a_lease(holder: str, *, ago_s: float = 1, home: str = "muster", serves: str = "muster,yunikorn") -> Json:
    renewed = (NOW - timedelta(seconds=ago_s)).isoformat().replace("+00:00", "Z")
    state = operators.Lease(holder, 10, renewed, renewed)
    return operators.body(home, "muster", state, frozenset(serves.split(",")))


@pytest.mark.parametrize(
    "lease, level, expected",
    [
        (a_lease("pod-1"), Level.FINE, "pod-1 leads, for muster, yunikorn"),
        (a_lease(""), Level.PROBLEM, "no replica holds the Lease muster/muster"),
        (a_lease("pod-1", ago_s=75), Level.PROBLEM, "pod-1 holds the Lease muster/muster and is 65 s late to renew it"),
    ],
)
def test_a_lease_must_be_held_and_renewed(lease: Json, level: Level, expected: str) -> None:
    found = only(checks.check_leases([lease], [], "muster", NOW))
    assert (found.level, found.message) == (level, expected)


def test_a_missing_lease_is_a_warning() -> None:
    assert levels(checks.check_leases([], [], "muster", NOW)) == [Level.WARNING]


def a_name_lease(name: str, holder: str, *, ago_s: float = 1) -> Json:
    renewed = (NOW - timedelta(seconds=ago_s)).isoformat().replace("+00:00", "Z")
    state = operators.Lease(holder, 45, renewed, renewed)
    return operators.body("kube-system", f"muster-scheduler-{name}", state, frozenset({name}))


def test_another_live_muster_with_the_same_scheduler_name_is_a_problem() -> None:
    ours = a_lease("pod-1", serves="muster,yunikorn,old")
    of_names = [
        a_name_lease("muster", "muster/muster"),
        a_name_lease("old", "dead/muster", ago_s=99),
        a_name_lease("second", "beside/muster"),
        a_name_lease("yunikorn", "twice/muster"),
    ]
    found = list(checks.check_leases([ours], of_names, "muster", NOW))
    assert [finding.message for finding in found if finding.level is Level.PROBLEM] == [
        "another Muster, with the Lease twice/muster, serves yunikorn too"
    ]


def test_the_served_names_come_from_the_lease_of_this_installation() -> None:
    assert checks.served_names([a_lease("a", serves="mine")]) == {"mine"}
    assert checks.served_names([]) == BOTH


def test_the_lease_selector_matches_the_labels_of_the_operator() -> None:
    assert ",".join(f"{key}={value}" for key, value in operators.LABELS.items()) == checks.LEASE_SELECTOR
    assert checks.SERVES == operators.ANNOTATION_SERVES


# -- pods ---------------------------------------------------------------------


def a_pod(name: str, scheduler: str, *, phase: str = "Pending", **labels: str) -> Json:
    metadata = {"name": name, "namespace": "ns", "labels": labels}
    return {"metadata": metadata, "spec": {"schedulerName": scheduler}, "status": {"phase": phase}}


def a_member(name: str, scheduler: str, phase: str = "Pending") -> Json:
    pod = a_pod(name, scheduler, phase=phase)
    pod["metadata"]["annotations"] = {"yunikorn.apache.org/task-group-name": "workers"}
    return pod


def test_pods_with_muster_annotations_and_another_scheduler_are_reported_together() -> None:
    pods = [a_member(f"p{number}", "default-scheduler") for number in range(5)]
    pods += [a_member("good", "yunikorn"), a_pod("nothing", "default-scheduler"), a_member("over", "x", "Failed")]
    found = only(checks.check_scheduler_names(pods, BOTH))
    assert found.level is Level.PROBLEM
    assert found.message.startswith(
        "5 pods (ns/p0, ns/p1, ns/p2 and 2 more) with Muster's labels or annotations name scheduler default"
    )
    assert "muster or yunikorn" in found.remedy


def test_a_scheduler_name_that_resembles_a_served_one_is_reported_with_it() -> None:
    pods = [a_pod("mistyped", "mustr"), a_pod("other", "muster2"), a_pod("unlike", "volcano")]
    [found] = checks.check_scheduler_names(pods, BOTH, frozenset({"muster", "muster2"}))
    assert found.level is Level.PROBLEM
    assert "ns/mistyped" in found.message
    assert found.remedy == "set spec.schedulerName to muster and recreate the pods"


def test_an_unserved_scheduler_name_is_reported_like_a_foreign_one() -> None:
    assert levels(checks.check_scheduler_names([a_member("p", "yunikorn")], frozenset({"muster"}))) == [Level.PROBLEM]


def test_queues_that_placement_rules_replaced_are_one_warning_for_each_queue() -> None:
    apps: list[Json] = [{"namespace": "ns", "applicationID": f"a{n}", "requestedQueue": "root.x"} for n in range(4)]
    apps += [{"namespace": "ns", "applicationID": "b"}, {"applicationID": "c", "requestedQueue": None}]
    found = only(checks.check_queues([], BOTH, {}, apps))
    assert found.level is Level.WARNING
    assert found.message.startswith(
        "4 applications (ns/a0, ns/a1, ns/a2 and 1 more): queue root.x of the pods is ignored"
    )


def test_pods_of_a_rejected_application_are_reported_with_their_queue() -> None:
    pods = [a_pod("p", "muster", applicationId="job", queue="root.nowhere"), a_pod("q", "muster", applicationId="fine")]
    found = only(checks.check_queues(pods, BOTH, {("ns", "job"): "no rule"}))
    assert found.message == "1 pod (ns/p) of application job (queue root.nowhere), rejected: no rule"


# -- webhook ------------------------------------------------------------------


def a_configuration(bundle: Iterable[bytes], url: str = "", home: str = "muster") -> Json:
    client = registration.WebhookClientConfig(home, "" if url else "muster-webhook", url=url)
    return registration.mutating(
        client, MusterIdentity(BOTH, f"system:serviceaccount:{home}:muster-operator", home), bundle
    )


def webhook_findings(*configurations: Json, endpoints: Any) -> list[Finding]:
    own = permissions.admission_name("muster")
    return list(checks.check_webhooks(checks.webhook_endpoints(configurations, own), endpoints, NOW))


def a_bundle(ends: datetime) -> bytes:
    return authority(ends - timedelta(days=400), timedelta(days=400)).pem


LISTENING = {("muster", "muster-webhook"): [{"endpoints": [{"conditions": {"ready": True}}]}]}
SILENT = {("muster", "muster-webhook"): [{"endpoints": [{"conditions": {"ready": False}}]}]}
LATER = NOW + timedelta(days=300)


@pytest.mark.parametrize(
    "ends, endpoints, level, expected",
    [
        (LATER, LISTENING, Level.FINE, "muster-admission: service muster/muster-webhook is ready"),
        (LATER, SILENT, Level.PROBLEM, "service muster/muster-webhook has no ready endpoint"),
        (NOW - timedelta(hours=1), LISTENING, Level.PROBLEM, "the certificate authority expired on 2030-01-01"),
        (NOW + timedelta(days=2), LISTENING, Level.WARNING, "the certificate authority expires on 2030-01-03"),
    ],
)
def test_the_webhook_needs_an_endpoint_and_a_valid_certificate(
    ends: datetime, endpoints: Any, level: Level, expected: str
) -> None:
    found = only(webhook_findings(a_configuration([a_bundle(ends)]), endpoints=endpoints))
    assert found.level is level
    assert found.message.startswith(expected)


def test_a_webhook_registration_without_its_service_is_a_problem_with_a_remedy() -> None:
    for bundle in ([a_bundle(LATER)], [a_bundle(NOW - timedelta(days=1))]):
        found = only(webhook_findings(a_configuration(bundle), endpoints={}))
        assert found.level is Level.PROBLEM
        assert found.message == (
            "muster-admission is registered, but service muster/muster-webhook does not exist, so the API server "
            "rejects new pods that name Muster"
        )
        assert found.remedy == (
            "kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations muster-admission, "
            "or enable the webhook again (chart: webhook.enabled)"
        )


def test_one_valid_authority_of_two_is_sufficient() -> None:
    both = [a_bundle(NOW - timedelta(days=1)), a_bundle(LATER)]
    assert levels(webhook_findings(a_configuration(both), endpoints=LISTENING)) == [Level.FINE]


def test_a_missing_or_broken_ca_bundle_is_a_problem() -> None:
    none, broken = a_configuration([]), a_configuration([a_bundle(LATER)])
    for hook in broken["webhooks"]:
        hook["clientConfig"]["caBundle"] = base64.b64encode(b"nonsense").decode()
    for configuration in (none, broken):
        assert levels(webhook_findings(configuration, endpoints=LISTENING)) == [Level.PROBLEM]


def test_foreign_webhooks_are_ignored() -> None:
    other = {"metadata": {"name": "x"}, "webhooks": [{"name": "a.example.org", "clientConfig": {"url": "https://x"}}]}
    found = only(webhook_findings(other, endpoints={}))
    assert (found.level, found.message) == (Level.FINE, "not registered")


def test_a_webhook_with_a_url_needs_no_service() -> None:
    found = webhook_findings(a_configuration([a_bundle(LATER)], "https://muster:9089"), endpoints={})
    assert levels(found) == [Level.FINE]


def test_the_webhook_of_another_installation_is_ignored() -> None:
    other = a_configuration([a_bundle(NOW - timedelta(hours=1))], home="gangs")
    both = LISTENING | {("gangs", "muster-webhook"): []}
    alone = only(webhook_findings(other, endpoints=both))
    assert (alone.level, alone.message) == (Level.FINE, "not registered")
    own = only(webhook_findings(other, a_configuration([a_bundle(LATER)]), endpoints=both))
    assert own.message.startswith("muster-admission: service muster/muster-webhook is ready")


def test_a_registration_that_another_installation_left_behind_is_a_problem() -> None:
    found, none = webhook_findings(a_configuration([a_bundle(LATER)], home="gangs"), endpoints={})
    assert found.level is Level.PROBLEM
    assert "muster-admission-gangs is registered, but service gangs/muster-webhook does not exist" in found.message
    assert found.remedy.endswith("validatingwebhookconfigurations muster-admission-gangs")
    assert none.message == "not registered"


# -- user identity ------------------------------------------------------------


def a_policy_binding(policy: str, *actions: str) -> Json:
    return {"metadata": {"name": "x"}, "spec": {"policyName": policy, "validationActions": list(actions)}}


def test_users_are_verified_by_the_webhook_or_the_policy() -> None:
    name = "muster-admission"
    for has_webhook, is_enforced in ((True, False), (False, True)):
        found = checks.check_identity(name, has_webhook=has_webhook, is_enforced=is_enforced)
        assert levels(found) == [Level.FINE]
    unverified = only(checks.check_identity(name, has_webhook=False, is_enforced=False))
    assert unverified.level is Level.WARNING
    assert "users can set any yunikorn.apache.org/user.info" in unverified.message
    for fix in ("webhook.enabled=true", "admissionPolicy.enabled=true", "docs/operate/security.md"):
        assert fix in unverified.remedy


def test_a_policy_is_enforced_only_by_a_binding_that_denies() -> None:
    bindings = [a_policy_binding("other", "Deny"), a_policy_binding("muster-admission", "Warn", "Audit")]
    assert not checks.denies_by(bindings, "muster-admission")
    assert checks.denies_by([*bindings, a_policy_binding("muster-admission", "Deny")], "muster-admission")


def test_the_admission_policy_has_the_name_of_the_manifest() -> None:
    documents = list(yaml.safe_load_all((ROOT / "deploy/admission-policy.yaml").read_text()))
    assert {document["metadata"]["name"] for document in documents} == {permissions.admission_name("muster")}
    assert checks.denies_by(documents, permissions.admission_name("muster"))


# -- rights, other_schedulers, core -------------------------------------------------


def test_the_checked_permissions_match_the_manifest() -> None:
    documents = [item for item in yaml.safe_load_all((ROOT / "deploy/rbac.yaml").read_text()) if "rules" in item]
    written = {
        Permission(
            group,
            resource,
            verb,
            name,
            document["metadata"].get("namespace") == "muster",
            "kube-system" if document["metadata"].get("namespace") == "kube-system" else "",
        )
        for document in documents
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
    assert set(permissions.required(BOTH, has_webhook=True)) == written


def test_the_lease_permissions_match_the_names_of_the_installation() -> None:
    reviews = {
        (permission.name, permission.is_home, permission.namespace)
        for permission in permissions.required(["batch"], "two", has_webhook=True)
    }
    named = {one for one in reviews if one[0] not in {"", permissions.WEBHOOK_NAME, permissions.SIGNING}}
    assert named == {("muster-scheduler-batch", False, "kube-system"), ("two", True, "")}


def test_a_review_asks_for_the_operators_account_with_its_groups() -> None:
    spec = permissions.review(Permission("", "pods/status", "patch"), "batch", "op")["spec"]
    assert spec["user"] == "system:serviceaccount:batch:op"
    assert spec["resourceAttributes"] == {"verb": "patch", "group": "", "resource": "pods", "subresource": "status"}
    named = permissions.review(Permission(permissions.ADMISSION, "x", "get", permissions.WEBHOOK_NAME), "batch", "op")[
        "spec"
    ]
    assert named["resourceAttributes"]["name"] == "muster-admission-batch"


def test_webhook_permissions_are_required_only_with_a_webhook() -> None:
    everything, without = permissions.required(BOTH, has_webhook=True), permissions.required(BOTH, has_webhook=False)
    assert {right.resource for right in {*everything} - {*without}} == {
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "secrets",
    }


def test_every_missing_permission_is_reported() -> None:
    missing = [
        Permission("", "pods/binding", "create"),
        Permission("coordination.k8s.io", "leases", "get", "muster"),
    ]
    found = only(permissions.check_permissions("muster/muster-operator", missing, 53))
    assert found.message.endswith("may not create pods/binding, get leases.coordination.k8s.io muster")
    assert levels(permissions.check_permissions("a", [], 53)) == [Level.FINE]


def test_a_running_yunikorn_is_a_problem_if_muster_serves_its_name() -> None:
    deployment: Json = {"metadata": {"name": "yunikorn-scheduler", "namespace": "yunikorn"}, "spec": {"replicas": 1}}
    assert levels(checks.check_other_schedulers([deployment], [], BOTH)) == [Level.PROBLEM]
    assert levels(checks.check_other_schedulers([deployment], [], frozenset({"muster"}))) == [Level.WARNING]
    deployment["spec"]["replicas"] = 0
    assert levels(checks.check_other_schedulers([deployment], [a_pod("y", "x", phase="Failed")], BOTH)) == [Level.FINE]
    assert levels(checks.check_other_schedulers([], [a_pod("y", "x", phase="Running")], BOTH)) == [Level.PROBLEM]


def test_a_core_must_be_ready_and_healthy() -> None:
    health = {"HealthChecks": [{"Name": "Orphans", "Succeeded": False, "DiagnosisMessage": "two"}]}
    status: Json = {
        "core": "x",
        "ready": {"ready": True, "message": ""},
        "health": None,
        "partitions": [{"totalNodes": 1}],
    }
    assert levels(checks.check_core(status)) == [Level.FINE, Level.FINE]
    assert levels(checks.check_core(status | {"health": health})) == [Level.FINE, Level.WARNING]
    assert levels(checks.check_core(status | {"ready": {"ready": False, "message": "m"}})) == [
        Level.PROBLEM,
        Level.FINE,
    ]
    assert levels(checks.check_core(status | {"partitions": []})) == [Level.PROBLEM]


def test_the_summary_counts_the_findings() -> None:
    found = [
        {"check": "c", "level": level, "message": "s", "remedy": ""}
        for level in ("problem", "ok", "unknown", "problem")
    ]
    assert printers._summary(found) == "2 problems, 1 unknown"
    assert printers._summary(found[1:2]) == "no problems found"


# -- names --------------------------------------------------------------------


def a_named_pod(name: str, annotations: dict[str, str], scheduler: str = "muster") -> Json:
    return {
        "metadata": {"namespace": "dev", "name": name, "annotations": annotations},
        "spec": {"schedulerName": scheduler},
    }


def test_names_without_effect_and_lost_gangs_are_listed_once_with_their_objects() -> None:
    misspelt = {"yunikorn.apache.org/taskGroups": "[]"}
    pods = [
        *(a_named_pod(f"p{number}", misspelt) for number in range(5)),
        a_named_pod("lost", {"yunikorn.apache.org/task-groups": "[,]"}),
        a_named_pod("of-another-scheduler", misspelt, scheduler="other"),
    ]
    namespace = {"metadata": {"name": "dev", "annotations": {"yunikorn.apache.org/namespace.qouta": "{}"}}}
    on_namespace, on_pods, lost = ignored_names.check_names(pods, [namespace], BOTH)
    assert on_pods.message == (
        "pod dev/p0, pod dev/p1, pod dev/p2 and 2 more: annotation yunikorn.apache.org/taskGroups has no effect; "
        "did you mean yunikorn.apache.org/task-groups?"
    )
    assert on_namespace.message.startswith("namespace dev: annotation yunikorn.apache.org/namespace.qouta has no")
    assert lost.message.startswith("no gang for pod dev/lost: task-groups: is not JSON")
    assert levels([on_pods, on_namespace, lost]) == [Level.WARNING, Level.WARNING, Level.PROBLEM]


def test_the_configured_placement_is_that_of_an_invalid_one() -> None:
    groups = json.dumps([{"name": "w", "minMember": 1, "minResource": {"cpu": "1"}}])
    written = {
        "yunikorn.apache.org/task-groups": groups,
        "yunikorn.apache.org/schedulingPolicyParameters": "gangPlacement=Foo",
    }
    config_map = {"metadata": {"name": "muster-configs"}, "data": {"gang.placement": "Reserve", "kubernetes.qps": "x"}}
    settings = config.operator_settings([config_map])
    found, _ = ignored_names.check_names([a_named_pod("p", written)], [], BOTH, settings)
    assert "Reserve, the default, is used" in found.message


def test_an_invalid_user_and_contradicting_ids_are_listed() -> None:
    pod = a_named_pod("p", {"yunikorn.apache.org/user.info": "{ann}"})
    pod["metadata"]["labels"] = {"yunikorn.apache.org/app-id": "a", "applicationId": "b"}
    *found, _ = ignored_names.check_names([pod], [], BOTH)
    messages = [one.message for one in found]
    assert any("yunikorn.apache.org/user.info is ignored" in message for message in messages)
    assert any("applicationId" in message for message in messages)


def test_a_task_group_that_the_application_does_not_define_is_listed_with_the_near_name() -> None:
    define = {
        "yunikorn.apache.org/task-groups": json.dumps(
            [{"name": "workers", "minMember": 3, "minResource": {"cpu": "1"}}]
        )
    }
    of_app, key = {"yunikorn.apache.org/app-id": "train"}, "yunikorn.apache.org/task-group-name"
    pods = [
        a_named_pod("w0", of_app | define | {key: "workers"}),
        a_named_pod("w1", of_app | {key: "worker"}),
        a_named_pod("of-an-unseen-definition", {"yunikorn.apache.org/app-id": "other", key: "executors"}),
    ]
    found, lost = ignored_names.check_names(pods, [], BOTH)
    assert found.message == (
        "pod dev/w1: yunikorn.apache.org/task-group-name: worker is not a task group of application train, so the pod "
        "is not a member of the gang, and waits until the gang is complete. Did you mean workers? "
        "Valid task groups: workers"
    )
    assert levels([found, lost]) == [Level.WARNING, Level.FINE]


WORKERS = {
    "yunikorn.apache.org/app-id": "train",
    "yunikorn.apache.org/task-groups": '[{"name": "workers", "minMember": 2, "minResource": {"cpu": "1"}}]',
}


def a_requesting_pod(name: str, cpu: str, **annotations: str) -> Json:
    pod = a_named_pod(name, WORKERS | annotations)
    pod["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return pod


def test_pods_without_a_task_group_that_request_what_a_free_one_does_are_listed() -> None:
    pods = [a_requesting_pod(name, "1000m") for name in ("w0", "w1")] + [a_requesting_pod("driver", "2")]
    found, lost = ignored_names.check_names(pods, [], BOTH)
    assert found.message.startswith(
        "pod dev/w0, pod dev/w1: yunikorn.apache.org/task-group-name is missing, so the pod is in no task group of"
    )
    assert (found.message.endswith("set it to workers"), "driver" in found.message) == (True, False)
    assert levels([found, lost]) == [Level.WARNING, Level.FINE]


def test_a_full_task_group_wants_no_other_pods_and_placeholders_do_not_fill_it() -> None:
    key = "yunikorn.apache.org/task-group-name"
    ended = a_requesting_pod("w1", "1", **{key: "workers"}) | {"status": {"phase": "Succeeded"}}
    submitter, first = a_requesting_pod("submitter", "1"), a_requesting_pod("w0", "1", **{key: "workers"})
    assert levels(ignored_names.check_names([submitter, first, ended], [], BOTH)) == [Level.FINE] * 2
    reserved = a_requesting_pod("tg-w1", "1", **{key: "workers", names.ANNOTATION_PLACEHOLDER: "true"})
    assert levels(ignored_names.check_names([submitter, first, reserved], [], BOTH)) == [Level.WARNING, Level.FINE]


def test_all_problems_are_listed_and_wrong_values_are_not_called_names() -> None:
    parameters = {"yunikorn.apache.org/schedulingPolicyParameters": "gangPlacement=reserv"}
    names_of_all = [a_named_pod(f"p{n}", {f"yunikorn.apache.org/unknown-{n}": ""}) for n in range(20)]
    value = a_named_pod("p", WORKERS | parameters)
    *rest, lost = ignored_names.check_names([*names_of_all, value], [], BOTH)
    assert len(rest) == 21
    assert lost.level is Level.FINE
    [wrong] = [one for one in rest if "reserv" in one.message]
    assert "Auto, the default, is used" in wrong.message
    assert {one.remedy.partition(";")[0] for one in rest} == {"correct the name or value"}


@pytest.mark.parametrize("queues, is_named", [("", True), ("parent: {name: tag, value: namespace.parentqueue}", False)])
def test_a_parent_queue_that_no_placement_rule_reads_is_listed(queues: str, is_named: bool) -> None:  # noqa: FBT001
    namespace = {"metadata": {"name": "dev", "annotations": {"yunikorn.apache.org/parentqueue": "root.nosuch"}}}
    found, _ = ignored_names.check_names([], [namespace], BOTH, queues=queues)
    assert ("namespace dev: annotation yunikorn.apache.org/parentqueue has no effect" in found.message) is is_named


def test_a_gang_that_was_given_up_is_not_called_lost() -> None:
    pods = [a_requesting_pod(f"w{n}", "1", **{"yunikorn.apache.org/task-group-name": "workers"}) for n in range(2)]
    assert levels(ignored_names.check_names(pods, [], BOTH, without_gang={("dev", "train")})) == [Level.FINE] * 2


def test_without_such_names_both_checks_are_fine() -> None:
    fine_pod = a_named_pod("p", {"yunikorn.apache.org/app-id": "a"})
    assert levels(ignored_names.check_names([fine_pod], [{"metadata": {"name": "dev"}}], BOTH)) == [Level.FINE] * 2


# -- placeholders -------------------------------------------------------------


KEYS = signing.SigningKeys("muster", [b"k" * signing.KEY_BYTES])
OTHERS = signing.SigningKeys("muster", [b"o" * signing.KEY_BYTES])


def a_placeholder_pod(
    name: str, *, mark: str = placeholders.MARKS[0], signature: str = "", scheduler: str = "yunikorn"
) -> Json:
    annotations = {mark: "true", names.ANNOTATION_PLACEHOLDER_SIGNATURE: signature}
    metadata = {"namespace": "dev", "name": name, "uid": f"{name}-uid", "annotations": annotations}
    return {"metadata": metadata, "spec": {"schedulerName": scheduler}}


def a_signature(name: str, keys: signing.SigningKeys = KEYS) -> str:
    given = {"owner": "", "app": "", "group": "", "ordinal": "", "requests": ""}
    return keys.sign(signing.placeholder_texts(namespace="dev", name=name, **given))


def surveyed(*pods: Json) -> placeholders.Survey:
    return placeholders.survey(pods, BOTH, lambda: KEYS)


def no_keys() -> signing.SigningKeys:
    raise Unreachable("the API server", "403 secrets are forbidden")


def test_placeholders_without_a_valid_signature_are_listed() -> None:
    ours = a_placeholder_pod("ours", signature=a_signature("ours"))
    pods = [
        a_placeholder_pod("old", mark=placeholders.MARKS[1]),
        a_placeholder_pod("unsigned"),
        a_placeholder_pod("garbage", signature="anything"),
        a_placeholder_pod("copied", signature=a_signature("ours")),
        a_placeholder_pod("other", scheduler="other"),
        ours,
    ]
    survey = surveyed(*pods)
    assert [pod["metadata"]["name"] for pod in survey.unsigned] == ["old", "unsigned", "garbage", "copied"]
    assert survey.signed == [ours]
    found = only(placeholders.check_placeholders(survey))
    assert (found.level, found.message.split(" have")[0]) == (
        Level.WARNING,
        "dev/old, dev/unsigned, dev/garbage and 1 more",
    )
    assert levels(placeholders.check_placeholders(surveyed(ours))) == [Level.FINE]


def test_a_placeholder_of_an_unknown_key_is_reported_and_never_deleted() -> None:
    survey = surveyed(a_placeholder_pod("foreign", signature=a_signature("foreign", OTHERS)))
    assert (survey.signed, survey.unsigned, len(survey.unverified)) == ([], [], 1)
    found = only(placeholders.check_placeholders(survey))
    assert (found.level, "not in the Secret" in found.message) == (Level.WARNING, True)


def test_without_the_keys_no_signature_counts_as_valid_or_invalid() -> None:
    pods = [a_placeholder_pod("ours", signature=a_signature("ours")), a_placeholder_pod("unsigned")]
    survey = placeholders.survey(pods, BOTH, no_keys)
    assert [pod["metadata"]["name"] for pod in survey.unsigned] == ["unsigned"]
    assert levels(placeholders.check_placeholders(survey)) == [Level.WARNING, Level.UNKNOWN]
    assert placeholders.survey(pods[1:], BOTH, no_keys).error is None, "keys were read for nothing"


def test_the_secret_name_matches_the_operator() -> None:
    assert permissions.SIGNING == signing.SECRET
