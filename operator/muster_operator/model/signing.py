"""Signatures of placeholders, bindings and gang outcomes, and their keys. No I/O."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from enum import Enum
from typing import Final

import orjson

VERSION: Final = "v1"
#: Name and entries of the Secret: the key for signatures, and one for verification only.
SECRET: Final = "muster-signing"  # noqa: S105 - a name
CURRENT: Final = "current"
PREVIOUS: Final = "previous"
#: Minimum bytes of a key.
KEY_BYTES: Final = 32
#: Maximum characters of a signature.
SIGNATURE_CHARACTERS: Final = 80
_KEY_ID_CHARACTERS: Final = 12


class Validity(Enum):
    """The result of verifying a signature."""

    NONE = "there is no signature"
    VALID = "Muster signed this"
    UNKNOWN_KEY = "signed with a key that Muster does not have"
    INVALID = "not a signature of this"


class SigningKeys:
    """The keys of one installation. The first one signs, all verify. Equal if they have the same keys and instance."""

    def __init__(self, instance: str, keys: Sequence[bytes]) -> None:
        if not keys:
            raise ValueError("at least one key is needed")
        self.ids = tuple(key_id(key) for key in keys)
        self._instance = instance
        self._prepared = {key_id(key): hmac.new(key, _message((instance,)), hashlib.sha256) for key in keys}
        self._current, self._start = self._prepared[self.ids[0]], f"{VERSION}:{self.ids[0]}:"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SigningKeys):
            return NotImplemented
        return (self.ids, self._instance) == (other.ids, other._instance)

    def __hash__(self) -> int:
        return hash((self.ids, self._instance))

    def __repr__(self) -> str:
        return f"SigningKeys({', '.join(self.ids)})"

    def sign(self, parts: Sequence[str]) -> str:
        """Signs the texts in this order."""
        return self._start + _code(self._current, parts)

    def verify(self, signature: str, parts: Sequence[str]) -> Validity:
        """Verifies the signature of these texts."""
        if not signature:
            return Validity.NONE
        fields = signature.split(":")
        if len(signature) > SIGNATURE_CHARACTERS or len(fields) != 3 or not signature.isascii():
            return Validity.INVALID
        version, key, code = fields
        if version != VERSION or key not in self._prepared:
            return Validity.UNKNOWN_KEY
        return Validity.VALID if hmac.compare_digest(_code(self._prepared[key], parts), code) else Validity.INVALID


def read_key(written: str) -> bytes | None:
    """Decodes an entry of the Secret. Returns None if it is not a valid key."""
    try:
        key = base64.b64decode(written, validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) >= KEY_BYTES else None


def placeholder_texts(  # noqa: PLR0913 - these are signed
    *, namespace: str, name: str, owner: str, app: str, group: str, ordinal: str, requests: str
) -> tuple[str, ...]:
    """The signed texts of a placeholder. `owner`: UID of the originator; `app`: application ID without namespace."""
    return ("placeholder", namespace, name, owner, app, group, ordinal, requests)


def key_id(key: bytes) -> str:
    """The public name of a key, from which the key cannot be derived."""
    return hashlib.sha256(b"muster key id\0" + key).hexdigest()[:_KEY_ID_CHARACTERS]


def _code(prepared: hmac.HMAC, parts: Sequence[str]) -> str:
    """The code of these texts after those that the prepared code contains, in base64."""
    code = prepared.copy()
    code.update(_message(parts))
    return base64.urlsafe_b64encode(code.digest()).rstrip(b"=").decode()


def _message(parts: Sequence[str]) -> bytes:
    """The texts as a JSON list, so that different lists of texts never have the same bytes."""
    try:
        return orjson.dumps(parts)
    except orjson.JSONEncodeError:  # a text is not valid Unicode
        return orjson.dumps([part.encode("utf-8", "replace").decode() for part in parts])
