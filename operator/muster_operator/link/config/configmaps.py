"""Reads the configuration from the ConfigMaps of our namespace: Muster's own, or YuniKorn's where there are none.

`muster-defaults` overlaid by `muster-configs`; if neither exists, `yunikorn-defaults` overlaid by `yunikorn-configs`
(contract 3). None has to exist. Entries of `binaryData` that end in `.gz` are unpacked and win over `data`.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import Any, Final

from muster_operator.link.api.session import KubeSession
from muster_operator.link.errors import ApiRefused, BadSetting

#: In the order of asking; within a pair the later one wins.
PAIRS: Final = (("muster-defaults", "muster-configs"), ("yunikorn-defaults", "yunikorn-configs"))
NAMES: Final = frozenset(name for pair in PAIRS for name in pair)
#: Largest unpacked entry, bytes: a queue configuration for thousands of queues, but no bomb.
UNPACKED_LIMIT: Final = 16 * 1024 * 1024


async def read_entries(session: KubeSession, namespace: str) -> dict[str, str]:
    """The merged entries that are in force.

    Raises:
        ApiRefused: the API server does not let us read them.
        Unreachable: it did not answer.
        BadSetting: a compressed entry cannot be unpacked.
    """
    for pair in PAIRS:
        found = [await _read(session, namespace, name) for name in pair]
        if any(config_map is not None for config_map in found):
            return merged([config_map or {} for config_map in found])
    return {}


def merged(config_maps: list[Mapping[str, Any]]) -> dict[str, str]:
    """The entries of several ConfigMaps, later ones over earlier ones.

    Raises:
        BadSetting: a compressed entry cannot be unpacked.
    """
    entries: dict[str, str] = {}
    for config_map in config_maps:
        entries.update(config_map.get("data") or {})
        for key, value in (config_map.get("binaryData") or {}).items():
            if key.endswith(".gz"):
                entries[key.removesuffix(".gz")] = _unpacked(key, value)
    return entries


async def _read(session: KubeSession, namespace: str, name: str) -> dict[str, Any] | None:
    """One ConfigMap, None = there is none."""
    try:
        return await session.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    except ApiRefused as error:
        if error.status == 404:
            return None
        raise


def _unpacked(key: str, value: str) -> str:
    fix = "write a gzip of UTF-8 text (of at most 16 MiB) under a key that ends in .gz"
    try:
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        text = unpacker.decompress(base64.b64decode(value, validate=True), UNPACKED_LIMIT)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise BadSetting(key, f"{len(value)} characters", fix)
        return text.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        raise BadSetting(key, f"{len(value)} characters", fix) from error
