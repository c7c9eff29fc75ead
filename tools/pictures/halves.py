"""Draws operator and core and their layers, as configured for import-linter (``pyproject.toml``)."""

import tomllib
from pathlib import Path

from tools.pictures.svg import BLUE, BOLD, GREEN, INK, MIDDLE, PALE, SMALL, STRIPE, VIOLET, Picture

ROOT = Path(__file__).resolve().parents[2]
WIDTH, LAYER, TOP = 860, 30, 120
SIDES = {"muster_operator": ("operator", 330, BLUE), "muster_core": ("core", 640, GREEN)}
SIDE = 190


def layers() -> dict[str, list[str]]:
    """Return the layers by package, top down. Independent folders share a layer."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return {
        contract["containers"][0]: [layer.replace("(", "").replace(")", "") for layer in contract["layers"]]
        for contract in contracts
        if contract["type"] == "layers"
    }


def svg() -> str:
    """Return the SVG text."""
    known = {package: [one for one in found if one != "__main__"] for package, found in layers().items()}
    height = TOP + LAYER * max(map(len, known.values())) + 60
    picture = Picture(WIDTH, height, "the two halves of Muster and their layers")
    picture.box((280, 48), (WIDTH - 300, height - 68), STRIPE)
    picture.text((294, 70), "pod: muster", PALE, BOLD)
    for package, names in known.items():
        title, x, ink = SIDES[package]
        picture.text((x + SIDE / 2, TOP - 12), f"{title}: {package}", ink, f"{MIDDLE} {BOLD}")
        for number, name in enumerate(names):
            at = (x, TOP + LAYER * number)
            picture.box(at, (SIDE, LAYER - 4), edge=ink)
            picture.text((x + SIDE / 2, at[1] + 18), name.replace(" | ", " and "), INK, MIDDLE)
    _between(picture, height)
    return picture.written()


def _between(picture: Picture, height: float) -> None:
    middle = TOP + LAYER * 4
    ends = (330 + SIDE + 4, 636)
    for y, words, forth in ((middle - 30, "facts", True), (middle + 44, "decisions", False)):
        start, end = (ends[0], ends[1]) if forth else (ends[1], ends[0])
        picture.arrow((start, y), (end, y), VIOLET)
        picture.text((sum(ends) / 2, y - 7), words, VIOLET, f"{MIDDLE} {SMALL}")
    picture.text((sum(ends) / 2, middle + 1), "Scheduler", INK, f"{MIDDLE} {SMALL} {BOLD}")
    picture.text((sum(ends) / 2, middle + 15), "Interface", INK, f"{MIDDLE} {SMALL} {BOLD}")
    picture.box((20, middle - 40), (130, 80), edge=INK)
    picture.text((85, middle + 5), "kube-apiserver", INK, f"{MIDDLE} {BOLD}")
    for y, words, forth in (
        (middle - 28, "list, watch", True),
        (middle + 8, "create, bind, delete", False),
        (middle + 40, "admission", True),
    ):
        start, end = (154, 326) if forth else (326, 154)
        picture.arrow((start, y), (end, y), BLUE)
        picture.text((216, y - 7), words, INK, f"{MIDDLE} {SMALL}")
    picture.text((20, height - 24), "imports go downward only", PALE, SMALL)
