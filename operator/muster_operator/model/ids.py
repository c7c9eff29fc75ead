"""Names of things, so that an application id is never passed for a pod's.

An `AppId` is an application's identity: its namespace and the ID that its pods name, `<namespace>/<id>`. Namespaces of
a sharing group share their IDs: `@<group>/<id>`. People see the ID alone (`application_name`). A pod's UID is also its
task id and its allocation key (contract 10.11).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NewType

AppId = NewType("AppId", str)
PodUid = NewType("PodUid", str)
NodeName = NewType("NodeName", str)
AllocationId = NewType("AllocationId", str)

#: An allocation that the core has not named yet, or one that only Kubernetes knows.
NO_ALLOCATION_ID = AllocationId("")


def application_id(namespace: str, name: str, sharing_groups: Mapping[str, str]) -> AppId:
    """The identity of the application `name` of a pod in `namespace`. `sharing_groups`: group by namespace.

    No namespace has an `@` or a slash in its name, so that identities of namespaces and groups never meet.
    """
    group = sharing_groups.get(namespace)
    return AppId(f"@{group}/{name}" if group else f"{namespace}/{name}")


def application_name(app: AppId) -> str:
    """The ID that the pods of the application name: what follows the first slash."""
    return app.partition("/")[2] or app
