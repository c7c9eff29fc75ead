"""Kubernetes objects as nodes and jobs of a simulation.

The operator's translation and recovery read the objects, and its messages are decoded as in the core, so that a pod
means the same as in a cluster. Files are YAML or JSON as kubectl prints them. A bound pod only occupies resources of
its node. Controllers are not simulated: jobs, deployments and sets stand for their pods.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import orjson
import yaml

from muster.api_defaults import Priorities, with_requests
from muster.checks import Level
from muster.ignored_names import check_names
from muster_core.foresight.workload import RM, SECOND, START_NS, BadInput, Job, PodSet
from muster_core.model.effects import ApplicationRejected, NodeRejected
from muster_core.model.events import ApplicationAdded, AskAdded, Event, NodeAdded
from muster_core.model.ids import ApplicationId
from muster_core.model.specs import AskSpec, NodeSpec
from muster_core.runtime.sessions import Decoder
from muster_operator.controller import applications, recovery, tasks
from muster_operator.controller.cluster_events import handle_event
from muster_operator.controller.state import Ledger
from muster_operator.model import names
from muster_operator.model.commands import Outcome
from muster_operator.model.core_messages import AskSubmitted, CoreRequest
from muster_operator.model.ids import PodUid
from muster_operator.model.pods import Membership, PodRef
from muster_operator.model.settings import Settings
from muster_operator.model.signing import SigningKeys, Validity
from muster_operator.si.codec import Encoder
from muster_operator.translate.membership import membership
from muster_operator.translate.objects import read_object
from muster_operator.translate.values import Raw, integer, mapping, objects, text
from muster_si import keys, si_pb2

_PLURALS: Final = {
    "Node": "nodes",
    "Pod": "pods",
    "Namespace": "namespaces",
    "PriorityClass": "priorityclasses",
}
_SHARED: Final = ("namespaces", "priorityclasses")

#: Field with the number of pods of a controller. A Job has at most as many pods as `completions`.
_CONTROLLERS: Final = {
    "Job": "parallelism",
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "StatefulSet": "replicas",
}
#: Kinds that are often in the same files and create no pods. Other unknown kinds might, so they are errors.
_WITHOUT_PODS: Final = frozenset(
    {
        *(
            "ConfigMap",
            "HorizontalPodAutoscaler",
            "Ingress",
            "NetworkPolicy",
            "PodDisruptionBudget",
            "Secret",
            "Service",
        ),
        *("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
    }
)

#: Most pods of all controllers of a simulation, because a few bytes make any number of them.
_MOST_PODS: Final = 100_000

#: Levels of a YAML file, and how many times its length it may have with the contents of its aliases.
_MOST_DEPTH: Final = 100
_MOST_EXPANSION: Final = 4
_LEAST_EXPANDED: Final = 65_536


@dataclass(frozen=True, slots=True)
class Manifests:
    """The nodes and jobs of a file. `shared`: its namespaces and priority classes, which other files can refer to.

    `pods`: number of pods of the controllers, with those of the files before.
    """

    nodes: Sequence[NodeSpec]
    jobs: Sequence[Job]
    shared: Sequence[Raw]
    pods: int


def read_manifests(
    written: str, file: str, run_s: int | None, known: Sequence[Raw] = (), pods_before: int = 0
) -> Manifests:
    """Reads manifests. Pods run for their `activeDeadlineSeconds`, else for `run_s`. Raises BadInput.

    `known`, `pods_before`: `shared` and `pods` of other files. Pods that are bound, gated or of another scheduler are
    no jobs; Services and the like are skipped.
    """
    documents = [_named(raw, number, file) for number, raw in enumerate(_documents(written, file))]
    count = pods_before + _controlled(documents, file, pods_before)
    shared = [*known, *(raw for raw in documents if _PLURALS.get(raw["kind"]) in _SHARED)]
    ledger, deadlines = Ledger(Settings()), dict[str, int]()
    for raw in _admit(ledger, known, documents, file):
        deadlines[_uid(raw)] = integer(mapping(raw.get("spec")).get("activeDeadlineSeconds"))
    nodes: list[NodeSpec] = []
    added_applications: list[ApplicationAdded] = []
    asks: dict[ApplicationId, list[AskSpec]] = defaultdict(list)
    for reported in _reported(ledger, file):
        match reported:
            case NodeAdded():
                used = sum((one.resources for one in reported.existing), reported.spec.occupied)
                nodes.append(replace(reported.spec, occupied=used))
            case ApplicationAdded():
                added_applications.append(reported)
            case AskAdded():
                asks[reported.spec.application].append(reported.spec)
            case _:
                pass
    jobs = []
    for added in added_applications:
        pods = asks[added.spec.id]
        if pods:
            spec = replace(added.spec, created_ns=START_NS, forced=False)
            found = max(deadlines.get(one.key, 0) for one in pods) or run_s
            pod_sets = tuple(PodSet(1, one) for one in pods)
            jobs.append(Job(spec, pod_sets, START_NS, None if found is None else found * SECOND))
    return Manifests(nodes, jobs, shared, count)


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who applies manifests, and the namespace of objects without one. Empty `user`: the pods name their users."""

    namespace: str
    user: str = ""
    groups: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Submission:
    """What the core receives. `left_out`: why it does not receive a pod, by NAMESPACE/NAME.

    `warnings`: what the operator would report in events.
    """

    events: Sequence[ApplicationAdded | AskAdded]
    left_out: Mapping[str, str]
    warnings: Sequence[str]


def read_requests(files: Mapping[str, str], known: Sequence[Raw], submitter: Submitter) -> Submission:
    """What the core receives if these manifests are applied. Raises BadInput.

    `files`: texts by name; pods of one application can be in several. `known`: the namespaces and priority classes of
    the cluster, which have precedence over those of the manifests.
    """
    documents: list[Raw] = []
    for file, written in files.items():
        found = (_submitted(raw, submitter) for raw in _documents(written, file))
        of_file = [_named(raw, len(documents) + number, file) for number, raw in enumerate(found)]
        _controlled(documents + of_file, file)
        if nodes := [raw for raw in of_file if raw["kind"] == "Node"]:
            raise BadInput(f"{file}: {_subject(nodes[0])}: nodes are not applied; write pods and controllers")
        documents += of_file
    names, present = ", ".join(files), {_subject(raw) for raw in known}
    ledger = Ledger(Settings())
    admitted = list(_admit(ledger, known, [raw for raw in documents if _subject(raw) not in present], names))
    pods = [raw for raw in admitted if raw["kind"] == "Pod"]
    spaces = [raw for raw in admitted if raw["kind"] == "Namespace" and _subject(raw) not in present]
    events = [event for event in _reported(ledger, names) if isinstance(event, ApplicationAdded | AskAdded)]
    asked = {event.spec.key for event in events if isinstance(event, AskAdded)}
    left_out = {_full_name(pod): _why_left_out(pod, ledger) for pod in pods if _uid(pod) not in asked}
    return Submission(events, left_out, [*_warnings(pods, spaces, ledger.settings)])


def _full_name(pod: Raw) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _membership(pod: Raw, settings: Settings) -> Membership:
    metadata = pod["metadata"]
    ref = PodRef(text(metadata["namespace"]), text(metadata["name"]), PodUid(_uid(pod)))
    return membership(metadata, ref, settings, mapping(pod.get("spec")))


def _why_left_out(pod: Raw, ledger: Ledger) -> str:
    spec = mapping(pod.get("spec"))
    if spec["schedulerName"] not in ledger.settings.scheduler_names:
        return f"has schedulerName {text(spec['schedulerName'])}"
    if spec.get("nodeName"):
        return f"has node {text(spec['nodeName'])}"
    if spec.get("resourceClaims"):
        return "has resource claims, and devices are not simulated"
    known = ledger.pods.get(PodUid(_uid(pod)))
    waits = "" if known is None or known.gates else known.membership.waits
    return _membership(pod, ledger.settings).refusal or waits or "has scheduling gates, or has ended"


def _warnings(pods: Sequence[Raw], namespaces: Sequence[Raw], settings: Settings) -> Iterator[str]:
    """Names, users and task groups without effect, as `muster doctor` reports them."""
    for finding in check_names(pods, namespaces, settings.scheduler_names):
        if finding.level is not Level.FINE:
            yield finding.message


def _submitted(raw: Raw, submitter: Submitter) -> Raw:
    """The object in its namespace, and with the user of its pods as the webhook writes it."""
    metadata = dict(mapping(raw.get("metadata")))
    metadata["namespace"] = text(metadata.get("namespace")) or submitter.namespace
    if raw.get("kind") in ("Namespace", "PriorityClass", "Node"):
        return raw
    if not submitter.user:
        return {**raw, "metadata": metadata}
    if raw.get("kind") == "Pod":
        return {**raw, "metadata": _owned(metadata, submitter)}
    spec = mapping(raw.get("spec"))
    template = mapping(spec.get("template"))
    template = {**template, "metadata": _owned(mapping(template.get("metadata")), submitter)}
    return {**raw, "metadata": metadata, "spec": {**spec, "template": template}}


def _owned(metadata: Raw, submitter: Submitter) -> Raw:
    info = orjson.dumps({"user": submitter.user, "groups": [*submitter.groups]}).decode()
    return {**metadata, "annotations": {**mapping(metadata.get("annotations")), names.ANNOTATION_USER_INFO: info}}


class _Trusted(SigningKeys):
    """Accepts the marks of all placeholders, because only the operator has the keys."""

    def verify(self, signature: str, parts: Sequence[str]) -> Validity:
        """Valid if there is one."""
        return Validity.VALID if signature else Validity.NONE


def read_cluster(found: Mapping[str, Iterable[Raw]]) -> list[Event]:
    """The objects of a cluster by their plural, as recovery reports them to the core. Raises BadInput."""
    ledger = Ledger(Settings(), keys=_Trusted("", [b"unused"]))
    for plural in _PLURALS.values():
        for raw in found[plural]:
            if (event := read_object(plural, raw, ledger.settings)) is not None:
                handle_event(ledger, event, 0.0)
    return [
        replace(event, draining=event.spec.cordoned) if isinstance(event, NodeAdded) else event
        for event in _reported(ledger, "the cluster")
    ]


def _reported(ledger: Ledger, file: str) -> Iterator[Event]:
    """What the core receives of these objects: applications, nodes with their pods, and the requests of other pods."""
    requests = [request for outcome in recovery.begin(ledger, 0.0) for request in outcome.requests]
    for app in ledger.applications.values():
        applications.accept(ledger, Outcome(), app, 0.0)  # else its bound pods would only occupy their nodes
    requests += (request for outcome in recovery.report_nodes(ledger, 0.0) for request in outcome.requests)
    requests += [AskSubmitted(tasks.ask_of(ledger, task)) for task in ledger.tasks.values() if task.node is None]
    yield from _decoded(requests, file)


def _decoded(requests: Iterable[CoreRequest], file: str) -> Iterator[Event]:
    encoder, decoder = Encoder(str(RM), keys.DEFAULT_PARTITION), Decoder(RM, [keys.DEFAULT_PARTITION])
    for batch in encoder.batches(requests):
        match encoder.encoded(batch):
            case si_pb2.ApplicationRequest() as request:
                intake = decoder.applications.read(request)
            case si_pb2.NodeRequest() as request:
                intake = decoder.nodes.read(request)
            case si_pb2.AllocationRequest() as request:
                intake = decoder.allocations.read(request)
            case _:
                continue
        for answer in intake.answers:
            if isinstance(answer, ApplicationRejected | NodeRejected):
                raise BadInput(f"{file}: {answer.reason}")
        yield from intake.events


# --- objects ---------------------------------------------------------------------------------------------------------


def _documents(written: str, file: str) -> Iterator[Raw]:
    """The objects of a file; a list stands for its items."""
    try:
        for document in _loaded(written):
            if isinstance(document, dict):
                found = objects(document.get("items")) if "items" in document else (document,)
                yield from (one for one in found if text(one.get("kind")) not in _WITHOUT_PODS)
            elif document is not None:
                raise BadInput(f"{file}: is neither a CSV file nor a manifest")
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: a number or date that Python refuses
        raise BadInput(f"{file}: is not a manifest: {' '.join(str(error).split())}") from error


def _loaded(written: str) -> Iterable[Any]:
    """The documents. JSON is decoded much faster than YAML, whose flow style also begins with a brace."""
    if written.lstrip().startswith("{"):
        with suppress(orjson.JSONDecodeError):
            found = orjson.loads(written)
            try:
                orjson.dumps(found)  # has the depth that later functions can read
            except orjson.JSONEncodeError as error:
                raise RecursionError(str(error)) from error
            return [found]
    _check_size(written)
    documents: Iterable[Any] = yaml.load_all(written, _LOADER)
    return documents


def _check_size(written: str) -> None:
    """Raises YAMLError if the text is nested too deeply, or much larger with the contents of its aliases.

    Reads only the events of the parser, before anything is built.
    """
    sizes = dict[str, int]()
    around: list[tuple[str | None, int]] = []  # anchors of the collections around, and the size before each
    size, most = 0, _MOST_EXPANSION * (len(written) + _LEAST_EXPANDED)
    for event in yaml.parse(written, _LOADER):
        match event:
            case yaml.AliasEvent():
                if event.anchor not in sizes:
                    raise yaml.YAMLError(f"alias {event.anchor!r:.80} has no content, or contains itself")
                size += sizes[event.anchor]
            case yaml.ScalarEvent():
                size += 1 + len(event.value)
                if event.anchor:
                    sizes[event.anchor] = 1 + len(event.value)
            case yaml.CollectionStartEvent():
                around.append((event.anchor, size))
                size += 1
                if len(around) > _MOST_DEPTH:
                    raise yaml.YAMLError(f"more than {_MOST_DEPTH} levels are nested")
            case yaml.CollectionEndEvent():
                anchor, before = around.pop()
                if anchor:
                    sizes[anchor] = size - before
            case _:
                pass
        if size > most:
            raise yaml.YAMLError("its aliases stand for too much text; write less of it")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml's is faster, if it exists
    """Loads plain values. Times stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, expression) for tag, expression in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_LOADER: Final = _Loader


def _named(raw: Raw, number: int, file: str) -> Raw:
    """The object of a simulated kind with a name. `generateName` is completed with the number of the object."""
    kind, metadata = text(raw.get("kind")), mapping(raw.get("metadata"))
    if kind not in _PLURALS and kind not in _CONTROLLERS:
        known = ", ".join((*_PLURALS, *_CONTROLLERS))
        what = f"kind {kind[:80]!r}" if kind else "an object without a kind"
        queues = "; for a queues.yaml, use muster plan" if "partitions" in raw else ""
        raise BadInput(f"{file}: {what} is not simulated; write objects of kind {known}{queues}")
    generated = text(metadata.get("generateName"))
    name = text(metadata.get("name")) or (f"{generated}{number}" if generated else "")
    if not name:
        raise BadInput(f"{file}: a {kind} has no name")
    return {**raw, "metadata": {**metadata, "name": name}}


def _subject(raw: Raw) -> str:
    """Kind and name for messages."""
    metadata = mapping(raw.get("metadata"))
    namespace = text(metadata.get("namespace"))
    return f"{raw['kind']} {(f'{namespace}/' if namespace else '') + text(metadata.get('name'))!r}"


def _number(raw: Raw, field: str, least: int, file: str, default: int | None = None) -> int | None:
    """A field of the spec. Raises BadInput if it is no integer, or smaller than `least`."""
    written = mapping(raw.get("spec")).get(field)
    if written is None:
        return default
    if integer(written, least - 1) < least:
        raise BadInput(f"{file}: {_subject(raw)}: {field} is {written!r:.80}; write {least} or more")
    return integer(written)


def _controlled(documents: Iterable[Raw], file: str, before: int = 0) -> int:
    """The number of pods of the controllers. Raises BadInput if there are too many with those of earlier files."""
    count = sum(_count(raw, file) for raw in documents if text(raw["kind"]) in _CONTROLLERS)
    if before + count > _MOST_PODS:
        raise BadInput(
            f"{file}: the controllers have {before + count} pods, at most {_MOST_PODS} are allowed in all files"
        )
    return count


def _admit(ledger: Ledger, known: Iterable[Raw], documents: Sequence[Raw], file: str) -> Iterator[Raw]:
    """Creates the objects, and yields them with the fields that the API server sets. Raises BadInput."""
    classes = (raw for raw in (*known, *documents) if raw["kind"] == "PriorityClass")
    priorities = Priorities(classes)
    expanded = chain.from_iterable(_pods(raw, file) for raw in documents)
    for raw in _unique((_admitted(one, priorities, file) for one in chain(known, expanded)), file):
        event = read_object(_PLURALS[raw["kind"]], raw, ledger.settings)
        if event is None:
            raise BadInput(f"{file}: {_subject(raw)} is not valid")
        handle_event(ledger, event, 0.0)
        yield raw


def _count(raw: Raw, file: str) -> int:
    """The number of pods of a controller that exist at once."""
    count = _number(raw, _CONTROLLERS[raw["kind"]], 0, file, 1) or 0
    completions = _number(raw, "completions", 0, file) if raw["kind"] == "Job" else None
    return count if completions is None else min(count, completions)


def _pods(raw: Raw, file: str) -> Iterator[Raw]:
    """The object itself, or the pods of a controller. Controllers of two kinds with one name have distinct pods."""
    kind, spec, metadata = raw["kind"], mapping(raw.get("spec")), raw["metadata"]
    if kind in _PLURALS:
        yield raw
        return
    template = mapping(spec.get("template"))
    pod_spec = mapping(template.get("spec"))
    if (deadline := _number(raw, "activeDeadlineSeconds", 1, file)) is not None:
        pod_spec = {"activeDeadlineSeconds": deadline, **pod_spec}
    shared = {**mapping(template.get("metadata")), "namespace": text(metadata.get("namespace")) or "default"}
    shared.pop("uid", None)
    if names.ANNOTATION_GANG_SIZE in mapping(shared.get("annotations")):
        owner = {"kind": kind, "name": metadata["name"], "uid": f"{kind}/{metadata['name']}", "controller": True}
        shared["ownerReferences"] = [owner]
    prefix = metadata["name"] if kind == "StatefulSet" else f"{metadata['name']}-{kind.lower()}"
    for number in range(_count(raw, file)):
        yield {"kind": "Pod", "metadata": {**shared, "name": f"{prefix}-{number}"}, "spec": pod_spec}


def _admitted(raw: Raw, priorities: Priorities, file: str) -> Raw:
    """The object with the fields that the API server and the webhook set."""
    metadata = raw["metadata"]
    if raw["kind"] != "Pod":
        return {**raw, "metadata": {"uid": metadata["name"], **metadata}}
    metadata = {"namespace": "default", **metadata}
    metadata.setdefault("uid", f"{metadata['namespace']}.{metadata['name']}")
    spec = {"schedulerName": names.MUSTER, **with_requests(mapping(raw.get("spec")))}
    pod = {**raw, "metadata": metadata, "spec": spec}
    _number(pod, "activeDeadlineSeconds", 1, file)
    try:
        return {**pod, "spec": {**spec, **priorities.of(spec)}}
    except BadInput as error:
        raise BadInput(f"{file}: {_subject(pod)}: {error}") from error


def _unique(found: Iterable[Raw], file: str) -> Iterator[Raw]:
    """The objects. Raises BadInput if a node or pod would replace another one."""
    present = set[str]()
    for raw in found:
        if raw["kind"] in ("Node", "Pod"):
            for identity in (_subject(raw), f"{raw['kind']} with uid {_uid(raw)!r}"):
                if identity in present:
                    raise BadInput(f"{file}: has two objects: {identity}")
                present.add(identity)
        yield raw


def _uid(raw: Raw) -> str:
    return text(mapping(raw.get("metadata")).get("uid"))
