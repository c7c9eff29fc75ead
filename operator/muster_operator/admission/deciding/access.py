"""Whose word about a user counts (contract 3, 7: `admissionController.accessControl`)."""

from __future__ import annotations

from muster_operator.admission.deciding.filtering import is_found
from muster_operator.admission.review import Submitter
from muster_operator.model.admission import AccessRules


def is_trusted(submitter: Submitter, rules: AccessRules) -> bool:
    """Whether the submitter may say that a pod belongs to somebody else."""
    if rules.bypass_auth or (rules.trust_controllers and is_found(rules.system_users, submitter.name)):
        return True
    if is_found(rules.external_users, submitter.name):
        return True
    return any(is_found(rules.external_groups, group) for group in submitter.groups)
