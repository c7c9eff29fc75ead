"""Placeholders and their signatures: `muster placeholders`, the check of `muster doctor`, and `is_placeholder`.

A pod is a placeholder of Muster if its signature is valid, as for the operator. Users can write any annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final

import typer

from muster.asking import Steps, with_one_line
from muster.checks.finding import Finding, fine, unknown, warning
from muster.clients.kubernetes import Cluster, connected
from muster.errors import CommandError, NotThere
from muster_operator.model import names
from muster_operator.model.signing import CURRENT, PREVIOUS, SECRET, SigningKeys, Validity, placeholder_texts, read_key

Json = dict[str, Any]

EXAMPLES = ("muster placeholders", "muster placeholders --delete --scheduler-names yunikorn")
CHECK: Final = "placeholders"
LIVING: Final = "status.phase!=Succeeded,status.phase!=Failed"
#: The marks of Muster and of YuniKorn.
MARKS: Final = (names.ANNOTATION_PLACEHOLDER, "yunikorn.apache.org/placeholder")
_SHOWN: Final = 3


def command(
    *,
    delete: Annotated[bool, typer.Option("--delete", help="delete the listed pods")] = False,
    scheduler_names: Annotated[
        str, typer.Option(help="value of service.schedulerNames; only pods with these scheduler names are checked")
    ] = "muster,yunikorn",
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", envvar="MUSTER_NAMESPACE", help="namespace of Muster and its signing keys"),
    ] = "muster",
    kubeconfig: Annotated[str, typer.Option(help="Path to the kubeconfig")] = "",
    context: Annotated[str, typer.Option(help="Kubeconfig context (default: current)")] = "",
) -> None:
    """List placeholders that Muster did not sign: YuniKorn's, those of an older Muster, and forged ones.

    Bound ones count as ordinary pods, and pending ones are not scheduled. Signatures are verified with the Secret
    muster-signing. Pods whose signature cannot be verified are reported and never deleted.
    """
    served = frozenset(name for part in scheduler_names.split(",") if (name := part.strip()))
    with_one_line(lambda: look(connected(kubeconfig, context), namespace, served, delete=delete))


def look(cluster: Cluster, namespace: str, served: frozenset[str], *, delete: bool) -> None:
    """Print the pods that Muster did not sign, and delete them if wanted.

    Raises Exit(1) if one could not be deleted, and Unreachable if the pods cannot be listed.
    """
    found = survey(cluster.list("/api/v1/pods", fieldSelector=LIVING), served, lambda: signing_keys(cluster, namespace))
    steps = Steps()
    for pod in found.unsigned:
        is_deleted = delete and steps.done(partial(delete_pod, cluster, pod))
        typer.echo(f"{place(pod)}{' deleted' if is_deleted else ''}")
    if found.unverified:
        typer.echo(f"muster: {_unverified(found)}", err=True)
    typer.echo(f"{len(found.unsigned)} placeholders without a valid signature")
    steps.end()


def signing_keys(cluster: Cluster, namespace: str) -> SigningKeys:
    """The keys of the installation in this namespace. Raises NotThere without a usable one, and Unreachable."""
    data = cluster.get(f"/api/v1/namespaces/{namespace}/secrets/{SECRET}").get("data") or {}
    keys = [key for name in (CURRENT, PREVIOUS) if (key := read_key(data.get(name) or ""))]
    if not keys:
        raise NotThere(f"Secret {namespace}/{SECRET} has no usable key")
    return SigningKeys(namespace, keys)


def is_placeholder(pod: Json, keys: SigningKeys) -> bool:
    """Whether the pod is a placeholder of this installation: Muster signed it with one of these keys."""
    return validity(pod, keys) is Validity.VALID


def validity(pod: Json, keys: SigningKeys) -> Validity:
    """What the signature of a pod with the mark of placeholders is worth."""
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    if annotations.get(names.ANNOTATION_PLACEHOLDER) != "true":
        return Validity.NONE
    owners = (owner["uid"] for owner in metadata.get("ownerReferences") or () if _is_pod(owner))
    labels = metadata.get("labels") or {}
    texts = placeholder_texts(
        namespace=metadata["namespace"],
        name=metadata["name"],
        owner=next(owners, ""),
        app=labels.get(names.LABEL_APP_ID) or annotations.get(names.LABEL_APP_ID, ""),
        group=annotations.get(names.ANNOTATION_TASK_GROUP_NAME, ""),
        ordinal=annotations.get(names.ANNOTATION_PLACEHOLDER_ORDINAL, ""),
        requests=annotations.get(names.ANNOTATION_PLACEHOLDER_REQUESTS, ""),
    )
    return keys.verify(annotations.get(names.ANNOTATION_PLACEHOLDER_SIGNATURE, ""), texts)


def _is_pod(owner: Json) -> bool:
    return (owner.get("kind"), owner.get("apiVersion")) == ("Pod", "v1")


@dataclass(slots=True)
class Survey:
    """Pods with a mark of placeholders. `unverified`: signed with a key that is not known; `error`: why none is."""

    signed: list[Json] = field(default_factory=list)
    unsigned: list[Json] = field(default_factory=list)
    unverified: list[Json] = field(default_factory=list)
    error: CommandError | None = None


def survey(pods: Iterable[Json], served: frozenset[str], keys: Callable[[], SigningKeys]) -> Survey:
    """Sort the marked pods of these scheduler names. `keys` is called only if one of them has a signature."""
    found = Survey()
    known: SigningKeys | None = None
    for pod in pods:
        annotations = pod["metadata"].get("annotations") or {}
        is_marked = any(annotations.get(mark) == "true" for mark in MARKS)
        if not is_marked or (pod.get("spec") or {}).get("schedulerName") not in served:
            continue
        if not annotations.get(names.ANNOTATION_PLACEHOLDER_SIGNATURE):
            found.unsigned.append(pod)
            continue
        if known is None and found.error is None:
            try:
                known = keys()
            except CommandError as error:
                found.error = error
        if known is None or validity(pod, known) is Validity.UNKNOWN_KEY:
            found.unverified.append(pod)
        else:
            (found.signed if is_placeholder(pod, known) else found.unsigned).append(pod)
    return found


def judged(found: Survey) -> Iterator[Finding]:
    """What the doctor says of them."""
    if found.unsigned:
        yield warning(
            CHECK,
            f"{_places(found.unsigned)} have no valid signature: if bound, they count as ordinary pods, otherwise they "
            "are not scheduled",
            "delete them with muster placeholders --delete, once no YuniKorn uses them",
        )
    if found.unverified and found.error:
        yield unknown(CHECK, _unverified(found))
    elif found.unverified:
        yield warning(CHECK, _unverified(found), f"restore the key in the Secret {SECRET}, or delete the pods")
    elif not found.unsigned:
        yield fine(CHECK, "all placeholders are signed")


def delete_pod(cluster: Cluster, pod: Json) -> bool:
    """Delete this pod, and none that took its name; False = it is gone. Raises Unreachable."""
    metadata = pod["metadata"]
    return cluster.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", metadata["uid"])


def place(pod: Json) -> str:
    """Namespace and name."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _places(pods: list[Json]) -> str:
    more = f" and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
    return ", ".join(place(pod) for pod in pods[:_SHOWN]) + more


def _unverified(found: Survey) -> str:
    if found.error:
        return (
            f"{_places(found.unverified)}: the signatures are not verified, so forged ones are not recognized: "
            f"the Secret {SECRET} cannot be read ({found.error})"
        )
    return (
        f"{_places(found.unverified)} are signed with a key that is not in the Secret {SECRET}: they count once they "
        "are bound, and are neither used nor deleted"
    )
