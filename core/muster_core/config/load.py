"""Loads and validates a configuration: queues.yaml and the settings of the core.

`load` is called when a resource manager registers or updates its configuration, `validate` by the REST API and the
admission webhook.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from muster_core.config import document
from muster_core.config.document import Findings, below
from muster_core.config.queues import partition_name, root, rules
from muster_core.config.schema import FileForm, NodeSortForm, PartitionForm, check
from muster_core.config.settings import CoreSettings, settings, timing
from muster_core.model.config import Configuration, GroupResolver, NodeOrder, NodeSort, PartitionConfig, Timing
from muster_core.model.errors import ConfigurationError
from muster_si import keys
from muster_si.keys import DEFAULT_PARTITION

_RESOLVERS: Final = {resolver.value: resolver for resolver in GroupResolver}
_ORDERS: Final = {"": NodeOrder.FAIR} | {order.value: order for order in NodeOrder}


def partitions(form: FileForm, notes: Findings, extra: Mapping[str, str]) -> tuple[PartitionConfig, ...]:
    """Returns all partitions of the file. Errors are added to `notes`.

    `extra`: the other keys of the ConfigMaps. Some of them allow values that are rejected by default.
    """
    if not form.partitions:
        notes.wrong(ConfigurationError("partitions", None, "is empty", "add a partition with the name default"))
    found: dict[str, PartitionConfig] = {}
    for index, entry in enumerate(form.partitions):
        path = below("partitions", index)
        with notes.collecting():
            partition = _partition(entry, path, notes, extra)
            if partition.name in found:
                raise ConfigurationError(
                    below(path, "name"),
                    entry.name,
                    "is the name of another partition",
                    "rename one; names are not case-sensitive",
                )
            found[partition.name] = partition
    return tuple(found.values())


def _partition(form: PartitionForm, path: str, notes: Findings, extra: Mapping[str, str]) -> PartitionConfig:
    flags = form.preemption
    tree = root(form.queues, form.limits, path, notes)
    # Rules refer to queues, which are compared only if the queues have no errors.
    known_tree = None if notes.errors() else tree
    return PartitionConfig(
        name=partition_name(form.name or DEFAULT_PARTITION, below(path, "name")),
        root=tree,
        rules=rules(form.placementrules, below(path, "placementrules"), known_tree, notes),
        node_sort=_node_sort(form.nodesortpolicy, notes, below(path, "nodesortpolicy"), extra),
        preemption=flags.enabled is not False,
        quota_preemption=flags.quotapreemptionenabled is True,
        resolver=_resolver(form.usergroupresolver.type, below(path, "usergroupresolver.type"), extra),
    )


def _resolver(name: str, path: str, extra: Mapping[str, str]) -> GroupResolver:
    """Returns the group resolver of a partition.

    Differs: an unknown resolver is rejected, and so is `test` outside of tests. YuniKorn uses no resolver instead of an
    unknown one, so that after a typing error the limits and access lists of groups have no effect.
    """
    if name not in _RESOLVERS:
        raise ConfigurationError(path, name, "is not a group resolver", "write ldap or os, or remove it")
    resolver = _RESOLVERS[name]
    if resolver is GroupResolver.TEST and not _allows(extra, keys.EXTRA_TEST_GROUPS):
        raise ConfigurationError(
            path,
            name,
            "is for tests only: it puts every user into the group testgroup",
            "write ldap or os, or remove it",
        )
    return resolver


def _allows(extra: Mapping[str, str], key: str) -> bool:
    return extra.get(key, "").lower() == "true"


def _node_sort(form: NodeSortForm, notes: Findings, path: str, extra: Mapping[str, str]) -> NodeSort:
    notes.resources(form.resourceweights, below(path, "resourceweights"))
    order = _ORDERS.get(form.type.lower())
    if order is None:
        raise ConfigurationError(
            below(path, "type"), form.type, "is not a node sort policy", f"choose one of {', '.join(NodeOrder)}"
        )
    if order is NodeOrder.UTILIZATION and not _allows(extra, keys.EXTRA_UTILIZATION):
        raise ConfigurationError(
            below(path, "type"),
            form.type,
            "needs utilization reports of nodes, and this resource manager sends none",
            f"write {NodeOrder.FAIR} or {NodeOrder.BINPACKING}",
        )
    if not form.resourceweights:
        # Without a configured order, balanced allocation counts as in kube-scheduler (docs/internals/adr, ADR 17).
        return NodeSort(order, balanced=not form.type)
    return NodeSort(order, tuple(sorted(form.resourceweights.items())))


#: Used if the resource manager sends no queues.yaml, as in YuniKorn: one queue per namespace, created on demand.
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

#: File name in messages if no other name is known.
FILE: Final = "queues.yaml"
_CHECKSUM_LINE: Final = re.compile(r"^checksum:.*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid configuration with its warnings."""

    configuration: Configuration
    warnings: tuple[str, ...]
    settings: CoreSettings
    #: The text of the queues, and all other keys of the ConfigMaps.
    text: str
    extra: Mapping[str, str]
    #: The text is empty or missing, so `DEFAULT_TEXT` was used.
    is_default: bool = False


_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Examination:
    """Result of the validation. `built`: without the parts that have errors. `checksum`: that of the text.

    `checksum_match`: whether the checksum in the text is correct; None = the text has none.
    """

    built: Loaded
    errors: tuple[ConfigurationError, ...]
    checksum: str
    checksum_match: bool | None


def load(text: str, extra: Mapping[str, str], file: str = FILE) -> Loaded:
    """Loads queues.yaml and the settings. Raises ConfigurationError for the first error."""
    examined = examine(text, extra, file)
    if examined.errors:
        raise examined.errors[0]
    return examined.built


def replaced(
    active: Loaded, text: str, extra: Mapping[str, str], file: str = FILE
) -> tuple[Loaded, tuple[ConfigurationError, ...]]:
    """Returns the configuration after a change, and the errors of the parts that are rejected.

    The queues and the settings are independent: what is invalid stays as it is in `active`, the other part changes.
    An empty text keeps the active queues, because it would remove all quotas, limits and access lists.
    """
    examined = examine(text, extra, file)
    new, old = examined.built, active.configuration
    if new.is_default or any(error.file for error in examined.errors):
        kept = replace(new.configuration, partitions=old.partitions, checksum=old.checksum)
        notes = (f"{file} is empty or missing: the active queues stay",) if new.is_default > active.is_default else ()
        new = Loaded(kept, new.warnings + notes, new.settings, active.text, extra, active.is_default)
    if not all(error.file for error in examined.errors):
        kept = replace(new.configuration, timing=old.timing, tracking=old.tracking)
        kept = replace(kept, repairs_across_queues=old.repairs_across_queues)
        new = replace(new, configuration=kept, settings=active.settings, extra=active.extra)
    return new, examined.errors


#: What `document.read` has returned for a text, and its lines.
Parsed = tuple[document.Data, dict[str, int]]


def examine(text: str, extra: Mapping[str, str] = _NONE, file: str = FILE, parsed: Parsed | None = None) -> Examination:
    """Like `load`, but returns all errors and raises nothing. `parsed`: None = parse the text."""
    of_file, of_settings = Findings(), Findings()
    actual = checksum(text)
    form: FileForm | None = None
    found: tuple[PartitionConfig, ...] = ()
    lines: dict[str, int] = {}
    with of_file.collecting():
        data, lines = parsed or (document.read(text, lines), lines)
        if data is None:
            examined = examine(DEFAULT_TEXT, extra, file)
            return replace(examined, built=replace(examined.built, is_default=True), checksum=actual)
        form = check(data, of_file)
    if form is not None:
        found = partitions(form, of_file, extra)
    clocks = Timing()
    with of_settings.collecting():
        clocks = timing(extra)
    own = settings(extra, of_settings)
    at = {error: document.line_of(error.path, lines) for error in of_file.errors()}
    wrong = [error.within(file, line) for error, line in sorted(at.items(), key=lambda one: one[1])]
    errors = (*wrong, *of_settings.errors())
    warnings = of_file.warnings(file, lines) + of_settings.warnings()
    whole = Configuration(
        found,
        clocks,
        tracking=own.tracks_events,
        repairs_across_queues=own.repairs_across_queues,
        checksum=actual,
    )
    given = form.checksum if form is not None else ""
    is_right = given.strip().upper() == actual if given else None
    return Examination(Loaded(whole, warnings, own, text, extra), errors, actual, is_right)


def checksum(text: str) -> str:
    """Returns the SHA-256 of the text without its checksum line, in upper-case hexadecimal, as YuniKorn computes it."""
    return sha256(_CHECKSUM_LINE.sub("", text).encode(errors="replace")).hexdigest().upper()
