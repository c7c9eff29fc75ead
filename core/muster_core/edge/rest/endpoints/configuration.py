"""The configuration in force, and the check of another (contract 4, rows 3 and 4).

With several resource managers the configuration is that of the first by name,
or of the one that `rmId` in the query names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import yaml
from aiohttp import hdrs, web

from muster_core.edge.config import document
from muster_core.edge.config.load import DEFAULT_TEXT, checksum
from muster_core.edge.config.verdict import validate
from muster_core.edge.rest.answers import one, write
from muster_core.edge.rest.desk import Desk
from muster_core.edge.rest.failures import not_found
from muster_core.edge.rest.shapes.settings import Config, Verdict
from muster_core.edge.session import Session

_JSON: Final = "application/json"
_FILE_SUFFIX: Final = ".yaml"
#: YuniKorn's JSON writes the keys of the file so; all others begin with a capital letter only.
_NAMES: Final = {
    "placementrules": "PlacementRules",
    "quotapreemptionenabled": "QuotaPreemptionEnabled",
    "nodesortpolicy": "NodeSortPolicy",
    "resourceweights": "ResourceWeights",
    "usergroupresolver": "UserGroupResolver",
    "maxapplications": "MaxApplications",
    "maxresources": "MaxResources",
    "adminacl": "AdminACL",
    "submitacl": "SubmitACL",
    "childtemplate": "ChildTemplate",
}
#: Below these are people's own names.
_OWN_NAMES: Final = frozenset({"properties", "guaranteed", "max", "resourceweights", "maxresources"})
_FLAGS: Final = frozenset({"parent", "create", "enabled", "quotapreemptionenabled"})


async def config(desk: Desk, request: web.Request) -> web.StreamResponse:
    """Row 3: JSON where exactly that is accepted, else YAML."""
    session = _session(desk, request.query.get("rmId", ""))
    text = session.config_text if session and session.config_text.strip() else DEFAULT_TEXT
    extra = _settings(session.extra_config if session else {})
    async with desk.checking:
        data = await asyncio.to_thread(document.read, text)
    found = data if isinstance(data, dict) else {}
    if request.headers.get(hdrs.ACCEPT) == _JSON:
        partitions = _typed(found.get("partitions"), _go_name)
        shape = Config(
            Partitions=partitions if isinstance(partitions, list) else [],
            Checksum=checksum(text),
            Extra=extra,
            DeadlockDetectionEnabled=False,
            DeadlockTimeoutSeconds=0,
        )
        return await write(request, one(shape))
    shown = {
        "partitions": _typed(found.get("partitions"), str),
        "checksum": checksum(text),
        "extra": extra,
        "deadlockdetectionenabled": False,
        "deadlocktimeoutseconds": 0,
    }
    return web.Response(text=_yaml(shown), content_type="application/x-yaml", charset="utf-8")


async def validate_conf(desk: Desk, request: web.Request) -> web.StreamResponse:
    """Row 4: always an answer; what is wrong with the text stands in it."""
    body = await request.read()
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        return await write(request, one(Verdict(allowed=False, reason=f"the text is not UTF-8: {error.reason}")))
    async with desk.checking:
        found = await asyncio.to_thread(validate, text)
    shape = Verdict(
        allowed=found.allowed,
        reason=found.reason or None,
        checksum=found.checksum,
        checksumMatch=found.checksum_match,
    )
    return await write(request, one(shape))


def _yaml(shown: object) -> str:
    return str(yaml.dump(shown, Dumper=yaml.CSafeDumper, sort_keys=False))


def _session(desk: Desk, wanted: str) -> Session | None:
    sessions = desk.core.outlet.sessions
    if wanted:
        named = next((session for rm, session in sessions.items() if rm == wanted), None)
        if named is None:
            raise not_found("Resource manager not found")
        return named
    return min(sessions.values(), key=lambda session: (not session.is_open, session.rm), default=None)


def _settings(extra: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in sorted(extra.items()) if not key.endswith(_FILE_SUFFIX)}


def _typed(data: object, name_of: Callable[[str], str], key: str = "") -> object:
    """The same data with other names for the file's keys, and flags and counts as such."""
    if isinstance(data, list):
        return [_typed(item, name_of, key) for item in data]
    if isinstance(data, dict):
        if key in _OWN_NAMES:
            return {name: _number(value) if key == "resourceweights" else value for name, value in data.items()}
        return {name_of(name): _typed(value, name_of, name) for name, value in data.items()}
    if key in _FLAGS and isinstance(data, str):
        return data.lower() in {"true", "yes", "on"}
    return int(data) if key == "maxapplications" and isinstance(data, str) else data


def _go_name(name: str) -> str:
    return _NAMES.get(name, name.capitalize())


def _number(value: object) -> object:
    return float(value) if isinstance(value, str) else value
