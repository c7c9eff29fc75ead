"""Names of things, so that an application id is never passed for a pod's.

A pod's UID is also its task id and its allocation key (contract 10.11).
"""

from __future__ import annotations

from typing import NewType

AppId = NewType("AppId", str)
PodUid = NewType("PodUid", str)
NodeName = NewType("NodeName", str)
AllocationId = NewType("AllocationId", str)

#: An allocation that the core has not named yet, or one that only Kubernetes knows.
NO_ALLOCATION_ID = AllocationId("")
