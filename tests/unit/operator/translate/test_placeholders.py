"""The placeholder pod has exactly the fields of a YuniKorn placeholder, and a name derived from the member."""

import json
import re
from dataclasses import replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.pods import GangDefinition, GangSource, PlaceholderSpec, PodRef
from muster_operator.model.settings import Settings
from muster_operator.translate.gangs.dialects import read_gang
from muster_operator.translate.placeholders import placeholder_body, placeholder_name
from tests.unit.operator.controller.objects import Raw, a_group

OWNER = PodRef("dev", "w0", PodUid("uid-w0"))


def a_spec(app: str = "job", *, queue: str = "root.dev", **group: Any) -> PlaceholderSpec:
    source = GangSource(json.dumps([{**a_group(), **group}]), "gangSchedulingStyle=Soft")
    gang = read_gang(source)
    assert isinstance(gang, GangDefinition)
    name = placeholder_name(OWNER.uid, AppId(app), "workers", 0)
    return PlaceholderSpec(name, AppId(app), queue, gang.groups[0], OWNER, "muster", "high", ("pull",), source)


def body(spec: PlaceholderSpec, settings: Settings | None = None) -> Raw:
    return placeholder_body(spec, settings or Settings())


def test_the_placeholder_pod_matches_the_contract() -> None:
    spec = replace(a_spec(labels={"team": "x"}, annotations={"note": "y"}), ordinal=7, signature="v1:key:code")
    assert body(spec) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": spec.name,
            "namespace": "dev",
            "labels": {"team": "x", "yunikorn.apache.org/app-id": "job", "yunikorn.apache.org/queue": "root.dev"},
            "annotations": {
                "sidecar.istio.io/inject": "false",
                "linkerd.io/inject": "disabled",
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
                "note": "y",
                "internal.yunikorn.apache.org/placeholder": "true",
                "yunikorn.apache.org/task-group-name": "workers",
                "internal.yunikorn.apache.org/placeholder-ordinal": "7",
                "internal.yunikorn.apache.org/placeholder-requests": '{"cpu":"1","memory":"1Gi"}',
                "internal.yunikorn.apache.org/placeholder-signature": "v1:key:code",
                "yunikorn.apache.org/schedulingPolicyParameters": "gangSchedulingStyle=Soft",
            },
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": "w0",
                    "uid": "uid-w0",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "schedulerName": "muster",
            "restartPolicy": "Never",
            "hostNetwork": False,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "priorityClassName": "high",
            "imagePullSecrets": [{"name": "pull"}],
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "pause",
                    "image": "registry.k8s.io/pause:3.7",
                    "imagePullPolicy": "IfNotPresent",
                    "resources": {
                        "requests": {"cpu": "1", "memory": "1Gi"},
                        "limits": {"cpu": "1", "memory": "1Gi"},
                    },
                    "securityContext": {
                        "privileged": False,
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


def test_the_groups_pod_fields_are_copied() -> None:
    fields: dict[str, Any] = {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "topologySpreadConstraints": [{"maxSkew": 1}],
    }
    spec = body(a_spec(**fields))["spec"]
    assert {field: spec[field] for field in fields} == fields


def test_reserved_labels_and_annotations_override_those_of_the_task_group() -> None:
    metadata = body(
        a_spec(
            labels={"yunikorn.apache.org/app-id": "other", "yunikorn.apache.org/queue": "other"},
            annotations={
                "internal.yunikorn.apache.org/placeholder": "false",
                "internal.yunikorn.apache.org/binding-signature": "v1:key:code",
            },
        )
    )["metadata"]
    assert metadata["labels"] == {"yunikorn.apache.org/app-id": "job", "yunikorn.apache.org/queue": "root.dev"}
    assert metadata["annotations"]["internal.yunikorn.apache.org/placeholder"] == "true"
    assert "internal.yunikorn.apache.org/binding-signature" not in metadata["annotations"]


def test_a_queue_that_is_no_valid_label_value_is_an_annotation() -> None:
    metadata = body(a_spec(queue="root.a@b:c"))["metadata"]
    assert "yunikorn.apache.org/queue" not in metadata["labels"]
    assert metadata["annotations"]["yunikorn.apache.org/queue"] == "root.a@b:c"


def test_absent_fields_are_left_out_of_the_placeholder() -> None:
    spec = replace(a_spec(queue=""), priority_class="", image_pull_secrets=(), source=GangSource("[]"))
    raw = body(spec)
    assert raw["metadata"]["labels"] == {"yunikorn.apache.org/app-id": "job"}
    assert "yunikorn.apache.org/schedulingPolicyParameters" not in raw["metadata"]["annotations"]
    assert {"priorityClassName", "imagePullSecrets"}.isdisjoint(raw["spec"])


def test_configured_image_and_ids_are_used() -> None:
    settings = Settings(
        placeholder_image="pause", placeholder_run_as_user=1, placeholder_run_as_group=2, placeholder_fs_group=3
    )
    spec = body(a_spec(), settings)["spec"]
    assert spec["containers"][0]["image"] == "pause"
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsGroup"]) == (1, 2)
    assert spec["securityContext"]["fsGroup"] == 3


def test_placeholder_names_match_the_contract_and_are_deterministic() -> None:
    name = placeholder_name(PodUid("u"), AppId("a" * 40), "g" * 40, 3)
    assert re.fullmatch(r"tg-a{28}-g{20}-[a-z0-9]{10}", name)
    assert name == placeholder_name(PodUid("u"), AppId("a" * 40), "g" * 40, 3)


def test_ten_thousand_members_have_ten_thousand_names() -> None:
    assert len({placeholder_name(PodUid("u"), AppId("a"), "g", number) for number in range(10_000)}) == 10_000


def test_names_with_equal_prefixes_differ_by_owner_application_group_and_member() -> None:
    """Two applications with the same first 28 characters, two groups with the same 20, and a recreated gang."""
    owners, apps, groups = ("u1", "u2"), ("a" * 28, "a" * 29, "A" * 28), ("g" * 20, "g" * 21, "G" * 20)
    names = {
        placeholder_name(PodUid(owner), AppId(app), group, ordinal)
        for owner in owners
        for app in apps
        for group in groups
        for ordinal in range(50)
    }
    assert len(names) == len(owners) * len(apps) * len(groups) * 50


#: Texts with a longer lower-case form, which random texts rarely contain.
_LONG_IN_LOWER_CASE = st.text(alphabet="\u0130Aa-_.", max_size=60)


@example("\u0130" * 28, "\u0130" * 20)
@given(st.text(max_size=60) | _LONG_IN_LOWER_CASE, st.text(max_size=60) | _LONG_IN_LOWER_CASE)
def test_any_application_and_group_give_a_valid_pod_name(app: str, group: str) -> None:
    name = placeholder_name(PodUid("u"), AppId(app), group, 0)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name)
    assert len(name) <= 63


def test_a_task_group_can_enable_sidecar_injection_for_its_placeholders() -> None:
    spec = a_spec(annotations={"sidecar.istio.io/inject": "true"})
    annotations = placeholder_body(spec, Settings())["metadata"]["annotations"]
    assert annotations["sidecar.istio.io/inject"] == "true"
    assert annotations["linkerd.io/inject"] == "disabled"
