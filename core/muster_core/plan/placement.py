"""Which queue an application goes to: the placement rules, one after the other, the first that yields a usable leaf.

Reads the tree and changes nothing; queues to be made are named in the answer.
Everybody may submit everywhere for now: access lists are not asked.
Source: contract 2.10.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from muster_core.model.config import PlacementRule
from muster_core.model.ids import ROOT, QueuePath, child_path
from muster_core.model.specs import ApplicationSpec
from muster_core.world.queues import QueueTree

RECOVERY: Final = child_path(ROOT, "@recovery@")
NOT_PLACED: Final = "application rejected: no placement rule matched"
_FIX: Final = "name a leaf queue that queues.yaml has, or let one of its rules make it (create: true)"

_FALLBACK: Final = child_path(ROOT, "default")
_QUALIFIED: Final = f"{ROOT}."
_PART: Final = re.compile(r"[a-z0-9_:#/@-]{1,64}")
_MOST_LEVELS: Final = 32
#: Stands for a dot in a name that is one queue, not a path.
_DOT: Final = "_dot_"
#: Where no rule is configured.
_IMPLICIT: Final = (PlacementRule("provided"),)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The leaf, and the queues to make for it from the top down (it comes last), if any."""

    path: QueuePath
    create: tuple[QueuePath, ...] = ()


@dataclass(frozen=True, slots=True)
class _NoMatch:
    why: str


def choose_queue(tree: QueueTree, rules: Sequence[PlacementRule], application: ApplicationSpec) -> Chosen | str:
    """The queue of an application, or the reason why no rule has one; a forced one always has one (semantics 19)."""
    whys = []
    for rule in rules or _IMPLICIT:
        answer = _ask(tree, rule, application)
        if isinstance(answer, Chosen):
            return answer
        whys.append(f"{rule.name}: {answer.why}")
    if application.forced:
        return Chosen(RECOVERY, () if tree.get(RECOVERY) else (RECOVERY,))
    fallback = _usable(tree, _FALLBACK, create=False)
    if isinstance(fallback, Chosen):
        return fallback
    return f"{NOT_PLACED} ({'; '.join(whys)}); {_FIX}"


def _ask(tree: QueueTree, rule: PlacementRule, application: ApplicationSpec) -> Chosen | _NoMatch:
    path = _path(tree, rule, application)
    if isinstance(path, _NoMatch):
        return path
    if path == RECOVERY:
        return _NoMatch(f"{RECOVERY} is kept for applications that are recovered")
    return _usable(tree, path, create=rule.create)


def _path(tree: QueueTree, rule: PlacementRule, application: ApplicationSpec) -> QueuePath | _NoMatch:
    """The path a rule names, made from its parent rule where it has one; unchecked against the tree."""
    read, absent = _RULES[rule.name]
    name = read(rule, application).strip().lower()
    if not name:
        return _NoMatch(absent)
    if name == ROOT or name.startswith(_QUALIFIED):
        path = name
    else:
        above = ROOT if rule.parent is None else _parent_path(tree, rule.parent, application)
        if isinstance(above, _NoMatch):
            return above
        path = f"{above}.{name if rule.name == 'fixed' else name.replace('.', _DOT)}"
    parts = path.split(".")
    if len(parts) > _MOST_LEVELS:
        return _NoMatch(f"a queue lies at most {_MOST_LEVELS} levels deep")
    for part in parts:
        if not _PART.fullmatch(part):
            return _NoMatch(
                f"{part[:80]!r} cannot be the name of a queue (letters, digits and _ : # / @ -, at most 64)"
            )
    return QueuePath(path)


def _provided(rule: PlacementRule, application: ApplicationSpec) -> str:
    return application.queue


def _user(rule: PlacementRule, application: ApplicationSpec) -> str:
    return application.user.replace(".", _DOT)


def _tag(rule: PlacementRule, application: ApplicationSpec) -> str:
    return application.tags.get(rule.value, "")


def _fixed(rule: PlacementRule, application: ApplicationSpec) -> str:
    return rule.value


#: What each rule reads, and what to say where that is nothing.
_RULES: Final[dict[str, tuple[Callable[[PlacementRule, ApplicationSpec], str], str]]] = {
    "provided": (_provided, "the application names no queue"),
    "user": (_user, "the application has no user"),
    "tag": (_tag, "the application has no such tag"),
    "fixed": (_fixed, "the rule has no value"),
}


def _parent_path(tree: QueueTree, rule: PlacementRule, application: ApplicationSpec) -> QueuePath | _NoMatch:
    path = _path(tree, rule, application)
    if isinstance(path, _NoMatch):
        return path
    queue = tree.get(path)
    if queue is None and not rule.create:
        return _NoMatch(f"its parent {path} does not exist and the parent rule may not create it")
    if queue is not None and queue.is_leaf:
        return _NoMatch(f"its parent {path} is a leaf")
    return path


def _usable(tree: QueueTree, path: QueuePath, *, create: bool) -> Chosen | _NoMatch:
    queue = tree.get(path)
    if queue is None:
        return (
            _to_create(tree, path)
            if create
            else _NoMatch(f"queue {path} does not exist and the rule may not create it")
        )
    if not queue.is_leaf:
        return _NoMatch(f"queue {path} is a parent queue and runs no application")
    if queue.draining:
        return _NoMatch(f"queue {path} is draining")
    return Chosen(path)


def _to_create(tree: QueueTree, path: QueuePath) -> Chosen | _NoMatch:
    """The missing queues down to `path`, if what exists above them can have children."""
    missing = [path]
    while (queue := tree.get(above := QueuePath(missing[-1].rpartition(".")[0]))) is None:
        missing.append(above)
    if queue.is_leaf:
        return _NoMatch(f"queue {path} would lie below the leaf {above}")
    if queue.draining:
        return _NoMatch(f"queue {path} would lie below {above}, which is draining")
    return Chosen(path, tuple(reversed(missing)))
