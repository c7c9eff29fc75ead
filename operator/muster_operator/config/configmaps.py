"""Reads and merges the ConfigMaps of Muster."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from muster_operator.kube.session import KubeSession
from muster_operator.model.errors import ApiRefused, BadSetting
from muster_operator.translate.values import Raw, mapping, text

#: Names of ConfigMaps. The first pair of which one exists is used; within a pair the second one takes precedence.
PAIRS: Final = (("muster-defaults", "muster-configs"), ("yunikorn-defaults", "yunikorn-configs"))
NAMES: Final = frozenset(name for pair in PAIRS for name in pair)

#: Maximum bytes of an unpacked entry: enough for thousands of queues, and a limit for compression bombs.
UNPACKED_LIMIT: Final = 16 * 1024 * 1024

#: Suffix of the keys in `binaryData` that are unpacked.
PACKED: Final = ".gz"


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Identifies a ConfigMap, for events about its entries."""

    name: str
    uid: str


async def read_config_maps(session: KubeSession, namespace: str, new: Raw | None = None) -> tuple[Raw, ...]:
    """Returns the ConfigMaps in use, by increasing precedence; empty if there are none.

    `new`: a ConfigMap that is used in place of the stored one of its name, for validation.

    Raises:
        ApiRefused: the API server answered with an error.
        Unreachable: there was no answer.
    """
    known = {} if new is None else {text(mapping(new.get("metadata")).get("name")): new}
    for pair in PAIRS:
        read = [known.get(name) or await _read(session, namespace, name) for name in pair]
        if found := tuple(config_map for config_map in read if config_map is not None):
            return found
    return ()


def is_yunikorns(config_maps: Sequence[Raw]) -> bool:
    """Whether the ConfigMaps in use have YuniKorn's names."""
    return bool(config_maps) and _source(config_maps[0]).name in PAIRS[1]


def merged(config_maps: Iterable[Raw]) -> dict[str, str]:
    """Merges the entries of several ConfigMaps; later ones take precedence.

    Raises:
        BadSetting: a compressed entry cannot be unpacked.
    """
    entries: dict[str, str] = {}
    for config_map in config_maps:
        entries.update(config_map.get("data") or {})
        for key, value in (config_map.get("binaryData") or {}).items():
            if key.endswith(PACKED):
                entries[key.removesuffix(PACKED)] = _unpacked(key, value)
    return entries


def source(config_maps: Sequence[Raw], key: str = "") -> ConfigSource | None:
    """The ConfigMap whose value of the key is used. If none has the key, the last one; None if there are none."""
    for config_map in reversed(config_maps):
        written = {*(config_map.get("data") or {}), *(config_map.get("binaryData") or {})}
        if not written.isdisjoint({key, key + PACKED}):
            return _source(config_map)
    return _source(config_maps[-1]) if config_maps else None


def _source(config_map: Raw) -> ConfigSource:
    metadata = mapping(config_map.get("metadata"))
    return ConfigSource(text(metadata.get("name")), text(metadata.get("uid")))


async def _read(session: KubeSession, namespace: str, name: str) -> Raw | None:
    """Reads one ConfigMap. Returns None if it does not exist."""
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
        packed = base64.b64decode(value, validate=True)
        unpacked = unpacker.decompress(packed, UNPACKED_LIMIT)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise BadSetting(key, f"{len(value)} characters", fix)
        return unpacked.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        raise BadSetting(key, f"{len(value)} characters", fix) from error
