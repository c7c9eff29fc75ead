"""One question of the API server and its answer, as values: no JSON, no HTTP, no kopf (Kubernetes, AdmissionReview v1).

Deciding is pure: a function takes a `Review`, the settings and what is known of the cluster, and returns an `Answer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from muster_operator.translate.raw import Raw


class Operation(StrEnum):
    """What is about to be done to the object; of others we are not asked."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who sent the request, as the API server authenticated it. The only source of truth about a user."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Review:
    """A question. `old` is None for a CREATE; `kind` is the object's kind, such as `Pod` or `CronJob`.

    `name` may be empty: a pod that is created with `generateName` has none yet.
    """

    operation: Operation
    kind: str
    namespace: str
    name: str
    submitter: Submitter
    object: Raw
    old: Raw | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Yes or no. `refusal` says what is wrong, where and what to do; empty = allowed.

    `object` is how the object should be stored, None = as it is. `warnings` are shown to the user by kubectl.
    """

    refusal: str = ""
    object: Raw | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_allowed(self) -> bool:
        """Whether the request goes on."""
        return not self.refusal
