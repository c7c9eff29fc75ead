"""Draws the message sequence of one gang, from its first pod to the last placeholder replacement.

The steps are defined here. A test compares their names with the messages of the Scheduler Interface.
"""

from typing import Final, NamedTuple

from tools.pictures.svg import BLUE, BOLD, GREEN, INK, MIDDLE, ORANGE, PALE, RULE, SMALL, STRIPE, Picture

ACTORS: Final = ("user", "kube-apiserver", "operator", "core")
INKS: Final = {"user": INK, "kube-apiserver": PALE, "operator": BLUE, "core": GREEN}
LEFT, STEP, ROW, TOP = 110, 225, 30, 64


class Step(NamedTuple):
    """One message, or a decision if both actors are equal. `phase` starts a part of the sequence."""

    source: str
    target: str
    words: str
    phase: str = ""


STEPS: Final = (
    Step("user", "kube-apiserver", "first pod, with task-groups", "1 application"),
    Step("kube-apiserver", "operator", "watch: the pod"),
    Step("operator", "core", "AddApplicationRequest"),
    Step("core", "core", "queue, access, quota", "2 queue"),
    Step("core", "operator", "AcceptedApplication"),
    Step("operator", "kube-apiserver", "create placeholders", "3 placeholders"),
    Step("kube-apiserver", "operator", "watch: placeholders"),
    Step("operator", "core", "AllocationAsk: placeholder"),
    Step("core", "core", "plan all members, commit", "4 reserve"),
    Step("core", "operator", "Allocation of each"),
    Step("operator", "kube-apiserver", "bind placeholders"),
    Step("core", "operator", "UpdatedApplication: Running", "5 run"),
    Step("operator", "core", "AllocationAsk: members"),
    Step("core", "core", "pair with a placeholder", "6 replace"),
    Step("core", "operator", "PLACEHOLDER_REPLACED"),
    Step("operator", "kube-apiserver", "delete the placeholder"),
    Step("kube-apiserver", "operator", "watch: deletion"),
    Step("operator", "core", "AllocationRelease: confirmed"),
    Step("core", "operator", "Allocation of the member"),
    Step("operator", "kube-apiserver", "bind the member"),
)


def svg() -> str:
    """Return the SVG text."""
    across = {actor: LEFT + 70 + STEP * number for number, actor in enumerate(ACTORS)}
    width, height = across[ACTORS[-1]] + 190, TOP + ROW * len(STEPS) + 16
    picture = Picture(width, height, "one gang in the placement Reserve")
    phase = [number for number, step in enumerate(STEPS) if step.phase]
    for number, (start, end) in enumerate(zip(phase, [*phase[1:], len(STEPS)], strict=True)):
        if number % 2 == 0:
            picture.box((1, TOP + ROW * start), (width - 2, ROW * (end - start)), STRIPE, STRIPE)
        picture.text((16, TOP + ROW * start + 20), STEPS[start].phase, PALE, BOLD)
    for actor, x in across.items():
        picture.line((x, 44), (x, height - 10), RULE)
        picture.box((x - 66, 14), (132, 30), edge=INKS[actor])
        picture.text((x, 34), actor, INKS[actor], f"{MIDDLE} {BOLD}")
    for number, step in enumerate(STEPS):
        _step(picture, (across[step.source], across[step.target]), step, TOP + ROW * number + 22)
    return picture.written()


def _step(picture: Picture, ends: tuple[float, float], step: Step, y: float) -> None:
    ink = INKS[step.source]
    if step.source == step.target:
        picture.dot((ends[0], y - 6), 4, ORANGE)
        picture.text((ends[0] + 12, y - 2), step.words, ORANGE, 'font-size="12"')
        return
    picture.arrow((ends[0], y), (ends[1], y), ink, "5 3" if step.words.startswith("watch") else "")
    picture.text(((ends[0] + ends[1]) / 2, y - 6), step.words, INK, f"{MIDDLE} {SMALL}")
