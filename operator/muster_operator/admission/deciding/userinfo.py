"""Whose a pod is: who may write it, what is written where nothing is, and what is refused (contract 1.5, 7).

The rules, for pods and for what pods are made of, on CREATE and on UPDATE alike:

1. What was there before and is still there is nobody's doing now: allowed, whoever changes something else.
   So whoever may change a workload runs pods of its owner, as he runs them with its service account.
2. The trusted may write whom they like, if it can be read (`access`).
3. Others may write themselves. Their groups are those that the API server knows, whatever they write.
4. A pod stays whose it is. A workload that is written anew without its owner keeps him.
5. Where nothing is written, it is the submitter. But what a trusted controller made of a workload is as the workload
   says: a workload from before Muster makes pods of nobody, not of the controller.

Differs: YuniKorn checks an UPDATE of pods only, and of workloads nothing; it refuses 3; by 5 the controller would own.
Differs: a pod that names us in a namespace that is not served gets its owner too, and so do templates without an
application's id: else one could leave one's limits behind. Differs: with bypassAuth the owner is written as the
documentation of YuniKorn says; its source writes nothing then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster_operator.admission.deciding import identity
from muster_operator.admission.deciding.access import is_trusted
from muster_operator.admission.deciding.case import Case
from muster_operator.admission.kinds import is_made_of_a_template
from muster_operator.model import vocabulary as words
from muster_operator.model.admission import AccessRules
from muster_operator.model.errors import BadInputError

_OWNER: Final = words.ANNOTATION_USER_INFO
#: Of a name in a message.
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Verdict:
    """`written`: what the annotation has to be, None = as it is."""

    refusal: str = ""
    written: str | None = None
    warning: str = ""


_AS_IT_IS: Final = Verdict()


def judged(case: Case, rules: AccessRules) -> Verdict:
    """What becomes of the annotation."""
    stated, before = case.annotations.get(_OWNER, ""), case.old_annotations.get(_OWNER, "")
    if not stated and not before:
        return _filled(case, rules)
    if stated == before or rules.bypass_auth:
        return _AS_IT_IS
    if is_trusted(case.submitter, rules):
        return Verdict(_problem(case, stated)) if stated else _AS_IT_IS
    if case.kind.is_pod and not case.is_create:
        return Verdict(f"{case.where(_OWNER)} says whose the pod is and cannot change: leave it as it was")
    if stated:
        return _stated(case, stated, before)
    return Verdict(written=before) if _owner(before) else _filled(case, rules)


def _stated(case: Case, stated: str, before: str) -> Verdict:
    """What somebody wrote who may write himself only."""
    mine = identity.of_submitter(case.submitter)
    if stated == mine and not before:
        return _AS_IT_IS
    if problem := _problem(case, stated):
        return Verdict(problem)
    said = identity.read(stated)
    user, owner = said.user, _owner(before)
    if user == case.submitter.name and owner in {"", user}:
        return _himself(case, stated, mine, said.groups)
    if user == owner:
        return Verdict(written=before, warning=f"{case.where(_OWNER)}: only {owner[:_SHOWN]!r} can renew the groups")
    return Verdict(_forged(case, user, owner))


def _himself(case: Case, stated: str, mine: str, groups: tuple[str, ...]) -> Verdict:
    if stated == mine:
        return _AS_IT_IS
    differ = set(groups) != set(case.submitter.groups)
    return Verdict(written=mine, warning=f"{case.where(_OWNER)}: the groups are those of your login" if differ else "")


def _forged(case: Case, user: str, owner: str) -> str:
    if owner:
        said = f"would change from {owner[:_SHOWN]!r} to {user[:_SHOWN]!r}"
    else:
        said = f"says {user[:_SHOWN]!r}, but you are {case.submitter.name[:_SHOWN]!r}"
    return (
        f"{case.where(_OWNER)} {said}: leave it out, it is written for you; "
        "who has to write other users' names needs to be in admissionController.accessControl.externalUsers"
    )


def _filled(case: Case, rules: AccessRules) -> Verdict:
    """Nothing is written and nothing was. A template that does not change otherwise is left, or all its pods would be
    replaced; a stored pod keeps what it has.
    """
    if not case.ours or not case.submitter.name:
        return _AS_IT_IS
    if not case.is_create and (case.kind.is_pod or case.new == case.old):
        return _AS_IT_IS
    if is_made_of_a_template(case.review.object) and is_trusted(case.submitter, rules):
        return _AS_IT_IS
    return Verdict(written=identity.of_submitter(case.submitter))


def _problem(case: Case, stated: str) -> str:
    """Why it cannot be read; empty = it can."""
    try:
        identity.read(stated)
    except BadInputError as error:
        return f"{case.kind.place}metadata.annotations: {error}"
    return ""


def _owner(annotation: str) -> str:
    """Whose it was; empty where that cannot be read."""
    try:
        return identity.read(annotation).user
    except BadInputError:
        return ""
