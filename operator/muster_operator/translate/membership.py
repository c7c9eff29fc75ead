"""The application, queue, user and gang of a pod, from its labels and annotations; the same keys of a PodGroup."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

import orjson

from muster_operator.model import limits, names, problems
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import PodUid, application_id
from muster_operator.model.pod_groups import PodGroup
from muster_operator.model.pods import GangSource, Membership, PlaceholderClaim, PodRef, UserInfo
from muster_operator.model.settings import Settings
from muster_operator.translate import go_json
from muster_operator.translate.gangs.declared import read_declared
from muster_operator.translate.gangs.pod_groups import read_labelled_pod_group, read_pod_group
from muster_operator.translate.known_names import pod_problems
from muster_operator.translate.placeholders import PLACEHOLDER_CONTAINER
from muster_operator.translate.values import (
    Raw,
    TranslationCache,
    digest,
    is_true,
    mapping,
    nanos,
    objects,
    strings,
    text,
    text_bytes,
)

_MAX_APP_ID: Final = limits.APPLICATION_ID_CHARACTERS
_NAMESPACE_IN_UNIQUE_ID: Final = 26
_UNIQUE_MARK: Final = "-uniqueautogen"
_NOBODY: Final = UserInfo()

#: Sources of the application ID as (label or annotation, key). The first one that is set takes precedence.
_APP_ID_PLACES: Final = (
    ("label", names.LABEL_APP_ID),
    ("annotation", names.LABEL_APP_ID),
    ("label", names.LEGACY_LABEL_APP_ID),
    ("label", names.SPARK_LABEL_APP_ID),
)

_QUEUE_PLACES: Final = (
    ("label", names.LABEL_QUEUE),
    ("annotation", names.LABEL_QUEUE),
    ("label", names.LEGACY_LABEL_QUEUE),
)


def _first(
    what: str, places: tuple[tuple[str, str], ...], written: dict[str, dict[str, str]]
) -> tuple[str, tuple[str, ...]]:
    """The value of the first source that is set, and a warning for each other source with a different value."""
    found = [(where, key, written[where][key]) for where, key in places if written[where].get(key)]
    if not found:
        return "", ()
    winner = found[0]
    losers = tuple(
        problems.label_ignored(what, _written_as(where, key, value), _written_as(*winner))
        for where, key, value in found[1:]
        if value != winner[2]
    )
    return winner[2], losers


def _written_as(where: str, key: str, value: str) -> str:
    return f"{where} {key}={value[:_MAX_APP_ID]}"


def written_app_id(metadata: Raw) -> str:
    """The application ID in the labels or annotations; empty if there is none."""
    return _first("application id", _APP_ID_PLACES, _written(metadata))[0]


def _written(metadata: Raw) -> dict[str, dict[str, str]]:
    return {"label": strings(metadata.get("labels")), "annotation": strings(metadata.get("annotations"))}


def shared_app_id(namespace: str) -> str:
    """The application ID of all pods of a namespace without an ID of their own. A valid label value, as in YuniKorn."""
    return f"yunikorn-{namespace}-autogen"[:_MAX_APP_ID].rstrip("-")


def unique_app_id(namespace: str) -> str:
    """The application ID of a pod without an ID and, before its creation, without a UID. As in YuniKorn.

    The suffix is replaced by the UID when the pod is read.
    """
    return f"{namespace[:_NAMESPACE_IN_UNIQUE_ID]}{_UNIQUE_MARK}"


def _own_app_id(namespace: str, found: str) -> str:
    """The application ID if a user has written it; empty if there is none, or a webhook has generated it."""
    return "" if found == shared_app_id(namespace) or found.endswith(_UNIQUE_MARK) else found


def _app_id(found: str, ref: PodRef, settings: Settings) -> str:
    named = found or (unique_app_id if settings.unique_app_ids else shared_app_id)(ref.namespace)
    if named.endswith(_UNIQUE_MARK):
        return f"{named.removesuffix(_UNIQUE_MARK)}-{ref.uid}"
    return named


def _shortened_app_id(app: str) -> str:
    """Replaces an application ID that is too long, for a pod that is bound already."""
    return f"too-long-{digest(app.encode('utf-8', 'replace')).hex()[:32]}"


def gang_app_id(namespace: str, metadata: Raw, spec: Raw) -> str:
    """The application ID of a pod without one: the name of its gang; empty = its gang has no name."""
    pod_group, declared, _ = _named_gang(namespace, metadata, spec, _written(metadata), is_off=False)
    return _default_app_id(pod_group, declared)


def pod_group_app_id(name: str) -> str:
    """The application ID of the pods of a PodGroup without one: its name."""
    return _shortened_app_id(name) if len(name) > _MAX_APP_ID else name


def _default_app_id(pod_group: str, declared: PodGroup | None) -> str:
    return pod_group_app_id(pod_group.rpartition("=")[2] if declared is None else declared.name)


def _named_gang(
    namespace: str, metadata: Raw, spec: Raw, written: dict[str, dict[str, str]], *, is_off: bool
) -> tuple[str, PodGroup | None, tuple[str, ...]]:
    """The PodGroup of a pod, itself if the pod declares it, and warnings about what else defines a gang.

    ``spec.schedulingGroup`` takes precedence, then the annotations of YuniKorn. ``is_off``: labels and annotations
    define no gangs.
    """
    pod_group = text(mapping(spec.get("schedulingGroup")).get("podGroupName"))
    app = _own_app_id(namespace, _first("application id", _APP_ID_PLACES, written)[0])
    found, notices = ([], ()) if is_off else read_declared(namespace, written, metadata, app)
    if not found:
        return pod_group, None, notices
    annotations, declared = written["annotation"], None
    if pod_group:
        used = "spec.schedulingGroup"
    elif key := next(filter(annotations.get, (names.ANNOTATION_TASK_GROUPS, names.ANNOTATION_TASK_GROUP_NAME)), ""):
        used = key
    else:
        declared = found.pop(0)
        pod_group, used = declared.id, declared.declared_by
        if used == names.LABEL_POD_GROUP:  # it is an object
            declared = None
    others = (problems.other_gang_ignored(group.declared_by, used) for group in found)
    return pod_group, declared, (*notices, *others)


def _refusal(app: str, queue: str, task_group: str) -> str:
    if len(app) > _MAX_APP_ID:
        return problems.application_id_too_long(app, len(app), _MAX_APP_ID)
    if (size := text_bytes(queue)) > limits.QUEUE_BYTES:
        return problems.name_too_long("queue", queue, size, limits.QUEUE_BYTES, names.LABEL_QUEUE)
    if (size := text_bytes(task_group)) > limits.TASK_GROUP_NAME_BYTES:
        name, most = names.ANNOTATION_TASK_GROUP_NAME, limits.TASK_GROUP_NAME_BYTES
        return problems.name_too_long("task group", task_group, size, most, name)
    return ""


def _user(annotation: str) -> tuple[UserInfo, str]:
    """The user, and the problem of an annotation that cannot be used."""
    if not annotation:
        return _NOBODY, ""
    if (size := text_bytes(annotation)) > limits.USER_INFO_BYTES:
        return _no_user(f"it has {size} bytes, more than {limits.USER_INFO_BYTES}")
    return _USERS.get(annotation.encode("utf-8", "replace"), _read_user)


def _no_user(problem: str) -> tuple[UserInfo, str]:
    return _NOBODY, problems.user_annotation_ignored(problem, _NOBODY.user)


#: Characters of the problem of a user annotation in its event.
_PROBLEM_SHOWN: Final = 200


def _read_user(annotation: bytes) -> tuple[UserInfo, str]:
    try:
        user, groups, warnings = go_json.user_info("user.info", annotation.decode())
    except BadInputError as error:
        return _no_user(str(error).removeprefix("user.info: ")[:_PROBLEM_SHOWN])
    if not user:
        return _no_user(
            "; ".join(['"user" is missing or empty', *(warnings or ['write {"user": "ann", "groups": ["dev"]}'])])
        )
    if not all(map(go_json.is_printable_name, filter(None, (user, *groups)))):
        return _no_user("a name is blank or has control characters")
    return UserInfo(user, tuple(group for group in groups if group)), ""


def _weight(found: tuple[UserInfo, str]) -> int:
    """Estimated bytes of a cache entry: the texts, and one object each."""
    return 256 + sum(64 + text_bytes(name) for name in (found[0].user, *found[0].groups, found[1]))


_USERS: Final[TranslationCache[tuple[UserInfo, str]]] = TranslationCache(_weight)

#: One shared object per gang definition, because all pods of a gang repeat it. Dropped with the last pod that uses it.
_SOURCES: Final[WeakValueDictionary[bytes, GangSource]] = WeakValueDictionary()
_NO_GANG: Final = GangSource()


def gang_source(annotations: dict[str, str]) -> GangSource:
    """The gang annotations of the pod. A text that is too long is replaced by a problem."""
    groups = annotations.get(names.ANNOTATION_TASK_GROUPS, "")
    parameters = annotations.get(names.ANNOTATION_PARAMETERS, "")
    if not groups and not parameters:
        return _NO_GANG
    for name, written, most in (
        (names.ANNOTATION_TASK_GROUPS, groups, limits.TASK_GROUPS_BYTES),
        (names.ANNOTATION_PARAMETERS, parameters, limits.PARAMETERS_BYTES),
    ):
        if (size := text_bytes(written)) > most:
            return GangSource(problem=problems.annotation_too_large(name, size, most))
    key = digest(b"%d %b%b" % (len(groups), groups.encode(), parameters.encode()))
    known = _SOURCES.get(key)
    if known is None:
        known = _SOURCES[key] = GangSource(groups, parameters)
    return known


def _owner(metadata: Raw) -> PodUid | None:
    """UID of the pod that owns this pod, or None."""
    for owner in objects(metadata.get("ownerReferences")):
        if owner.get("kind") == "Pod" and owner.get("apiVersion") == "v1":
            return PodUid(text(owner.get("uid")))
    return None


#: Characters of a placeholder's requests in a message.
_MAX_REQUESTS_SHOWN: Final = 200


def _thousandths(name: str, value: object) -> int:
    return -(-nanos(name, value) // 1_000_000)


def _claim(metadata: Raw, spec: Raw, annotations: dict[str, str]) -> PlaceholderClaim | None:
    """Data of a pod that is marked as a placeholder. Returns None if it has no owner or no valid requests annotation.

    A LimitRange can add other resources to the pod, so that only the listed resources are compared. Kubernetes rounds
    amounts up to thousandths.
    """
    owner = _owner(metadata)
    stated = annotations.get(names.ANNOTATION_PLACEHOLDER_REQUESTS, "")
    if owner is None or not stated or text_bytes(stated) > limits.TASK_GROUPS_BYTES:
        return None
    containers = objects(spec.get("containers"))
    own = next((one for one in containers if one.get("name") == PLACEHOLDER_CONTAINER), {})
    requests = mapping(mapping(own.get("resources")).get("requests"))
    try:
        signed = mapping(orjson.loads(stated))
        if any(_thousandths(name, value) != _thousandths(name, requests.get(name)) for name, value in signed.items()):
            has = orjson.dumps({name: requests.get(name) for name in signed}, option=orjson.OPT_SORT_KEYS).decode()
            return PlaceholderClaim(owner, stated, has[:_MAX_REQUESTS_SHOWN])
    except (orjson.JSONDecodeError, RecursionError, BadInputError):
        return None
    return PlaceholderClaim(owner, stated)


def membership(metadata: Raw, ref: PodRef, settings: Settings, spec: Raw | None = None) -> Membership:
    """Application, queue, user and gang of the pod, from its labels and annotations."""
    written = _written(metadata)
    annotations = written["annotation"]
    found, conflicts = _first("application id", _APP_ID_PLACES, written)
    queue, queue_conflicts = _first("queue", _QUEUE_PLACES, written)
    pod_group, declared, ignored = _named_gang(
        ref.namespace, metadata, spec or {}, written, is_off=settings.disable_gang
    )
    notices = (*conflicts, *queue_conflicts, *ignored)
    app = _own_app_id(ref.namespace, found) or _default_app_id(pod_group, declared) or found
    app = _app_id(app, ref, settings)
    user, user_problem = _user(annotations.get(names.ANNOTATION_USER_INFO, ""))
    is_marked = is_true(annotations.get(names.ANNOTATION_PLACEHOLDER))
    claim = _claim(metadata, spec or {}, annotations) if is_marked else None
    if is_marked and claim is None:
        notices += (problems.mark_ignored(),)
    task_group = annotations.get(names.ANNOTATION_TASK_GROUP_NAME, "")
    if text((spec or {}).get("nodeName")):  # a bound pod uses resources, so that it is never rejected
        app = _shortened_app_id(app) if len(app) > _MAX_APP_ID else app
        queue = queue if text_bytes(queue) <= limits.QUEUE_BYTES else ""
        task_group = task_group if text_bytes(task_group) <= limits.TASK_GROUP_NAME_BYTES else ""
    refusal = _refusal(app, queue, task_group)
    if declared is not None:
        declared = replace(declared, app=app[: _MAX_APP_ID + 1], queue="" if refusal else queue)
    return Membership(
        app=application_id(ref.namespace, app[: _MAX_APP_ID + 1], settings.sharing_groups),
        queue="" if refusal else queue,
        task_group="" if refusal else task_group,
        marked=is_marked,
        has_pause=any(one.get("name") == PLACEHOLDER_CONTAINER for one in objects((spec or {}).get("containers"))),
        claim=claim,
        gang=gang_source(annotations),
        user=user,
        resumed=annotations.get(names.ANNOTATION_GANG_OUTCOME) == names.GANG_RESUMED,
        refusal=refusal,
        conflicts=notices,
        user_problem=user_problem,
        misspelt=() if text((spec or {}).get("nodeName")) else pod_problems(metadata),
        pod_group=pod_group,
        declared=declared,
    )


def read_group(raw: Raw) -> PodGroup | None:
    """Translates a PodGroup, with the keys that pods have too. Returns None if it has no name or UID."""
    return read_pod_group(raw, *_keys(raw))


def read_labelled_group(raw: Raw) -> PodGroup | None:
    """The same for a PodGroup of scheduler-plugins."""
    return read_labelled_pod_group(raw, *_keys(raw))


def _keys(raw: Raw) -> tuple[str, str]:
    """The application ID and the queue of a PodGroup."""
    written = _written(mapping(raw.get("metadata")))
    return _first("application id", _APP_ID_PLACES, written)[0], _first("queue", _QUEUE_PLACES, written)[0]
