"""The webhook warns about names and task groups that have no effect, when they are written."""

from __future__ import annotations

from tests.unit.operator.webhook.reviews import APP_ID, a_description, a_pod, a_thing, creating, settings, updating

Y = "yunikorn.apache.org/"
PARAMETERS = f"{Y}schedulingPolicyParameters"
MISSPELT = {f"{Y}taskGroups": "[]"}
NO_GANG = {f"{Y}task-groups": "[{}]", PARAMETERS: "gangSchedulingStyle=Hard"}
ELSEWHERE = settings(processNamespaces="^other$")
GANG = {f"{Y}task-groups": '[{"name": "g", "minMember": 1, "minResource": {}}]', PARAMETERS: "style=Hard"}


def test_a_misspelt_name_is_a_warning_with_the_place_of_the_template() -> None:
    advice = f"annotation {Y}taskGroups has no effect; did you mean {Y}task-groups?"
    made = a_pod(annotations=MISSPELT, labels={APP_ID: "a"}, schedulerName="muster")
    assert creating(made).warnings == (advice,)
    template = a_description(annotations=MISSPELT, labels={APP_ID: "a"}, schedulerName="muster")
    assert creating(a_thing("Job", template)).warnings == (f"spec.template.{advice}",)


def test_an_invalid_gang_and_an_unknown_parameter_are_warnings() -> None:
    [lost] = creating(a_pod(annotations=NO_GANG, schedulerName="muster")).warnings
    assert lost.startswith(
        "task-groups[0].name: is missing or empty; give every group a name; task-groups[0].minMember: "
    )
    [unknown] = creating(a_pod(annotations=GANG, schedulerName="muster")).warnings
    assert "unknown parameter style is ignored" in unknown


def test_an_unchanged_object_and_a_pod_of_another_scheduler_cause_no_warning() -> None:
    stored = a_thing("Job", a_description(annotations=MISSPELT, schedulerName="muster"))
    scaled = {**stored, "spec": {**stored["spec"], "parallelism": 2}}
    assert updating(stored, scaled).warnings == ()
    assert creating(a_pod(annotations=MISSPELT, schedulerName="other"), how=ELSEWHERE).warnings == ()
