"""The requests of a gang's ProvisioningRequest and its PodTemplates to the API server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import orjson
import structlog

from muster_operator.kube.http import Policies, Retry
from muster_operator.kube.session import KubeSession, Reply, Request
from muster_operator.model.commands import ProvisioningCommand, RequestNodes, WithdrawNodes
from muster_operator.model.errors import ApiRefused
from muster_operator.model.names import FIELD_MANAGER
from muster_operator.model.pods import PlaceholderSpec
from muster_operator.translate.provisioning import (
    API_PATH,
    PLURAL,
    is_owned,
    request_body,
    template_body,
    template_name,
)
from muster_operator.translate.values import Raw, mapping

log = structlog.get_logger("muster.kube")

_NOT_FOUND: Final = 404
_EXISTS: Final = 409

Send = Callable[[ProvisioningCommand, Request, Retry], Awaitable[Reply]]


async def served_class(session: KubeSession, wanted: str) -> str:
    """Returns the wanted class; empty if the API server does not serve ProvisioningRequests.

    Raises:
        Unreachable: no response.
        ApiRefused: the API server answered with another error.
    """
    if not wanted:
        return ""
    try:
        found = await session.get(API_PATH)
    except ApiRefused as refused:
        if refused.status != _NOT_FOUND:
            raise
        found = {}
    if any(mapping(one).get("name") == PLURAL for one in found.get("resources") or ()):
        return wanted
    log.error(
        "autoscaling.provisioningRequest has no effect: the API server does not serve ProvisioningRequests; install "
        "their CustomResourceDefinition and restart the operator",
        api=API_PATH,
    )
    return ""


async def request(
    command: RequestNodes, manifest: Callable[[PlaceholderSpec], Raw], send: Send, policies: Policies
) -> Reply:
    """Creates the PodTemplates and the ProvisioningRequest, or reads it. Returns the last reply.

    The names depend on the gang only, so an existing object of the originator is that of an earlier attempt.
    """
    wanted = command.request
    path = _requests(wanted.originator.namespace)
    if not command.is_created:
        for pod_set in wanted.pod_sets:
            name = template_name(wanted.name, pod_set.group)
            template = template_body(name, pod_set.placeholder, manifest(pod_set.placeholder))
            reply = await send(command, _post(_templates(wanted.originator.namespace), template), policies.create)
            if not reply.ok and not _exists(reply):
                return reply
        reply = await send(command, _post(path, request_body(wanted)), policies.create)
        if not _exists(reply):
            return reply
    reply = await send(command, Request("GET", f"{path}/{wanted.name}"), policies.read)
    if reply.ok and not is_owned(reply.json(), wanted.originator.uid):
        message = f'provisioningrequest "{wanted.name}" exists and does not belong to pod {wanted.originator.name}'
        return Reply(_EXISTS, orjson.dumps({"reason": "AlreadyExists", "message": message}))
    return reply


async def withdraw(command: WithdrawNodes, send: Send, policies: Policies) -> Reply:
    """Deletes the ProvisioningRequest, and if there was one, its PodTemplates. Returns the first reply that failed."""
    namespace = command.originator.namespace
    reply = await send(command, Request("DELETE", f"{_requests(namespace)}/{command.name}"), policies.delete)
    for group in range(command.groups) if reply.ok else ():
        path = f"{_templates(namespace)}/{template_name(command.name, group)}"
        deleted = await send(command, Request("DELETE", path), policies.delete)
        if not deleted.ok and deleted.status != _NOT_FOUND:
            return deleted
    return reply


def _exists(reply: Reply) -> bool:
    return reply.status == _EXISTS and reply.reason() == "AlreadyExists"


def _post(path: str, body: Raw) -> Request:
    return Request("POST", f"{path}?fieldManager={FIELD_MANAGER}", orjson.dumps(body))


def _requests(namespace: str) -> str:
    return f"{API_PATH}/namespaces/{namespace}/{PLURAL}"


def _templates(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/podtemplates"
