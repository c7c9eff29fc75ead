"""Utilization reports → the core's events (seed 001). Called by scheduler.py; what cannot be read is answered."""

from __future__ import annotations

from collections.abc import Iterable

from muster_core.edge import fields
from muster_core.edge.fields import Amounts, Partitions
from muster_core.edge.refusals import Unfit
from muster_core.model.events import UtilizationReported
from muster_core.model.ids import AllocationId, ApplicationId, NodeId
from muster_si import keys, muster_pb2


def read(
    reports: Iterable[muster_pb2.UtilizationReport], partitions: Partitions
) -> tuple[list[UtilizationReported], list[muster_pb2.RejectedUtilizationReport]]:
    """The reports that mean something, and why the others do not."""
    amounts = Amounts()
    taken: list[UtilizationReported] = []
    rejected: list[muster_pb2.RejectedUtilizationReport] = []
    for report in reports:
        try:
            taken.append(_report(report, partitions, amounts))
        except Unfit as unfit:
            rejected.append(muster_pb2.RejectedUtilizationReport(ID=fields.shown(report.ID), reason=str(unfit)))
    return taken, rejected


def _report(report: muster_pb2.UtilizationReport, partitions: Partitions, amounts: Amounts) -> UtilizationReported:
    identity = fields.named(report.ID, "ID")
    application = ApplicationId(fields.bounded(report.applicationID, "applicationID"))
    return UtilizationReported(
        partition=partitions.find(report.partitionName or keys.DEFAULT_PARTITION),
        used=amounts.read(report.actualUsedResource, "actualUsedResource"),
        node=None if application else NodeId(identity),
        application=application,
        allocation=AllocationId(identity if application else ""),
    )
