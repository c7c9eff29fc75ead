"""Whether a YuniKorn scheduler runs: its Deployment by name, or its pods by the labels of its chart, in any namespace.

Names and labels are free for everybody to write, and who refuses to start for them could be stopped by any user. So
what is found counts only if its service account may bind pods in the whole cluster, which no user can pretend: that is
a scheduler. Its placeholders and the pods it bound are no evidence, for they stay when it is gone.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
import structlog

from muster_operator.link.api.session import KubeSession, Request
from muster_operator.link.errors import ApiRefused, Uncertain

log = structlog.get_logger("muster.beside")

YUNIKORN: Final = "yunikorn"
DEPLOYMENT: Final = "yunikorn-scheduler"
#: We lack the right to list: then nothing is seen.
FORBIDDEN: Final = 403
ENDED: Final = frozenset({"Succeeded", "Failed"})
#: From the API server's cache: these looks are repeated, and need not be of this very moment.
DEPLOYMENTS: Final = f"/apis/apps/v1/deployments?fieldSelector=metadata.name%3D{DEPLOYMENT}&resourceVersion=0"
PODS: Final = f"/api/v1/pods?labelSelector=app%3Dyunikorn%2Ccomponent%3D{DEPLOYMENT}&resourceVersion=0"


async def running_yunikorn(session: KubeSession) -> str:
    """Its kind, namespace and name; empty = none is seen. Each account is asked about once.

    Raises:
        Uncertain: a list or a review failed.
        Unreachable: the API server did not answer.
    """
    may_bind: dict[tuple[str, str], bool] = {}
    for kind, path, is_running in (("deployment", DEPLOYMENTS, _wants_pods), ("pod", PODS, _has_not_ended)):
        for found in await _list(session, path):
            if not is_running(found):
                continue
            account = _account(found)
            if account not in may_bind:
                may_bind[account] = await _may_bind(session, *account)
            if may_bind[account]:
                return f"{kind} {found['metadata']['namespace']}/{found['metadata']['name']}"
    return ""


async def _list(session: KubeSession, path: str) -> list[dict[str, Any]]:
    try:
        return (await session.get(path)).get("items") or []
    except ApiRefused as error:
        if error.status != FORBIDDEN:
            raise Uncertain(str(error)) from error
        log.warning("cannot look for a running YuniKorn", status=error.status, reason=error.reason)
        return []


def _wants_pods(deployment: dict[str, Any]) -> bool:
    """Whether it has pods or wants some; an absent number of replicas means one."""
    wanted = (deployment.get("spec") or {}).get("replicas", 1)
    return bool(wanted) or bool((deployment.get("status") or {}).get("replicas"))


def _has_not_ended(pod: dict[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") not in ENDED


def _account(found: dict[str, Any]) -> tuple[str, str]:
    """Namespace and name of the service account that a Deployment or a pod runs as."""
    spec = found.get("spec") or {}
    spec = (spec.get("template") or {}).get("spec") or spec
    return found["metadata"]["namespace"], spec.get("serviceAccountName") or "default"


async def _may_bind(session: KubeSession, namespace: str, account: str) -> bool:
    """Whether the service account may bind any pod.

    Raises:
        Uncertain: the API server did not say.
    """
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{namespace}:{account}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
            "resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "binding"},
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    reply = await session.send(Request("POST", path, orjson.dumps(review), is_fenced=False))
    if not reply.ok:
        raise Uncertain(f"cannot check whether {namespace}/{account} may bind pods: {reply.status} {reply.message()}")
    return bool((reply.json().get("status") or {}).get("allowed"))
