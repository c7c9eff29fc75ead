"""The way in: the text of queues.yaml and the other settings, checked, as one configuration.

Pure: the same text gives the same answer. Called at registration and for
UpdateConfiguration; a text that is refused leaves in force what was. Whoever
only wants to know whether it would be (REST, the command line) asks `verdict`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from muster_core.edge.config import document
from muster_core.edge.config.notes import Notes
from muster_core.edge.config.schema import FileForm, check
from muster_core.edge.config.settings import CoreSettings, settings
from muster_core.edge.config.timing import timing
from muster_core.edge.config.translate import partitions
from muster_core.model.config import Configuration, PartitionConfig, Timing
from muster_core.model.errors import ConfigurationError

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
#: What the text is called where its name is not known.
FILE: Final = "queues.yaml"
_CHECKSUM_LINE: Final = re.compile(r"^checksum:.*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that may be put in force, and what its writer should know."""

    configuration: Configuration
    warnings: tuple[str, ...]
    settings: CoreSettings
    #: The text is empty or missing: `DEFAULT_TEXT` was read instead of it.
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Examined:
    """What is in a text and the settings: `loaded` if nothing is wrong with them. `claimed` is the checksum that
    the text says of itself, empty where it says none.
    """

    loaded: Loaded | None
    errors: tuple[ConfigurationError, ...]
    warnings: tuple[str, ...]
    claimed: str


def load(text: str, extra: Mapping[str, str], file: str = FILE) -> Loaded:
    """Read queues.yaml and the settings. Raises ConfigurationError for the first thing that is wrong."""
    examined = examine(text, extra, file)
    if examined.loaded is None:
        raise examined.errors[0]
    return examined.loaded


def examine(text: str, extra: Mapping[str, str], file: str = FILE) -> Examined:
    """The same with everything that is wrong. Raises nothing."""
    of_file, of_settings = Notes(), Notes()
    form: FileForm | None = None
    found: tuple[PartitionConfig, ...] = ()
    lines: dict[str, int] = {}
    with of_file.collecting():
        data = document.read(text, lines)
        if data is None:
            examined = examine(DEFAULT_TEXT, extra, file)
            loaded = replace(examined.loaded, is_default=True) if examined.loaded is not None else None
            return replace(examined, loaded=loaded)
        form = check(data, of_file)
    if form is not None:
        found = partitions(form, of_file, extra)
    clocks = Timing()
    with of_settings.collecting():
        clocks = timing(extra)
    own = settings(extra, of_settings)
    wrong = [error.within(file, document.line_of(error.path, lines)) for error in of_file.errors()]
    errors = (*wrong, *of_settings.errors())
    warnings = of_file.lines() + of_settings.lines()
    whole = Configuration(found, clocks, tracking=own.tracks_events, checksum=checksum(text))
    loaded = None if errors else Loaded(whole, warnings, own)
    return Examined(loaded, errors, warnings, form.checksum if form else "")


def checksum(text: str) -> str:
    """SHA-256 of the text without its own checksum, in upper case hexadecimal (contract 2)."""
    return sha256(_CHECKSUM_LINE.sub("", text).encode(errors="replace")).hexdigest().upper()
