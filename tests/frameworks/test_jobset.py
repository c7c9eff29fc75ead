"""JobSet: the pods of all its Jobs start together, and everything is gone when it has finished."""

from tests.frameworks.conftest import OpenFramework
from tests.frameworks.controllers import JOBSET
from tests.frameworks.gangs import applied_example, delete_all, finishes, is_released, is_reserved_first


async def test_all_jobs_of_a_jobset_start_together(open_framework: OpenFramework) -> None:
    scenario = await open_framework(JOBSET)
    jobset = await applied_example(scenario, "19-jobset")
    await is_reserved_first(scenario, "jobset-train", {"launcher": 1, "worker": 2})
    await finishes(scenario, "jobset-train", pods=3)
    await delete_all(scenario, jobset)
    await is_released(scenario, "jobset-train")
