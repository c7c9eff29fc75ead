"""Resources of all members of a gang together."""

from __future__ import annotations

from muster_operator.model import limits
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import MAX_AMOUNT, added, times
from muster_operator.model.pods import TaskGroup
from muster_si import keys


def placeholder_ask(groups: tuple[TaskGroup, ...]) -> dict[str, int]:
    """Resources of all placeholders together, including one `pods` each.

    Raises:
        BadInputError: a sum does not fit 64 bits, or there are more members than GANG_MEMBERS.
    """
    total: dict[str, int] = {}
    for index, group in enumerate(groups):
        total = added(total, times({**group.min_resource, keys.PODS: 1}, group.min_member))
        for name, value in total.items():
            if value > MAX_AMOUNT:
                problem = f"{name} of all members together does not fit 64 bits"
                raise BadInputError(f"task-groups[{index}].minResource.{name}", problem, "request less")
        if total[keys.PODS] > limits.GANG_MEMBERS:
            problem = f"{total[keys.PODS]} members in total, more than {limits.GANG_MEMBERS}"
            raise BadInputError(f"task-groups[{index}].minMember", problem, "reduce minMember")
    return total
