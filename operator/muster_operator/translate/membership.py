"""To which application a pod belongs: application id, queue, role, user (contract 1.1, 1.2, 1.5)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import orjson

from muster_operator.model import vocabulary as words
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.pods import GangSource, Membership, PodRef, UserInfo
from muster_operator.model.settings import Settings
from muster_operator.translate.raw import Raw, is_true, items, mapping, objects, strings, text

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
        f"{what}: {where} {key}={value} is ignored, {winner[0]} {winner[1]}={winner[2]} is used"
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


def _refusal(app: str) -> str:
    if len(app) <= _MAX_APP_ID:
        return ""
    return (
        f"application id {app[:40]}... has {len(app)} characters, more than {_MAX_APP_ID}; "
        f"set a shorter {words.LABEL_APP_ID}"
    )


@lru_cache(maxsize=1024)
def _user(annotation: str) -> tuple[UserInfo, str]:
    """The user, and what is wrong with an annotation that names none."""
    if not annotation:
        return _NOBODY, ""
    try:
        raw = mapping(orjson.loads(annotation))
    except (orjson.JSONDecodeError, RecursionError) as error:
        return _NOBODY, _ignored(f"it is not JSON ({str(error)[:80]})")
    user = text(raw.get("user"))
    if not user:
        return _NOBODY, _ignored('"user" is missing or empty')
    return UserInfo(user, tuple(group for group in map(text, items(raw.get("groups"))) if group)), ""


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


def _is_made_by_us(metadata: Raw) -> bool:
    return any(
        entry.get("manager") == words.PLACEHOLDER_FIELD_MANAGER and not entry.get("subresource")
        for entry in objects(metadata.get("managedFields"))
    )


def membership(metadata: Raw, ref: PodRef, settings: Settings) -> Membership:
    """What the pod's labels and annotations say about its application."""
    written = _written(metadata)
    annotations = written["annotation"]
    found, conflicts = _first("application id", _APP_ID_PLACES, written)
    queue, queue_conflicts = _first("queue", _QUEUE_PLACES, written)
    app = _app_id(found, ref, settings)
    notices = conflicts + queue_conflicts
    user, user_problem = _user(annotations.get(words.ANNOTATION_USER_INFO, ""))
    owner = _owner(metadata)
    says_placeholder = is_true(annotations.get(words.ANNOTATION_PLACEHOLDER))
    placeholder = says_placeholder and owner is not None and _is_made_by_us(metadata)
    if says_placeholder and not placeholder:
        notices += (f"annotation {words.ANNOTATION_PLACEHOLDER} is reserved and ignored here; remove it",)
    return Membership(
        app=AppId(app),
        queue=queue,
        task_group=annotations.get(words.ANNOTATION_TASK_GROUP_NAME, ""),
        placeholder=placeholder,
        owner=owner if placeholder else None,
        gang=GangSource(
            annotations.get(words.ANNOTATION_TASK_GROUPS, ""), annotations.get(words.ANNOTATION_PARAMETERS, "")
        ),
        user=user,
        resumed=annotations.get(words.ANNOTATION_GANG_OUTCOME) == words.GANG_RESUMED,
        refusal=_refusal(app),
        conflicts=notices,
        user_problem=user_problem,
    )
