"""The chart renders for every choice, grants no more permissions than deploy/rbac.yaml, and its pods can start."""

import json
import subprocess
import tomllib
from collections.abc import Iterator

import pytest
import yaml
from typer.testing import CliRunner

from devcluster.binaries import ensure
from devcluster.programs import HELM
from muster.main import app as muster
from muster_core.main import app as muster_core
from muster_operator.main import app as muster_operator
from muster_operator.model.names import LABEL_ROLE, ROLE_LEADER
from muster_operator.model.settings import Settings
from tests.install.choices import CHOICES, Json, pods
from tools import chart
from tools.chart import CHART, ROOT
from tools.manifests import render

PROGRAMS = {"muster-core": muster_core, "muster-operator": muster_operator, "muster": muster}


def rights(roles: list[Json], kind: str) -> list[Json]:
    return [role for document in roles if document["kind"] == kind for role in document["rules"]]


def named(documents: list[Json], kind: str, name: str) -> Json:
    (found,) = [one for one in documents if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def closed_or_not(schema: Json) -> Iterator[Json]:
    """Yield every group of values at any depth."""
    if "properties" in schema:
        yield schema
    items = [schema["items"]] if "items" in schema else []
    for one in [*schema.get("properties", {}).values(), *items, *schema.get("anyOf", [])]:
        yield from closed_or_not(one)


def test_helm_lint_finds_no_problem() -> None:
    command = [str(ensure([HELM])["helm"]), "lint", "--strict", str(CHART)]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_copied_files_and_the_table_of_values_match_their_sources() -> None:
    assert chart.stale() == []


def test_chart_and_image_are_of_the_version_that_is_built() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (about["version"], about["appVersion"]) == (version, version)


def test_every_value_has_a_default_and_a_meaning_and_every_group_below_it_is_closed() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(schema["properties"]) - set(values) == {"global"}  # Helm adds it for parent charts
    assert set(values) <= set(schema["properties"])
    groups = [*closed_or_not(schema)]
    assert len(groups) > 20
    assert [group for group in groups[1:] if group.get("additionalProperties") is not False] == []
    told = [schema, *(group for group in schema["properties"].values() if "properties" in group)]
    assert all("description" in value for group in told for value in group["properties"].values())


@pytest.fixture
def plain_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print help without Rich, whose boxes take ten times as long as the check of the options."""
    monkeypatch.setattr("typer.core.HAS_RICH", False)


@pytest.mark.usefixtures("plain_help")
@pytest.mark.parametrize("choice", CHOICES)
def test_every_pod_of_every_choice_is_restricted_and_knows_its_options(choice: str) -> None:
    made = pods(render(CHOICES[choice]))
    assert made
    for pod in made:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            program, *arguments = container["command"] + container["args"]
            assert understands(program, arguments)


def understands(program: str, arguments: list[str]) -> bool:
    """Whether the program accepts these options: it prints its help instead of an error."""
    return CliRunner().invoke(PROGRAMS[program], [*arguments, "--help"]).exit_code == 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_unknown_option_is_rejected(program: str) -> None:
    assert not understands(program, ["smoke-test", "--colour=red"] if program == "muster" else ["--colour=red"])


def test_the_permissions_match_the_role_manifest() -> None:
    written = [*yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text())]
    made = render(CHOICES["webhook"], "muster", "--no-hooks")
    for kind in ("ClusterRole", "Role"):
        assert rights(made, kind) == rights(written, kind)


@pytest.mark.parametrize("key", ["settings", "yunikornDefaults"])
def test_the_permissions_for_provisioning_requests_need_the_setting(key: str) -> None:
    name = "muster-provisioning-requests"
    written = [*yaml.safe_load_all((ROOT / "deploy" / "provisioning-requests.yaml").read_text())]
    assert not [one for one in render({}, "muster", "--no-hooks") if one["metadata"]["name"] == name]
    values = {key: {"autoscaling.provisioningRequest": "check-capacity.autoscaling.x-k8s.io"}}
    made = [one for one in render(values, "muster", "--no-hooks") if one["metadata"]["name"] == name]
    for one, expected in zip(made, written, strict=True):
        assert {**one, "metadata": {"name": name}} == expected


@pytest.mark.parametrize("values", [{}, {"webhook": {"enabled": True}, "embedAdmissionController": False}])
def test_by_default_there_is_no_webhook_and_no_permission_for_registrations_and_its_secret(values: Json) -> None:
    made = render(values, "muster", "--no-hooks")
    assert "muster-webhook" not in {one["metadata"]["name"] for one in made}
    assert not [
        argument for pod in pods(made) for one in pod["containers"] for argument in one["args"] if "webhook" in argument
    ]
    rules = [rule for kind in ("ClusterRole", "Role") for rule in rights(made, kind)]
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert not resources & {"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
    assert "pods/binding" in resources
    named = [name for rule in rules if "secrets" in rule["resources"] for name in rule.get("resourceNames", [])]
    assert named == ["muster-signing"]


def test_cluster_scoped_objects_have_the_namespace_as_suffix() -> None:
    made = render({"admissionPolicy": {"enabled": True}, "webhook": {"enabled": True}}, "gangs")
    of_the_cluster = {one["metadata"]["name"] for one in made if "namespace" not in one["metadata"]}
    assert of_the_cluster
    assert all(name.endswith("-gangs") for name in of_the_cluster)
    assert {one["metadata"]["namespace"] for one in made if "namespace" in one["metadata"]} == {"gangs", "kube-system"}
    registered = [rule for rule in rights(made, "ClusterRole") if "mutatingwebhookconfigurations" in rule["resources"]]
    assert {name for rule in registered for name in rule.get("resourceNames", ["muster-admission-gangs"])} == {
        "muster-admission-gangs"
    }
    policy = json.dumps(named(made, "ValidatingAdmissionPolicy", "muster-admission-gangs"))
    assert "system:serviceaccount:gangs:muster-operator" in policy
    assert '["kube-system", "gangs"]' in policy


def test_webhook_and_probes_are_every_replicas_and_rest_is_that_of_the_one_that_leads() -> None:
    made = render({"replicas": 2, "webhook": {"enabled": True}})
    labels = named(made, "Deployment", "muster")["spec"]["template"]["metadata"]["labels"]
    (drawn, *_) = yaml.safe_load_all((ROOT / "deploy" / "webhooks.yaml").read_text())
    selectors = {one["metadata"]["name"]: one["spec"]["selector"] for one in made if one["kind"] == "Service"}
    rest = selectors.pop("muster")
    assert len(selectors) == 2
    assert all(selector.items() <= labels.items() for selector in [*selectors.values(), drawn["spec"]["selector"]])
    assert rest == selectors["muster-webhook"] | {LABEL_ROLE: ROLE_LEADER}
    assert LABEL_ROLE not in labels  # only the leading operator sets it


def test_the_rest_service_selects_the_separate_core() -> None:
    made = render(CHOICES["split webhook"])
    labels = named(made, "Deployment", "muster-core")["spec"]["template"]["metadata"]["labels"]
    assert named(made, "Service", "muster")["spec"]["selector"].items() <= labels.items()
    assert not named(made, "Service", "muster-webhook")["spec"]["selector"].items() <= labels.items()
    containers = named(made, "Deployment", "muster")["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["operator"]


def test_the_core_never_holds_the_operators_token() -> None:
    def mounts(values: Json) -> dict[str, set[str]]:
        pod = named(render(values), "Deployment", "muster")["spec"]["template"]["spec"]
        return {one["name"]: {mount["name"] for mount in one["volumeMounts"]} for one in pod["containers"]}

    for values in ({}, {"rest": {"kubernetesAuth": True}}):
        assert "token" in mounts(values)["operator"]
        assert "token" not in mounts(values)["core"]
    made = render({"rest": {"kubernetesAuth": True}})
    assert "core-token" in mounts({"rest": {"kubernetesAuth": True}})["core"]
    secret = named(made, "Secret", "muster-core-token")
    assert secret["metadata"]["annotations"] == {"kubernetes.io/service-account.name": "muster-core"}
    named(made, "ServiceAccount", "muster-core")
    [subject] = named(made, "ClusterRoleBinding", "muster-rest-auth")["subjects"]
    assert subject["name"] == "muster-core"


def test_one_replica_has_no_disruption_budget_and_two_have_one() -> None:
    assert not [one for one in render({}) if one["kind"] == "PodDisruptionBudget"]
    assert named(render({"replicas": 2}), "PodDisruptionBudget", "muster")["spec"]["maxUnavailable"] == 1


def test_queues_and_settings_are_written_as_text() -> None:
    data = named(render(CHOICES["queues"]), "ConfigMap", "muster-defaults")["data"]
    assert yaml.safe_load(data["queues.yaml"]) == CHOICES["queues"]["queues"]
    assert (data["service.clusterId"], data["log.level"]) == ("a", "0")


def test_without_queues_and_settings_no_config_map_hides_those_of_yunikorn() -> None:
    assert not [one for one in render({}) if one["kind"] == "ConfigMap"]


def test_dashboard_and_alerts_are_those_of_the_repository() -> None:
    made = render(CHOICES["monitoring"])
    monitoring = ROOT / "deploy" / "monitoring"
    dashboard = named(made, "ConfigMap", "muster-dashboard")["data"]["muster.json"]
    assert json.loads(dashboard) == json.loads((monitoring / "dashboard.json").read_text())
    assert (
        named(made, "PrometheusRule", "muster")["spec"]
        == yaml.safe_load((monitoring / "alerts.yaml").read_text())["spec"]
    )


def test_numbers_are_written_as_they_were_and_the_queues_go_where_the_policy_group_defines() -> None:
    settings = {"event.ringBufferCapacity": 1_000_000, "kubernetes.qps": 0.5, "service.policyGroup": "prod"}
    data = named(render({"settings": settings, "queues": {"partitions": []}}), "ConfigMap", "muster-defaults")["data"]
    assert (data["event.ringBufferCapacity"], data["kubernetes.qps"]) == ("1000000", "0.5")
    assert yaml.safe_load(data["prod.yaml"]) == {"partitions": []}


def test_a_change_of_what_is_read_at_the_start_begins_new_pods_and_no_other_does() -> None:
    def summed(settings: Json) -> str:
        template = named(render({"settings": settings}), "Deployment", "muster")["spec"]["template"]
        return str(template["metadata"]["annotations"].get("checksum/settings", ""))

    assert summed({}) == summed({"log.level": "DEBUG"}) == ""
    first, second = summed({"service.clusterId": "a"}), summed({"service.clusterId": "b"})
    assert "" != first != second != ""
    assert summed({"service.clusterId": "a", "log.level": "DEBUG"}) == first
    cold = {"service.enableConfigHotRefresh": False}
    assert summed(cold) != summed(cold | {"log.level": "DEBUG"})


def test_a_separate_core_has_an_account_with_only_the_token_review_permission() -> None:
    made = render(CHOICES["split rest"], "muster", "--no-hooks")
    account = named(made, "Deployment", "muster-core")["spec"]["template"]["spec"]["serviceAccountName"]
    bound = [one["roleRef"]["name"] for one in made if account in {s["name"] for s in one.get("subjects", ())}]
    assert bound == ["muster-rest-auth"]


def test_the_rollout_deadline_exceeds_the_startup_time() -> None:
    spec = named(render({"startupSeconds": 1200}), "Deployment", "muster")["spec"]
    probe = spec["template"]["spec"]["containers"][0]["startupProbe"]
    assert spec["progressDeadlineSeconds"] > probe["periodSeconds"] * probe["failureThreshold"] == 1200


def test_each_alert_links_to_its_row_in_the_documentation() -> None:
    groups = named(render(CHOICES["runbooks"]), "PrometheusRule", "muster")["spec"]["groups"]
    page = (ROOT / "docs" / "reference" / "events.md").read_text()
    rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert len(rules) > 20
    for rule in rules:
        address, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert address == "https://docs.example.com/events.html"
        assert f'<a id="{anchor}"></a>`{rule["alert"]}`' in page


def test_prometheus_sends_its_token_where_reads_are_closed() -> None:
    (rest, _) = named(render(CHOICES["monitoring of closed REST"]), "ServiceMonitor", "muster")["spec"]["endpoints"]
    assert rest["authorization"] == {"credentials": {"name": "prometheus", "key": "token"}}
    assert rest["scheme"] == "https"


def test_the_operator_alone_exports_traces_with_headers_of_a_secret() -> None:
    containers = {one["name"]: one for pod in pods(render(CHOICES["tracing"])) for one in pod["containers"]}
    variables = {one["name"]: one for one in containers["operator"]["env"]}
    assert "--tracing" in containers["operator"]["args"]
    assert variables["OTEL_EXPORTER_OTLP_ENDPOINT"]["value"] == "http://collector.monitoring:4317"
    assert variables["OTEL_EXPORTER_OTLP_HEADERS"]["valueFrom"] == {
        "secretKeyRef": {"name": "collector", "key": "headers"}
    }
    assert [*variables].index("POD_UID") < [*variables].index("OTEL_RESOURCE_ATTRIBUTES"), "it refers to earlier ones"
    assert "OTEL" not in json.dumps(containers["core"])


@pytest.mark.parametrize("choice", ["defaults", "webhook", "split webhook"])
def test_the_network_policy_opens_the_webhook_to_all_and_rest_to_clients_only(choice: str) -> None:
    made = render(CHOICES[choice], "muster", "--no-hooks")
    rules = named(made, "NetworkPolicy", "muster")["spec"]["ingress"]
    opened = {port["port"]: rule.get("from") for rule in rules for port in rule["ports"]}
    named_ports = {port["name"] for pod in pods(made) for one in pod["containers"] for port in one["ports"]}
    assert set(opened) == named_ports
    assert {name for name, clients in opened.items() if clients is None} == named_ports & {"webhook"}


def test_a_service_monitor_opens_the_network_policy_for_prometheus_only() -> None:
    def clients(values: Json) -> list[Json]:
        rules = named(render(values), "NetworkPolicy", "muster")["spec"]["ingress"]
        return [one for rule in rules if {"port": "rest"} in rule["ports"] for one in rule["from"]]

    prometheus = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
    }
    assert clients({}) == [{"podSelector": {}}]
    assert clients(CHOICES["monitoring"]) == [{"podSelector": {}}, prometheus]
    closed = {"monitoring": {"serviceMonitor": {"enabled": True, "clients": []}}}
    assert clients(closed) == [{"podSelector": {}}]


def expressions(values: Json, policy: str, namespace: str = "muster") -> dict[str, str]:
    """The variables of a policy that the chart renders, by name."""
    (found,) = [
        one
        for one in render(values, namespace)
        if one["kind"] == "ValidatingAdmissionPolicy" and one["metadata"]["name"] == policy
    ]
    return {entry["name"]: entry["expression"] for entry in found["spec"]["variables"]}


@pytest.mark.parametrize("key", ["systemUsers", "externalUsers", "externalGroups"])
def test_the_admission_policy_follows_the_settings_that_the_webhook_reads(key: str) -> None:
    settings = {f"admissionController.accessControl.{key}": "^ci-.*, it's \\d"}
    variables = expressions({"admissionPolicy": {"enabled": True}, "settings": settings}, "muster-admission")
    default = expressions({"admissionPolicy": {"enabled": True}}, "muster-admission")
    assert json.loads(variables[key]) == ["^ci-.*", "it's \\d"]
    assert {name for name in variables if variables[name] != default[name]} == {key}


@pytest.mark.parametrize("entry", ["settings", "yunikornDefaults"])
def test_the_policies_guard_the_scheduler_names_that_are_served(entry: str) -> None:
    values = {"admissionPolicy": {"enabled": True}, entry: {"service.schedulerNames": "batch, other"}}
    assert json.loads(expressions(values, "muster-admission")["schedulers"]) == ["batch", "other"]
    for policy in ("muster-operator", "muster-node-name", "muster-resize"):
        assert json.loads(expressions(values, policy)["schedulers"]) == ["batch", "other"]


def test_the_operators_policy_permits_the_placeholder_image_of_the_settings() -> None:
    default = expressions({}, "muster-operator")
    assert default["image"] == f"'{Settings().placeholder_image}'"
    settings = {"service.placeholderImage": "registry/pause:1"}
    values = {"settings": settings, "operatorPolicy": {"allowInjectedContainers": True}}
    changed = {"image": '"registry/pause:1"', "allowInjectedContainers": "true"}
    assert expressions(values, "muster-operator") == default | changed


def test_the_operators_policy_has_no_parameters_whose_absence_would_disable_it() -> None:
    """The API server evaluates a policy once per parameter object, so never if the object is missing."""
    rendered = render({})
    assert "paramKind" not in named(rendered, "ValidatingAdmissionPolicy", "muster-operator")["spec"]
    assert "paramRef" not in named(rendered, "ValidatingAdmissionPolicyBinding", "muster-operator")["spec"]


def test_the_operators_policy_is_about_the_account_of_this_installation() -> None:
    rendered = render({"serviceAccount": "gang-operator"}, "batch")
    policy = named(rendered, "ValidatingAdmissionPolicy", "muster-operator-batch")
    binding = named(rendered, "ValidatingAdmissionPolicyBinding", "muster-operator-batch")
    account = "system:serviceaccount:batch:gang-operator"
    [condition] = policy["spec"]["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == '{account}'"
    assert binding["spec"]["policyName"] == "muster-operator-batch"
    assert expressions({"serviceAccount": "gang-operator"}, "muster-operator-batch", "batch")["home"] == "'batch'"


def test_the_default_memory_limits_are_those_of_the_sizing_table_and_hold_twice_the_measured_peak() -> None:
    """The table in docs/operate/install.md has the number of pods and nodes for the defaults."""
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in (ROOT / "docs/operate/install.md")
        .read_text()
        .partition("| Nodes | Pods |")[2]
        .partition("\n\n")[0]
        .splitlines()[2:]
    ]
    [(nodes, pods_, peak, _, limit)] = [row for row in rows if row[-1].endswith("(default)")]
    assert (nodes, pods_) == ("5,000", "50,000")
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for container in ("operator", "core"):
        default = values[container]["resources"]["limits"]["memory"]
        assert f"{default} (default)" == limit
        assert int(default.removesuffix("Gi")) * 1024 >= 2 * int(peak.split()[0])
    assert "docs/operate/install.md#sizing" in (CHART / "values.yaml").read_text()
    assert "## Sizing" in (ROOT / "docs/operate/install.md").read_text()


def test_the_policy_for_node_names_is_on_by_default_and_follows_names_users_and_account() -> None:
    default = expressions({}, "muster-node-name")
    assert (json.loads(default["schedulers"].replace("'", '"')), default["users"]) == (["muster", "yunikorn"], "[]")
    values = {"settings": {"service.schedulerNames": "batch"}, "nodeNamePolicy": {"users": ["restore's"]}}
    variables = expressions(values, "muster-node-name-gangs", "gangs")
    assert (json.loads(variables["schedulers"]), json.loads(variables["users"])) == (["batch"], ["restore's"])
    policy = named(render(values, "gangs"), "ValidatingAdmissionPolicy", "muster-node-name-gangs")
    conditions = [one["expression"] for one in policy["spec"]["matchConditions"]]
    assert "request.userInfo.username != 'system:serviceaccount:gangs:muster-operator'" in conditions
    off = render({"nodeNamePolicy": {"enabled": False}})
    assert not [one for one in off if one["metadata"]["name"].startswith("muster-node-name")]


def test_settings_may_be_nested_maps_and_lists() -> None:
    made = render(CHOICES["nested settings"])
    data = named(made, "ConfigMap", "muster-defaults")["data"]
    assert data == {
        "service.schedulerNames": "batch,muster",
        "service.clusterId": "a",
        "log.level": "0",
        "gang.memberWait": "5s",
    }
    flat = render({"settings": data})
    assert flat == made, "both spellings render the same objects, with the same checksum of the settings at startup"


@pytest.mark.parametrize(
    "values, scheduler",
    [({}, "muster"), (CHOICES["nested settings"], "batch"), ({"test": {"scheduler": "yunikorn"}}, "yunikorn")],
)
def test_helm_test_uses_a_scheduler_name_that_muster_serves(values: Json, scheduler: str) -> None:
    [container] = named(render(values), "Pod", "muster-test")["spec"]["containers"]
    assert f"--scheduler={scheduler}" in container["args"]


def test_rest_listens_on_ipv4_and_ipv6_by_default() -> None:
    [arguments] = [
        container["args"] for pod in pods(render({})) for container in pod["containers"] if container["name"] == "core"
    ]
    assert "--rest-address=" in arguments


def test_the_requests_of_muster_have_a_priority_level_of_their_own() -> None:
    made = render({}, "batch")
    schema = named(made, "FlowSchema", "muster-batch")["spec"]
    level = named(made, "PriorityLevelConfiguration", "muster-batch")
    assert schema["priorityLevelConfiguration"]["name"] == level["metadata"]["name"]
    [rule] = schema["rules"]
    account = {"name": "muster-operator", "namespace": "batch"}
    assert [subject["serviceAccount"] for subject in rule["subjects"]] == [account]
    assert 800 < schema["matchingPrecedence"] < 9000, "after Kubernetes' controllers, before other service accounts"
    without = render({"priorityLevel": {"enabled": False}})
    assert not {"FlowSchema", "PriorityLevelConfiguration"} & {one["kind"] for one in without}


def test_an_ingress_reaches_rest() -> None:
    made = render(CHOICES["ingress"])
    spec = named(made, "Ingress", "muster")["spec"]
    backend = spec["rules"][0]["http"]["paths"][0]["backend"]["service"]
    service = named(made, "Service", backend["name"])
    assert backend["port"]["name"] in [port["name"] for port in service["spec"]["ports"]]
    assert (spec["ingressClassName"], spec["tls"]) == (
        "nginx",
        [{"secretName": "tls", "hosts": ["muster.example.com"]}],
    )


def test_additional_volumes_are_in_each_pod_that_mounts_them() -> None:
    found = pods(render(CHOICES["volumes"]))
    mounting = [
        pod
        for pod in found
        if any(m["name"] == "authority" for c in pod["containers"] for m in c.get("volumeMounts", ()))
    ]
    assert len(mounting) == 2
    assert all("authority" in [volume["name"] for volume in spec["volumes"]] for spec in mounting)


@pytest.mark.parametrize(
    "values, is_closed",
    [
        ({}, False),
        ({"networkPolicy": {"enabled": False}}, True),
        ({"networkPolicy": {"enabled": False}, "rest": {"closed": False}}, False),
        ({"hostNetwork": True}, True),
        ({"hostNetwork": True, "rest": {"address": "127.0.0.1"}}, False),
    ],
)
def test_rest_reads_are_closed_where_no_network_policy_protects_them(values: Json, *, is_closed: bool) -> None:
    rendered = render(values)
    [core] = [one for pod in pods(rendered) for one in pod["containers"] if one["name"] == "core"]
    assert ("--rest-closed" in core["args"]) == is_closed
    assert bool([one for one in rendered if one["metadata"]["name"] == "muster-rest-auth"]) == is_closed


def test_the_notes_do_not_say_that_the_admission_policy_ignores_the_settings() -> None:
    """It follows them: test_the_admission_policy_follows_the_settings_that_the_webhook_reads."""
    assert "ignores settings" not in (CHART / "templates" / "NOTES.txt").read_text()
