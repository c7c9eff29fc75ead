"""Verification of signed placeholders and gang outcomes; bindings are signed in `tasks`.

Users can write annotations on their pods, so state that Muster stores there is used only if its signature is valid.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from msgspec import structs

from muster_operator.controller.state import Application, Ledger
from muster_operator.model import names, problems
from muster_operator.model.ids import application_name
from muster_operator.model.pods import Membership, PlaceholderClaim, Pod, PodRef, TaskGroup
from muster_operator.model.signing import Validity, placeholder_texts
from muster_operator.translate.placeholders import PLACEHOLDER_PREFIX, requests_text

_UNKNOWN: Final = problems.unknown_key()
_UNSIGNED: Final = problems.unsigned_placeholder()
_RESERVED_ANNOTATION: Final = problems.mark_ignored()


def settled(ledger: Ledger, pod: Pod) -> Pod:
    """Returns the pod with its claim to be a placeholder verified against the present keys."""
    member = pod.membership
    claim = member.claim
    if not member.marked and member.has_pause and pod.ref.name.startswith(PLACEHOLDER_PREFIX):
        pod = structs.replace(pod, membership=replace(member, marked=True))
        return pod if pod.node is not None else _refused(pod, problems.unsigned_name())
    if not member.marked:
        return pod
    if claim is None:
        return pod if pod.node is not None else _refused(pod)
    validity = verify(ledger, pod.seal, _placeholder(pod, member, claim)) if pod.seal else Validity.NONE
    refusal = "" if member.refusal in {_UNKNOWN, _UNSIGNED} else member.refusal
    if validity is Validity.UNKNOWN_KEY:
        ledger.unverified.add(pod.ref.uid)
        updated = replace(member, placeholder=False, owner=None, refusal=refusal)
        pod = structs.replace(pod, membership=updated)
        return pod if pod.node is not None else _refused(pod, _UNKNOWN)
    ledger.unverified.discard(pod.ref.uid)
    if validity is Validity.VALID:
        updated = replace(member, placeholder=True, owner=claim.owner, refusal=refusal)
    else:
        conflicts = (
            member.conflicts if _RESERVED_ANNOTATION in member.conflicts else (*member.conflicts, _RESERVED_ANNOTATION)
        )
        updated = replace(member, placeholder=False, owner=None, refusal=refusal, conflicts=conflicts)
        if pod.node is None:
            return _refused(structs.replace(pod, membership=updated))
    return structs.replace(pod, membership=updated)


def _refused(pod: Pod, why: str = _UNSIGNED) -> Pod:
    """Rejects a pod with the mark of placeholders and no valid signature. It counts if it is bound."""
    member = pod.membership
    return structs.replace(pod, membership=replace(member, refusal=member.refusal or why))


def is_resumed(ledger: Ledger, pod: Pod) -> bool:
    """Whether Muster marked on the pod that its gang was given up."""
    if not pod.membership.resumed or not pod.seal:
        return False
    return verify(ledger, pod.seal, _outcome(pod.ref)) is Validity.VALID


def sign_placeholder(ledger: Ledger, app: Application, group: TaskGroup, name: str, ordinal: int) -> str:
    """The signature of a placeholder; empty without a key."""
    owner = app.originator.ref
    texts = placeholder_texts(
        namespace=owner.namespace,
        name=name,
        owner=owner.uid,
        app=app.name,
        group=group.name,
        ordinal=str(ordinal),
        requests=requests_text(group),
    )
    return "" if ledger.keys is None else ledger.keys.sign(texts)


def sign_outcome(ledger: Ledger, pod: PodRef) -> str:
    """The signature of the mark on an originator whose gang was given up; empty without a key."""
    return "" if ledger.keys is None else ledger.keys.sign(_outcome(pod))


def verify(ledger: Ledger, signature: str, parts: tuple[str, ...]) -> Validity:
    """Verifies a signature. Without keys, every signature has an unknown key."""
    return Validity.UNKNOWN_KEY if ledger.keys is None else ledger.keys.verify(signature, parts)


def _placeholder(pod: Pod, member: Membership, claim: PlaceholderClaim) -> tuple[str, ...]:
    return placeholder_texts(
        namespace=pod.ref.namespace,
        name=pod.ref.name,
        owner=claim.owner,
        app=application_name(member.app),
        group=member.task_group,
        ordinal=pod.ordinal,
        requests=claim.requests,
    )


def _outcome(pod: PodRef) -> tuple[str, ...]:
    return ("gang-outcome", pod.namespace, pod.name, pod.uid, names.GANG_RESUMED)
