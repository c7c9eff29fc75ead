"""The way in: the text of queues.yaml and the other settings, checked, as one configuration.

Pure: the same text gives the same answer. Called at registration and for
UpdateConfiguration; a text that is refused leaves in force what was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from muster_core.edge.config import document
from muster_core.edge.config.notes import Notes
from muster_core.edge.config.schema import check
from muster_core.edge.config.settings import CoreSettings, settings
from muster_core.edge.config.timing import timing
from muster_core.edge.config.translate import partitions
from muster_core.model.config import Configuration

#: In force where the resource manager sends none (contract 2): a queue per namespace, made when it is needed.
DEFAULT_TEXT: Final = """\
partitions:
  - name: default
    placementrules:
      - name: tag
        value: namespace
        create: true
    queues:
      - name: root
        submitacl: '*'
"""
_CHECKSUM_LINE: Final = re.compile(r"^checksum:.*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that may be put in force, and what its writer should know."""

    configuration: Configuration
    warnings: tuple[str, ...]
    settings: CoreSettings


def load(text: str, extra: Mapping[str, str]) -> Loaded:
    """Read queues.yaml and the clocks' settings. Raises ConfigurationError."""
    data = document.read(text)
    if data is None:
        return load(DEFAULT_TEXT, extra)
    notes = Notes()
    own = settings(extra, notes)
    configuration = Configuration(
        partitions=partitions(check(data), notes),
        timing=timing(extra),
        tracking=own.tracks_events,
        checksum=checksum(text),
    )
    return Loaded(configuration, notes.lines(), own)


def checksum(text: str) -> str:
    """SHA-256 of the text without its own checksum, in upper case hexadecimal (contract 2)."""
    return sha256(_CHECKSUM_LINE.sub("", text).encode()).hexdigest().upper()
