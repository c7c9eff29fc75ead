"""The annotation user.info as text: what is written of a submitter, and what somebody else wrote, read strictly.

What runs later reads it leniently (a user nobody, contract 1.5); here the writer can still be told.
"""

from __future__ import annotations

import unicodedata
from typing import Final

import orjson

from muster_operator.admission.review import Submitter
from muster_operator.model.errors import BadInputError
from muster_operator.model.pods import UserInfo
from muster_operator.model.vocabulary import ANNOTATION_USER_INFO
from muster_operator.translate.raw import text

#: Characters of the annotation. All annotations of an object together have 256 KiB (Kubernetes, object validation).
LIMIT: Final = 64 * 1024
_FIX: Final = 'write {"user": "name", "groups": ["group"]}'


def of_submitter(submitter: Submitter) -> str:
    """The submitter as the annotation says it. Groups that do not fit are left out, the last ones first."""
    groups = [text(group) for group in submitter.groups]
    while True:
        written = orjson.dumps({"user": text(submitter.name), "groups": groups}).decode()
        if len(written) <= LIMIT or not groups:
            return written
        groups = groups[: len(groups) // 2]


def read(annotation: str) -> UserInfo:
    """The user and the groups. Raises BadInputError where it does not name them as it has to."""
    if len(annotation) > LIMIT:
        raise _bad(f"has {len(annotation)} characters, more than {LIMIT}")
    try:
        raw = orjson.loads(annotation)
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise _bad("is not JSON") from error
    if not isinstance(raw, dict):
        raise _bad("is not a JSON object")
    user, groups = raw.get("user"), raw.get("groups")
    if not isinstance(user, str) or not _is_name(user):
        raise _bad("has no user, or one that is not printable text")
    if groups is None:
        return UserInfo(user)
    if not isinstance(groups, list) or not all(isinstance(group, str) and _is_name(group) for group in groups):
        raise _bad("has groups that are not a list of printable texts")
    return UserInfo(user, tuple(groups))


def _is_name(name: str) -> bool:
    """Whether people can read it: no control characters, and not blank."""
    return bool(name.strip()) and not any(unicodedata.category(character) == "Cc" for character in name)


def _bad(problem: str) -> BadInputError:
    return BadInputError(ANNOTATION_USER_INFO, problem, _FIX)
