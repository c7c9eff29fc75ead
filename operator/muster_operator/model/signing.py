"""Signatures of placeholders and their keys. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

VERSION: Final = "v1"
#: The Secret with the keys, and its entries: the key that signs, and one that only verifies.
SECRET: Final = "muster-signing"  # noqa: S105 - its name
CURRENT: Final = "current"
PREVIOUS: Final = "previous"
#: Bytes of a key; shorter keys are not used.
KEY_BYTES: Final = 32
#: Characters of a signature; longer texts are none.
SIGNATURE_CHARACTERS: Final = 80
_KEY_ID_CHARACTERS: Final = 12


class Validity(Enum):
    """What a signature is worth."""

    NONE = "there is no signature"
    VALID = "Muster signed this"
    UNKNOWN_KEY = "signed with a key that Muster does not have"
    INVALID = "not a signature of this"


class SigningKeys:
    """The keys of one installation; the first one signs, all of them verify. Equal if they sign and verify alike."""

    def __init__(self, instance: str, keys: Sequence[bytes]) -> None:
        if not keys:
            raise ValueError("at least one key is needed")
        self.ids = tuple(key_id(key) for key in keys)
        self._instance = instance
        self._prepared = {key_id(key): _prepared(key, instance) for key in keys}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SigningKeys):
            return NotImplemented
        return (self.ids, self._instance) == (other.ids, other._instance)

    def __hash__(self) -> int:
        return hash((self.ids, self._instance))

    def __repr__(self) -> str:
        return f"SigningKeys({', '.join(self.ids)})"

    def sign(self, parts: Iterable[str]) -> str:
        """The signature of these texts, in this order."""
        key = self.ids[0]
        return f"{VERSION}:{key}:{self._code(key, parts)}"

    def verify(self, signature: str, parts: Iterable[str]) -> Validity:
        """What the signature is worth for these texts."""
        if not signature:
            return Validity.NONE
        fields = signature.split(":")
        if len(signature) > SIGNATURE_CHARACTERS or len(fields) != 3 or not signature.isascii():
            return Validity.INVALID
        version, key, code = fields
        if version != VERSION or key not in self._prepared:
            return Validity.UNKNOWN_KEY
        return Validity.VALID if hmac.compare_digest(self._code(key, parts), code) else Validity.INVALID

    def _code(self, key: str, parts: Iterable[str]) -> str:
        code = self._prepared[key].copy()
        code.update(_message(parts))
        return base64.urlsafe_b64encode(code.digest()).rstrip(b"=").decode()


def read_key(written: str) -> bytes | None:
    """The key of an entry of the Secret; None = it cannot be used."""
    try:
        key = base64.b64decode(written, validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) >= KEY_BYTES else None


def placeholder_texts(  # noqa: PLR0913 - these are signed
    *, namespace: str, name: str, owner: str, app: str, group: str, ordinal: str, requests: str
) -> tuple[str, ...]:
    """What the signature of a placeholder signs. `owner`: UID of the originator; `app`: the plain application ID."""
    return ("placeholder", namespace, name, owner, app, group, ordinal, requests)


def key_id(key: bytes) -> str:
    """The name of a key, which says nothing of it."""
    return hashlib.sha256(b"muster key id\0" + key).hexdigest()[:_KEY_ID_CHARACTERS]


def _prepared(key: bytes, instance: str) -> hmac.HMAC:
    return hmac.new(key, _message((instance,)), hashlib.sha256)


def _message(parts: Iterable[str]) -> bytes:
    """The texts, each after its length, so that no two lists of texts are the same bytes."""
    encoded = [part.encode("utf-8", "replace") for part in parts]
    return b"".join([b"%d:%b" % (len(part), part) for part in encoded])
