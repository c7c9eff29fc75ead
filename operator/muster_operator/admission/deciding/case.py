"""A question with what follows from it at once: the pod that it is about, before and after, and whether it is ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster_operator.admission.deciding.filtering import is_labelled, is_served
from muster_operator.admission.kinds import KINDS, Kind
from muster_operator.admission.known import Known
from muster_operator.admission.review import Operation, Review, Submitter
from muster_operator.model.admission import AdmissionSettings
from muster_operator.translate.raw import Raw, mapping, strings, text

_MIRROR: Final = "kubernetes.io/config.mirror"
#: The group of kubelets; only the API server says who is in it.
_NODES: Final = "system:nodes"


@dataclass(frozen=True, slots=True)
class Case:
    """`new`, `old`: the pod or the template as it would be and as it is stored; `old` is empty for a CREATE."""

    review: Review
    kind: Kind
    new: Raw
    old: Raw
    served: bool
    """Whether pods of this namespace are to be ours."""
    labelled: bool
    """Whether they get an application's id."""
    ours: bool
    """Whether the pod is ours or will be: it names us, or its namespace is served."""

    @property
    def submitter(self) -> Submitter:
        """Who asks."""
        return self.review.submitter

    @property
    def is_create(self) -> bool:
        """Whether the object is new."""
        return self.review.operation is Operation.CREATE

    @property
    def annotations(self) -> dict[str, str]:
        """Of the pod as it would be."""
        return annotations_of(self.new)

    @property
    def old_annotations(self) -> dict[str, str]:
        """Of the pod as it is stored."""
        return annotations_of(self.old)

    def where(self, annotation: str) -> str:
        """An annotation with the place it stands in, for people."""
        return f"{self.kind.place}metadata.annotations[{annotation}]"


def annotations_of(description: Raw) -> dict[str, str]:
    """The annotations of a pod or a template."""
    return strings(mapping(description.get("metadata")).get("annotations"))


def opened(review: Review, known: Known, settings: AdmissionSettings) -> Case | None:
    """The case; None = it is nothing to us.

    Left alone are other kinds, the control plane's namespace and our own (a cluster must be able to start without us),
    what our own account does, and what a kubelet writes of its static pods.
    """
    kind = KINDS.get(review.kind)
    if kind is None or known.is_protected(review.namespace) or review.submitter.name == known.account:
        return None
    new = kind.description(review.object)
    if kind.is_pod and _MIRROR in annotations_of(new) and _NODES in review.submitter.groups:
        return None
    written = known.namespaces.get(review.namespace, {})
    served = is_served(review.namespace, written, settings.namespaces)
    return Case(
        review=review,
        kind=kind,
        new=new,
        old=kind.description(review.old or {}),
        served=served,
        labelled=is_labelled(review.namespace, written, settings.namespaces),
        ours=served or text(mapping(new.get("spec")).get("schedulerName")) in known.scheduler_names,
    )
