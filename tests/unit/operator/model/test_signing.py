"""A signature is valid only for its texts, its installation and one of its keys."""

import base64
import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_operator.model.signing import SIGNATURE_CHARACTERS, SigningKeys, Validity, key_id

OLD, NEW = b"o" * 32, b"n" * 32
TEXTS = st.lists(st.text(max_size=5), max_size=4)


@given(signed=TEXTS, read=TEXTS)
def test_a_signature_is_valid_only_for_the_signed_texts(signed: list[str], read: list[str]) -> None:
    keys = SigningKeys("muster", [NEW])
    same = [one.encode("utf-8", "replace") for one in signed] == [one.encode("utf-8", "replace") for one in read]
    assert keys.verify(keys.sign(signed), read) is (Validity.VALID if same else Validity.INVALID)


@given(TEXTS)
def test_a_signature_covers_the_instance_and_the_texts_as_json_lists(texts: list[str]) -> None:
    """Signatures are stored on pods, so this format must not change."""
    lists = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in (["muster"], texts)]
    message = "".join(lists).encode("utf-8", "replace")
    code = base64.urlsafe_b64encode(hmac.digest(NEW, message, hashlib.sha256)).rstrip(b"=").decode()
    assert SigningKeys("muster", [NEW]).sign(texts) == f"v1:{key_id(NEW)}:{code}"


def test_a_text_that_is_not_valid_unicode_is_signed_with_replacement_characters() -> None:
    keys = SigningKeys("muster", [NEW])
    assert keys.sign(["a\ud800"]) == keys.sign(["a?"])


def test_the_current_key_signs_and_the_previous_one_still_verifies() -> None:
    before, after = SigningKeys("muster", [OLD]), SigningKeys("muster", [NEW, OLD])
    assert after.sign(["x"]).startswith(f"v1:{key_id(NEW)}:")
    assert after.verify(before.sign(["x"]), ["x"]) is Validity.VALID
    assert before.verify(after.sign(["x"]), ["x"]) is Validity.UNKNOWN_KEY
    assert len(after.sign(["x" * 10_000])) <= SIGNATURE_CHARACTERS


def test_a_signature_of_another_installation_with_the_same_key_is_invalid() -> None:
    assert SigningKeys("b", [NEW]).verify(SigningKeys("a", [NEW]).sign(["x"]), ["x"]) is Validity.INVALID


@pytest.mark.parametrize(
    "signature, worth",
    [
        ("", Validity.NONE),
        ("v1", Validity.INVALID),
        (f"v1:{key_id(NEW)}:", Validity.INVALID),
        (f"v1:{key_id(NEW)}:\u00e4", Validity.INVALID),
        (f"v1:{key_id(NEW)}:" + "A" * 43, Validity.INVALID),
        ("v1:0:" + "A" * 10_000, Validity.INVALID),
        (f"v2:{key_id(NEW)}:" + "A" * 43, Validity.UNKNOWN_KEY),
        ("v1:0:" + "A" * 43, Validity.UNKNOWN_KEY),
    ],
)
def test_a_malformed_or_unknown_signature_is_not_valid(signature: str, worth: Validity) -> None:
    assert SigningKeys("muster", [NEW]).verify(signature, ["x"]) is worth
