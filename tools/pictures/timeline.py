"""Draws the timeline of a recorded run: a row per gang member, with its placeholder above and its pod below."""

from collections.abc import Iterator
from itertools import zip_longest

from tools.pictures.recorded import Life, Run
from tools.pictures.svg import BOLD, END, GREEN, INK, MIDDLE, ORANGE, PALE, RULE, SMALL, STRIPE, Picture

LEFT, RIGHT, TOP, ROW, WIDTH = 110, 26, 74, 30, 860
WAITS = "#d8dee4"  # a color of svg.DARK too
MARKED = {"all placeholders bound": "the gang is complete", "all real pods bound": "all members are bound"}
TAIL = 1.25
"""End of the time axis relative to the time of the last bind."""


def members(run: Run) -> Iterator[tuple[str, Life | None, Life | None]]:
    """Yield group, placeholder and pod of each member. The n-th bound pod is paired with the n-th ended placeholder."""
    for group in run.asked:
        lives = [life for life in run.pods.values() if life.group == group]
        holders = sorted((life for life in lives if life.is_placeholder), key=lambda life: life.ended or 0)
        pods = sorted((life for life in lives if not life.is_placeholder), key=lambda life: life.bound or 0)
        yield from ((group, holder, pod) for holder, pod in zip_longest(holders, pods))


def svg(run: Run) -> str:
    """Return the SVG text."""
    rows = list(members(run))
    end = run.milestones["all real pods bound"] * TAIL
    scale = (WIDTH - LEFT - RIGHT) / end
    height = TOP + ROW * len(rows) + 58
    picture = Picture(WIDTH, height, "a gang of seven: its placeholders, and the pods that follow on them")
    _legend(picture)
    last = ""
    for number, (group, holder, pod) in enumerate(rows):
        y = TOP + ROW * number
        if number % 2 == 0:
            picture.box((1, y), (WIDTH - 2, ROW), STRIPE, STRIPE)
        picture.text((LEFT - 12, y + 19), group if group != last else "", INK, f"{END} {BOLD}")
        last = group
        for life, offset, ink in ((holder, 4, ORANGE), (pod, 16, GREEN)):
            if life is not None:
                _bar(picture, life, (y + offset, scale, end), ink)
    for milestone, words in MARKED.items():
        x = LEFT + run.milestones[milestone] * scale
        picture.line((x, TOP - 8), (x, TOP + ROW * len(rows) + 4), INK, "4 3")
        picture.text((x, TOP - 14), words, INK, f"{MIDDLE} {SMALL}")
    _axis(picture, (height - 40, scale, end))
    return picture.written()


def _bar(picture: Picture, life: Life, frame: tuple[float, float, float], ink: str) -> None:
    """Draw a pod: pending from its creation, bound from its bind."""
    y, scale, end = frame
    bound = min(life.bound if life.bound is not None else end, end)
    over = min(life.ended if life.ended is not None else end, end)
    for start, stop, fill in ((life.seen, bound, WAITS), (bound, over, ink)):
        if stop > start:
            picture.box((LEFT + start * scale, y), ((stop - start) * scale, 10), fill, fill)


def _legend(picture: Picture) -> None:
    x = LEFT
    for fill, words in ((WAITS, "pending"), (ORANGE, "placeholder bound"), (GREEN, "member bound")):
        picture.box((x, 18), (22, 10), fill, fill)
        picture.text((x + 30, 27), words, INK, SMALL)
        x += 170


def _axis(picture: Picture, frame: tuple[float, float, float]) -> None:
    y, scale, end = frame
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60) if end / step <= 10)
    picture.line((LEFT, y), (WIDTH - RIGHT, y), RULE)
    for number in range(int(end / step) + 1):
        x = LEFT + number * step * scale
        picture.line((x, y), (x, y + 5), RULE)
        picture.text((x, y + 20), f"{number * step:g} s", PALE, f"{MIDDLE} {SMALL}")
    picture.text((LEFT - 12, y + 20), "after apply", PALE, f"{END} {SMALL}")
