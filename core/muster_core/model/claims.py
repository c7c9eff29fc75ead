"""What a plan chooses for the claims of pods together with their nodes: volumes and devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster_core.model.devices import DeviceChoice
from muster_core.model.storage import NO_CHOICE, Choice


@dataclass(frozen=True, slots=True)
class ClaimChoice:
    """Volumes for unbound claims, and devices for claims that show none yet."""

    volumes: Choice = NO_CHOICE
    devices: DeviceChoice = ()


NOTHING_CHOSEN: Final = ClaimChoice()
