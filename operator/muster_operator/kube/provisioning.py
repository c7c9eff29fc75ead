"""ProvisioningRequests of Cluster Autoscaler: the objects of a gang's request, its conditions, and its writes.

Differs: YuniKorn creates no ProvisioningRequests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson
import structlog

from muster_operator.kube.http import Policies, Retry
from muster_operator.kube.session import KubeSession, Reply, Request
from muster_operator.model.commands import NodesRequest, ProvisioningCommand, RequestNodes, WithdrawNodes
from muster_operator.model.errors import ApiRefused
from muster_operator.model.ids import application_name
from muster_operator.model.names import FIELD_MANAGER
from muster_operator.model.pods import PlaceholderSpec
from muster_operator.translate.placeholders import owner_reference, placeholder_labels
from muster_operator.translate.values import Raw, mapping, text

log = structlog.get_logger("muster.kube")

_API_GROUP: Final = "autoscaling.x-k8s.io"
_API_PATH: Final = f"/apis/{_API_GROUP}/v1"
_PLURAL: Final = "provisioningrequests"

_NOT_FOUND: Final = 404
_EXISTS: Final = 409

SendProvisioning = Callable[[ProvisioningCommand, Request, Retry], Awaitable[Reply]]


async def served_class(session: KubeSession, wanted: str) -> str:
    """Returns the wanted class; empty if the API server does not serve ProvisioningRequests.

    Raises:
        Unreachable: no response.
        ApiRefused: the API server answered with another error.
    """
    if not wanted:
        return ""
    try:
        found = await session.get(_API_PATH)
    except ApiRefused as refused:
        if refused.status != _NOT_FOUND:
            raise
        found = {}
    if any(mapping(one).get("name") == _PLURAL for one in found.get("resources") or ()):
        return wanted
    log.error(
        "autoscaling.provisioningRequest has no effect: the API server does not serve ProvisioningRequests; install "
        "their CustomResourceDefinition and restart the operator",
        api=_API_PATH,
    )
    return ""


async def request(
    command: RequestNodes, manifest: Callable[[PlaceholderSpec], Raw], send: SendProvisioning, policies: Policies
) -> Reply:
    """Creates the PodTemplates and the ProvisioningRequest, or reads it. Returns the last reply.

    The names depend on the gang only, so an existing object of the originator is that of an earlier attempt.
    """
    wanted = command.request
    path = _requests(wanted.originator.namespace)
    if not command.is_created:
        for pod_set in wanted.pod_sets:
            name = _template_name(wanted.name, pod_set.group)
            template = _template_body(name, pod_set.placeholder, manifest(pod_set.placeholder))
            reply = await send(command, _post(_templates(wanted.originator.namespace), template), policies.create)
            if _exists(reply):
                reply = _checked(
                    await send(
                        command, Request("GET", f"{_templates(wanted.originator.namespace)}/{name}"), policies.read
                    ),
                    wanted,
                    name,
                )
            if not reply.ok:
                return reply
        reply = await send(command, _post(path, _request_body(wanted)), policies.create)
        if not _exists(reply):
            return reply
    reply = await send(command, Request("GET", f"{path}/{wanted.name}"), policies.read)
    return _checked(reply, wanted, wanted.name)


def _checked(reply: Reply, wanted: NodesRequest, name: str) -> Reply:
    """The reply to a read of an object of this name, or a conflict if its owner is not the originator of the gang."""
    if not reply.ok or _is_owned(reply.json(), wanted.originator.uid):
        return reply
    message = f'"{name}" exists and does not belong to pod {wanted.originator.name}'
    return Reply(_EXISTS, orjson.dumps({"reason": "AlreadyExists", "message": message}))


async def withdraw(command: WithdrawNodes, send: SendProvisioning, policies: Policies) -> Reply:
    """Deletes the ProvisioningRequest, and if there was one, its PodTemplates. Returns the first reply that failed."""
    namespace = command.originator.namespace
    reply = await send(command, Request("DELETE", f"{_requests(namespace)}/{command.name}"), policies.delete)
    for group in range(command.groups) if reply.ok else ():
        path = f"{_templates(namespace)}/{_template_name(command.name, group)}"
        deleted = await send(command, Request("DELETE", path), policies.delete)
        if not deleted.ok and deleted.status != _NOT_FOUND:
            return deleted
    return reply


def _exists(reply: Reply) -> bool:
    return reply.status == _EXISTS and reply.reason() == "AlreadyExists"


def _post(path: str, body: Raw) -> Request:
    return Request("POST", f"{path}?fieldManager={FIELD_MANAGER}", orjson.dumps(body))


def _requests(namespace: str) -> str:
    return f"{_API_PATH}/namespaces/{namespace}/{_PLURAL}"


def _templates(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/podtemplates"


# -- objects --------------------------------------------------------------------


def _template_name(request: str, group: int) -> str:
    """Name of the PodTemplate of a task group, by the index of the group in its gang."""
    return f"{request}-{group}"


def _template_body(name: str, spec: PlaceholderSpec, placeholder: Raw) -> Raw:
    """The PodTemplate of a task group: its placeholder without annotations."""
    metadata = {"labels": placeholder_labels(spec.group, application_name(spec.app), spec.queue)}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": _metadata(name, spec),
        "template": {"metadata": metadata, "spec": placeholder["spec"]},
    }


def _request_body(request: NodesRequest) -> Raw:
    """The ProvisioningRequest of a gang."""
    pod_sets = [
        {"podTemplateRef": {"name": _template_name(request.name, pod_set.group)}, "count": pod_set.count}
        for pod_set in request.pod_sets
    ]
    return {
        "apiVersion": f"{_API_GROUP}/v1",
        "kind": "ProvisioningRequest",
        "metadata": _metadata(request.name, request.pod_sets[0].placeholder),
        "spec": {"provisioningClassName": request.provisioning_class, "podSets": pod_sets},
    }


def _metadata(name: str, spec: PlaceholderSpec) -> dict[str, Any]:
    return {"name": name, "namespace": spec.namespace, "ownerReferences": [owner_reference(spec.owner)]}


def _is_owned(raw: Raw, uid: str) -> bool:
    """Whether the object has this owner."""
    owners = mapping(raw.get("metadata")).get("ownerReferences") or ()
    return any(mapping(owner).get("uid") == uid for owner in owners)


def request_problem(raw: Raw) -> str:
    """Why nodes are not provided: the message of Failed=True, otherwise of Provisioned=False; empty = no problem."""
    listed = mapping(raw.get("status")).get("conditions") or ()
    conditions = {text(mapping(one).get("type")): mapping(one) for one in listed}
    for kind, status in (("Failed", "True"), ("Provisioned", "False")):
        found = conditions.get(kind, {})
        if found.get("status") == status and found.get("message"):
            return text(found.get("message"))
    return ""
