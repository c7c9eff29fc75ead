"""To which application a pod belongs: application id, queue, role, user (contract 1.1, 1.2, 1.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from weakref import WeakValueDictionary

import orjson

from muster_operator.model import limits
from muster_operator.model import vocabulary as words
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import PodUid, application_id
from muster_operator.model.pods import Claim, GangSource, Membership, PodRef, UserInfo
from muster_operator.model.settings import Settings
from muster_operator.model.signing import SIGNATURE_CHARACTERS
from muster_operator.translate.memo import Memo, digest
from muster_operator.translate.placeholders import PLACEHOLDER_CONTAINER
from muster_operator.translate.quantities import nanos
from muster_operator.translate.raw import Raw, is_true, items, mapping, objects, strings, text, text_bytes

_MAX_APP_ID: Final = 63
_NAMESPACE_IN_UNIQUE_ID: Final = 26
_UNIQUE_MARK: Final = "-uniqueautogen"
_NOBODY: Final = UserInfo()

#: (where it is written, key); the first that is set wins.
_APP_ID_PLACES: Final = (
    ("label", words.LABEL_APP_ID),
    ("annotation", words.LABEL_APP_ID),
    ("label", words.LEGACY_LABEL_APP_ID),
    ("label", words.SPARK_LABEL_APP_ID),
)
_QUEUE_PLACES: Final = (
    ("label", words.LABEL_QUEUE),
    ("annotation", words.LABEL_QUEUE),
    ("label", words.LEGACY_LABEL_QUEUE),
)


def _first(
    what: str, places: tuple[tuple[str, str], ...], written: dict[str, dict[str, str]]
) -> tuple[str, tuple[str, ...]]:
    """The winning value, and the losing ones that differ from it, as sentences."""
    found = [(where, key, written[where][key]) for where, key in places if written[where].get(key)]
    if not found:
        return "", ()
    winner = found[0]
    losers = tuple(
        f"{what}: {where} {key}={value[:_MAX_APP_ID]} is ignored, "
        f"{winner[0]} {winner[1]}={winner[2][:_MAX_APP_ID]} is used"
        for where, key, value in found[1:]
        if value != winner[2]
    )
    return winner[2], losers


def written_app_id(metadata: Raw) -> str:
    """The application id that labels or annotations name, empty = none."""
    return _first("application id", _APP_ID_PLACES, _written(metadata))[0]


def _written(metadata: Raw) -> dict[str, dict[str, str]]:
    return {"label": strings(metadata.get("labels")), "annotation": strings(metadata.get("annotations"))}


def shared_app_id(namespace: str) -> str:
    """The application of all pods of a namespace that name none. May be a label's value, so it ends in no dash."""
    return f"yunikorn-{namespace}-autogen"[:_MAX_APP_ID].rstrip("-")


def unique_app_id(namespace: str) -> str:
    """The application of one pod that names none and has no UID yet; the mark stands for the UID (contract 1.1)."""
    return f"{namespace[:_NAMESPACE_IN_UNIQUE_ID]}{_UNIQUE_MARK}"


def _app_id(found: str, ref: PodRef, settings: Settings) -> str:
    named = found or (unique_app_id if settings.unique_app_ids else shared_app_id)(ref.namespace)
    if named.endswith(_UNIQUE_MARK):
        return f"{named.removesuffix(_UNIQUE_MARK)}-{ref.uid}"
    return named


def _refusal(app: str, queue: str, task_group: str) -> str:
    if len(app) > _MAX_APP_ID:
        return (
            f"application id {app[:40]}... has {len(app)} characters, more than {_MAX_APP_ID}; "
            f"set a shorter {words.LABEL_APP_ID}"
        )
    if (size := text_bytes(queue)) > limits.QUEUE_BYTES:
        name, most = words.LABEL_QUEUE, limits.QUEUE_BYTES
        return f"queue {queue[:40]}... has {size} bytes, more than {most}; set a shorter {name}"
    if (size := text_bytes(task_group)) > limits.TASK_GROUP_NAME_BYTES:
        name, most = words.ANNOTATION_TASK_GROUP_NAME, limits.TASK_GROUP_NAME_BYTES
        return f"task group {task_group[:40]}... has {size} bytes, more than {most}; set a shorter {name}"
    return ""


def _user(annotation: str) -> tuple[UserInfo, str]:
    """The user, and what is wrong with an annotation that names none."""
    if not annotation:
        return _NOBODY, ""
    if (size := text_bytes(annotation)) > limits.USER_INFO_BYTES:
        return _NOBODY, _ignored(f"it has {size} bytes, more than {limits.USER_INFO_BYTES}")
    return _USERS.get(annotation.encode("utf-8", "replace"), _read_user)


def _read_user(annotation: bytes) -> tuple[UserInfo, str]:
    try:
        raw = mapping(orjson.loads(annotation))
    except (orjson.JSONDecodeError, RecursionError) as error:
        return _NOBODY, _ignored(f"it is not JSON ({str(error)[:80]})")
    user = text(raw.get("user"))
    if not user:
        return _NOBODY, _ignored('"user" is missing or empty')
    return UserInfo(user, tuple(group for group in map(text, items(raw.get("groups"))) if group)), ""


def _weight(found: tuple[UserInfo, str]) -> int:
    """Bytes of a user: the texts, and an object each."""
    return 256 + sum(64 + text_bytes(name) for name in (found[0].user, *found[0].groups, found[1]))


_USERS: Final[Memo[tuple[UserInfo, str]]] = Memo(_weight)
#: What pods say of gangs, once each, for as long as a pod says it: all members of a gang say the same.
_SOURCES: Final[WeakValueDictionary[bytes, GangSource]] = WeakValueDictionary()
_NO_GANG: Final = GangSource()


def _gang_source(annotations: dict[str, str]) -> GangSource:
    """What the pod says of its gang; a text that is too long is not kept."""
    groups = annotations.get(words.ANNOTATION_TASK_GROUPS, "")
    parameters = annotations.get(words.ANNOTATION_PARAMETERS, "")
    if not groups and not parameters:
        return _NO_GANG
    for name, written, most in (
        (words.ANNOTATION_TASK_GROUPS, groups, limits.TASK_GROUPS_BYTES),
        (words.ANNOTATION_PARAMETERS, parameters, limits.PARAMETERS_BYTES),
    ):
        if (size := text_bytes(written)) > most:
            return GangSource(problem=f"{name}: {size} bytes, more than {most}; write fewer or shorter entries")
    key = digest(b"%d %b%b" % (len(groups), groups.encode(), parameters.encode()))
    known = _SOURCES.get(key)
    if known is None:
        known = _SOURCES[key] = GangSource(groups, parameters)
    return known


def _ignored(problem: str) -> str:
    return (
        f"annotation {words.ANNOTATION_USER_INFO} is ignored, {problem}; the application is that of {_NOBODY.user}, "
        'write for example {"user": "ann", "groups": ["dev"]}'
    )


def _owner(metadata: Raw) -> PodUid | None:
    """The pod that owns this one, if a pod does."""
    for owner in objects(metadata.get("ownerReferences")):
        if owner.get("kind") == "Pod" and owner.get("apiVersion") == "v1":
            return PodUid(text(owner.get("uid")))
    return None


def _claim(metadata: Raw, spec: Raw, annotations: dict[str, str]) -> Claim | None:
    """What a pod says that claims to be a placeholder; None = it has no owner, or other requests than it says.

    Resources that it does not mention may have been added by a LimitRange.
    """
    owner = _owner(metadata)
    stated = annotations.get(words.ANNOTATION_PLACEHOLDER_REQUESTS, "")
    if owner is None or not stated or text_bytes(stated) > limits.TASK_GROUPS_BYTES:
        return None
    containers = objects(spec.get("containers"))
    own = next((one for one in containers if one.get("name") == PLACEHOLDER_CONTAINER), {})
    requests = mapping(mapping(own.get("resources")).get("requests"))
    try:
        said = mapping(orjson.loads(stated))
        if any(nanos(name, value) != nanos(name, requests.get(name)) for name, value in said.items()):
            return None
    except (orjson.JSONDecodeError, RecursionError, BadInputError):
        return None
    return Claim(owner, stated)


def signature(annotations: Mapping[str, str], key: str) -> str:
    """A signature of the pod; a text that is too long to be one is not kept."""
    found = annotations.get(key, "")
    return found if len(found) <= SIGNATURE_CHARACTERS else ""


def membership(metadata: Raw, ref: PodRef, settings: Settings, spec: Raw | None = None) -> Membership:
    """What the pod's labels and annotations say about its application."""
    written = _written(metadata)
    annotations = written["annotation"]
    found, conflicts = _first("application id", _APP_ID_PLACES, written)
    queue, queue_conflicts = _first("queue", _QUEUE_PLACES, written)
    app = _app_id(found, ref, settings)
    notices = conflicts + queue_conflicts
    user, user_problem = _user(annotations.get(words.ANNOTATION_USER_INFO, ""))
    says_placeholder = is_true(annotations.get(words.ANNOTATION_PLACEHOLDER))
    claim = _claim(metadata, spec or {}, annotations) if says_placeholder else None
    if says_placeholder and claim is None:
        notices += (f"annotation {words.ANNOTATION_PLACEHOLDER} is reserved and ignored here; remove it",)
    task_group = annotations.get(words.ANNOTATION_TASK_GROUP_NAME, "")
    refusal = _refusal(app, queue, task_group)
    return Membership(
        app=application_id(ref.namespace, app[: _MAX_APP_ID + 1], settings.sharing_groups),
        queue="" if refusal else queue,
        task_group="" if refusal else task_group,
        claim=claim,
        gang=_gang_source(annotations),
        user=user,
        resumed=annotations.get(words.ANNOTATION_GANG_OUTCOME) == words.GANG_RESUMED,
        refusal=refusal,
        conflicts=notices,
        user_problem=user_problem,
    )
