"""Placeholders and their signatures: `muster placeholders`, the check of `muster doctor`, and `is_placeholder`.

A pod is a placeholder of Muster if its signature is valid, as for the operator. Users can write any annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final

import typer

from muster.checks import DEFAULT_NAMES, Finding, Level, fine, warning
from muster.clients import installations
from muster.clients import kubeconfig as kubeconfig_files
from muster.clients.kubernetes import Cluster, connect
from muster.confirmation import DryRun, Yes, is_confirmed
from muster.errors import CommandError, NotThere
from muster.options import PANEL, AllNamespaces, Context, Kubeconfig, Steps, exit_on_error
from muster.output import Format, Output, as_data, console, emit, print_page, table
from muster.text import print_line
from muster_operator.model import names
from muster_operator.model.signing import CURRENT, PREVIOUS, SECRET, SigningKeys, Validity, placeholder_texts, read_key

Json = dict[str, Any]

EXAMPLES = ("muster placeholders -A", "muster placeholders -n team-a --delete --scheduler-names yunikorn")
CHECK: Final = "placeholders"
LIVING: Final = "status.phase!=Succeeded,status.phase!=Failed"
#: The placeholder annotations of Muster and of YuniKorn.
MARKS: Final = (names.ANNOTATION_PLACEHOLDER, "yunikorn.apache.org/placeholder")
_SHOWN: Final = 3


def command(  # noqa: PLR0913 # long: the command line is its options
    *,
    delete: Annotated[
        bool,
        typer.Option(
            "--delete",
            help="Delete the listed pods, after a question. Without --scheduler-names, only those whose scheduler name "
            "a running Muster serves.",
        ),
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    scheduler_names: Annotated[
        str,
        typer.Option(help="Scheduler names of the listed pods, separated by commas (default: muster,yunikorn)."),
    ] = "",
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", help="Namespace of the listed pods (default: the namespace of the context)."),
    ] = "",
    all_namespaces: AllNamespaces = False,
    output: Format = Output.TABLE,
    muster_namespace: Annotated[
        str,
        typer.Option(
            envvar="MUSTER_NAMESPACE",
            help="Namespace of Muster, which has the Secret with the signing keys.",
            rich_help_panel=PANEL,
        ),
    ] = "muster",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """List placeholders that Muster did not sign: created by YuniKorn, by an older Muster, or forged.

    Bound ones count as ordinary pods, and pending ones are not scheduled. Signatures are verified with the Secret
    muster-signing. Pods whose signature cannot be verified are reported on standard error and never deleted.
    """
    given = frozenset(name for part in scheduler_names.split(",") if (name := part.strip()))

    def run() -> None:
        names = given or DEFAULT_NAMES
        pods_in = "" if all_namespaces else namespace or kubeconfig_files.namespace(kubeconfig, context)
        path = f"/api/v1/namespaces/{pods_in}/pods" if pods_in else "/api/v1/pods"
        with connect(kubeconfig, context) as cluster:
            pods = cluster.list(path, fieldSelector=LIVING)
            found = survey(pods, names, lambda: signing_keys(cluster, muster_namespace))
            chosen = _chosen(cluster, found.unsigned, is_named=bool(given)) if delete or dry_run else []
            listed = [f"pod {full_name(pod)}" for pod in chosen]
            if listed and not is_confirmed(cluster, listed, yes=yes, dry_run=dry_run):
                chosen = []
            report(cluster, found, output, chosen)

    exit_on_error(run)


def _chosen(cluster: Cluster, pods: list[Json], *, is_named: bool) -> list[Json]:
    """The pods to delete. Without an explicit scheduler name, only those whose name a running Muster serves: others may
    be placeholders of a YuniKorn that runs. Raises Unreachable.
    """
    if is_named:
        return pods
    names = frozenset(map(_scheduler_name, pods))
    served = installations.served_names(cluster, names, cluster.server_time()) if names else frozenset()
    for name in sorted(names - served):
        number = sum(_scheduler_name(pod) == name for pod in pods)
        print_line(
            f"muster: kept: {number} pods with scheduler name {name}, which no running Muster serves, so YuniKorn may "
            f"use them; to delete them add --scheduler-names {name}",
            err=True,
        )
    return [pod for pod in pods if _scheduler_name(pod) in served]


def _scheduler_name(pod: Json) -> str:
    return str((pod.get("spec") or {}).get("schedulerName") or "")


def report(cluster: Cluster, found: Survey, output: Output, chosen: list[Json]) -> None:
    """Print the pods that Muster did not sign, and delete the chosen ones. Raises Exit(1) if a deletion failed."""
    steps = Steps()
    deleted = {full_name(pod) for pod in chosen if steps.run(partial(delete_pod, cluster, pod))}
    if found.unverified:
        print_line(f"muster: {_unverified(found)}", err=True)
    if output.is_data:
        emit(as_data(found.unsigned), output)
    else:
        _print(found.unsigned, deleted, is_wide=output is Output.WIDE)
    steps.end()


def _print(pods: list[Json], deleted: set[str], *, is_wide: bool) -> None:
    if pods:
        page = table("NAMESPACE", "NAME", "PHASE", "DELETED", *(("SCHEDULER", "NODE") if is_wide else ()))
        for pod in pods:
            spec, metadata = pod.get("spec") or {}, pod["metadata"]
            more = (_scheduler_name(pod), spec.get("nodeName") or "-") if is_wide else ()
            phase = (pod.get("status") or {}).get("phase") or "Pending"
            is_deleted = "yes" if full_name(pod) in deleted else "no"
            page.add_row(metadata["namespace"], metadata["name"], phase, is_deleted, *more)
        print_page(console(is_unbounded=is_wide), page)
    print_line(f"{len(pods)} placeholders without a valid signature")


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
    """Whether the signature of a pod with a placeholder annotation is valid."""
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
    """Pods with a placeholder annotation. `unverified`: signed with an unknown key. `error`: why keys are missing."""

    signed: list[Json] = field(default_factory=list)
    unsigned: list[Json] = field(default_factory=list)
    unverified: list[Json] = field(default_factory=list)
    error: CommandError | None = None


def survey(pods: Iterable[Json], scheduler_names: frozenset[str], keys: Callable[[], SigningKeys]) -> Survey:
    """Sort the annotated pods of these scheduler names. `keys` is called only if one of them has a signature."""
    found = Survey()
    known: SigningKeys | None = None
    for pod in pods:
        annotations = pod["metadata"].get("annotations") or {}
        is_marked = any(annotations.get(mark) == "true" for mark in MARKS)
        if not is_marked or _scheduler_name(pod) not in scheduler_names:
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


def check_placeholders(found: Survey) -> Iterator[Finding]:
    """The findings of `muster doctor`."""
    if found.unsigned:
        yield warning(
            CHECK,
            f"{_list(found.unsigned)} have no valid signature: if bound, they count as ordinary pods, otherwise they "
            "are not scheduled",
            "delete them with muster placeholders -A --delete when YuniKorn no longer uses them",
        )
    if found.unverified and found.error:
        yield Finding(CHECK, Level.UNKNOWN, _unverified(found), "use an account that may read the Secret")
    elif found.unverified:
        yield warning(CHECK, _unverified(found), f"restore the key in the Secret {SECRET}, or delete the pods")
    elif not found.unsigned:
        yield fine(CHECK, "all placeholders are signed")


def delete_pod(cluster: Cluster, pod: Json) -> bool:
    """Delete this pod, but not a newer one of its name; False = it does not exist. Raises Unreachable."""
    metadata = pod["metadata"]
    return cluster.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", metadata["uid"])


def full_name(pod: Json) -> str:
    """NAMESPACE/NAME."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _list(pods: list[Json]) -> str:
    more = f" and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
    return ", ".join(full_name(pod) for pod in pods[:_SHOWN]) + more


def _unverified(found: Survey) -> str:
    if found.error:
        return (
            f"{_list(found.unverified)}: the signatures are not verified, so forged ones are not recognized: "
            f"the Secret {SECRET} cannot be read ({found.error})"
        )
    return (
        f"{_list(found.unverified)} are signed with a key that is not in the Secret {SECRET}: if bound, they count as "
        "ordinary pods; they are neither used nor deleted"
    )
