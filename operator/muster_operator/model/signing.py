"""Signatures of placeholders, bindings and gang outcomes, and their keys. No I/O."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

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
        """Signs the texts in this order."""
        key = self.ids[0]
        return f"{VERSION}:{key}:{self._code(key, parts)}"

    def verify(self, signature: str, parts: Iterable[str]) -> Validity:
        """Verifies the signature of these texts."""
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


def _prepared(key: bytes, instance: str) -> hmac.HMAC:
    return hmac.new(key, _message((instance,)), hashlib.sha256)


def _message(parts: Iterable[str]) -> bytes:
    """The texts with their lengths, so that different lists of texts never have the same bytes."""
    parts = tuple(parts)
    text = "".join([f"{len(part)}:{part}" for part in parts])
    if text.isascii():  # names are ASCII, and this is faster
        return text.encode()
    encoded = [part.encode("utf-8", "replace") for part in parts]
    return b"".join([b"%d:%b" % (len(part), part) for part in encoded])
