"""Placement rules: select the queue of an application. Called when an application is added."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from muster_core.model import config, messages
from muster_core.model.config import PlacementRule, RuleFilter
from muster_core.model.ids import RECOVERY, ROOT, QueuePath, child_path, parent_path
from muster_core.model.specs import ApplicationSpec
from muster_core.model.states import QueueState
from muster_core.state.queues import Queue, QueueTree
from muster_core.state.users import ANYONE
from muster_si import keys
from muster_si.near_names import nearest


def may_submit(queue: Queue, user: str, groups: Sequence[str] | None) -> bool | None:
    """Whether a submit or admin ACL from this queue to root allows the user. None = it depends on unknown groups."""
    lists = [found for above in queue.path_up for found in (above.submit_acl, above.admin_acl)]
    if any(found.allows(user, groups or ()) for found in lists):
        return True
    return None if groups is None and any(found.groups for found in lists) else False


def admits(found: RuleFilter | None, user: str, groups: Sequence[str] | None) -> bool | None:
    """Whether the filter of a rule admits the user. None = it depends on unknown groups."""
    if found is None:
        return True
    matched = _matches(found, user, groups)
    return None if matched is None else matched is found.allow


def _matches(found: RuleFilter, user: str, groups: Sequence[str] | None) -> bool | None:
    if not (found.users or found.groups or found.user_expression or found.group_expression):
        return True
    if user in found.users or _is_in(found.user_expression, user):
        return True
    if groups is None:
        return None if found.groups or found.group_expression else False
    return any(group in found.groups or _is_in(found.group_expression, group) for group in groups)


def _is_in(expression: str, name: str) -> bool:
    return bool(expression) and config.matches(expression, name)


_FALLBACK: Final = child_path(ROOT, "default")
_QUALIFIED: Final = f"{ROOT}."
_IN_RECOVERY: Final = f"{RECOVERY}."
_PART: Final = re.compile(r"[a-z0-9_:#/@-]{1,64}")
_MOST_LEVELS: Final = 32
#: Names that are compared with one that does not exist.
_MOST_COMPARED: Final = 100

#: Replaces a dot in a name that is one queue name and not a path.
_DOT: Final = "_dot_"

#: Used if no rule is configured.
_IMPLICIT: Final = (PlacementRule("provided"),)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The leaf, and the queues to create for it from the top down, ending with the leaf itself."""

    path: QueuePath
    create: tuple[QueuePath, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupsNeeded:
    """The queue depends on the unknown groups of the user. `reader`: the setting that reads them."""

    reader: str


@dataclass(frozen=True, slots=True)
class _NoMatch:
    """Why a rule selects no queue. `fix`: what helps."""

    why: str
    fix: str = (
        "name a leaf queue that queues.yaml has and that you may submit to, or let a rule create it (create: true)"
    )


def choose_queue(
    tree: QueueTree, rules: Sequence[PlacementRule], application: ApplicationSpec
) -> Chosen | GroupsNeeded | str:
    """Returns the queue of an application, or the reason why no rule selects one.

    Returns `GroupsNeeded` while a rule or an access list depends on unknown groups. A forced application always gets a
    queue; if no rule selects one, it is the recovery queue. One of a copy has the queue of the original.
    """
    if application.placed is not None and (chosen := _placed(tree, application.placed)) is not None:
        return chosen
    failures: list[tuple[str, _NoMatch]] = []
    for rule in rules or _IMPLICIT:
        answer = _ask(tree, rule, application)
        if isinstance(answer, Chosen | GroupsNeeded):
            return answer
        failures.append((rule.name, answer))
    if application.forced:
        return recovery_queue(tree)
    if tree.get(_FALLBACK) is not None:
        fallback = _usable(tree, _FALLBACK, application, create=False)
        if isinstance(fallback, Chosen | GroupsNeeded):
            return fallback
        failures.append(("fallback", fallback))
    fixes = dict.fromkeys(failure.fix for _, failure in failures)
    return messages.not_placed("; ".join(f"{name}: {failure.why}" for name, failure in failures), "; or ".join(fixes))


def _placed(tree: QueueTree, path: QueuePath) -> Chosen | None:
    """Returns the queue with the queues to create for it. None = it cannot exist in the tree."""
    nearest_path, missing = path, list[QueuePath]()
    while (queue := tree.get(nearest_path)) is None:
        missing.insert(0, nearest_path)
        nearest_path = parent_path(nearest_path)
    return None if queue.is_leaf is bool(missing) else Chosen(path, tuple(missing))


def is_requested(requested: str, path: QueuePath) -> bool:
    """Whether a queue is the one that an application requests, or the application requests none."""
    name = requested.strip().lower()
    return not name or path == name or path.endswith(f".{name.removeprefix(_QUALIFIED)}")


def why_not_requested(tree: QueueTree, requested: str) -> str:
    """Why an application does not get the queue that it requests; empty = a rule has selected another one."""
    name = requested.strip().lower()
    path = name if name == ROOT or name.startswith(_QUALIFIED) else f"{_QUALIFIED}{name}"
    if (queue := tree.get(QueuePath(path))) is not None:
        does_not_fit = "" if queue.is_leaf else "it is a parent queue, and pods need a leaf; "
        return does_not_fit if path == name else f"{does_not_fit}did you mean {path}?; "
    above, parts = tree.root, path.split(".")[1:]
    while parts and (below := above.children.get(parts[0])) is not None:
        above, parts = below, parts[1:]
    meant = nearest(parts[0], islice(above.children, _MOST_COMPARED)) if len(parts) == 1 else ""
    return f"it does not exist{f', did you mean {above.path}.{meant}?' if meant else ''}; "


def recovery_queue(tree: QueueTree) -> Chosen:
    """Returns the queue for recovered applications that no rule places. It is created if it is missing."""
    return Chosen(RECOVERY, () if tree.get(RECOVERY) else (RECOVERY,))


def group_limit_on(queue: Queue) -> str:
    """Returns the limit of the queue or its ancestors that reads the groups of users; empty = none.

    A limit of the group "*" alone applies to all users, independent of their groups.
    """
    for above in queue.path_up:
        named = [group for limit in above.limits for group in limit.groups if group != ANYONE]
        if named:
            return f"queue {above.path} has a limit for group {named[0]}"
    return ""


def _known_groups(application: ApplicationSpec) -> Sequence[str] | None:
    return None if application.groups_unknown else application.groups


def _ask(tree: QueueTree, rule: PlacementRule, application: ApplicationSpec) -> Chosen | GroupsNeeded | _NoMatch:
    path = _path(tree, rule, application)
    if isinstance(path, _NoMatch | GroupsNeeded):
        return path
    if path == RECOVERY or path.startswith(_IN_RECOVERY):
        return _NoMatch(f"{RECOVERY} is reserved for recovered applications")
    return _usable(tree, path, application, create=rule.create)


def _path(tree: QueueTree, rule: PlacementRule, application: ApplicationSpec) -> QueuePath | GroupsNeeded | _NoMatch:
    """Returns the path that a rule selects, below its parent rule if it has one. The queue tree is not checked."""
    is_admitted = admits(rule.filter, application.user, _known_groups(application))
    if is_admitted is None:
        return GroupsNeeded(f"the filter of placement rule {rule.name} names groups")
    if not is_admitted:
        return _NoMatch(
            f"its filter excludes user {application.user}", f"change the filter of placement rule {rule.name}"
        )
    read, absent = _RULES[rule.name]
    name = read(rule, application).strip().lower()
    if not name:
        fix = _TAG_FIXES.get(rule.value) if rule.name == "tag" else None
        return _NoMatch(absent, fix) if fix else _NoMatch(absent)
    if name == ROOT or name.startswith(_QUALIFIED):
        path = name
    else:
        above = ROOT if rule.parent is None else _parent_path(tree, rule.parent, application)
        if isinstance(above, _NoMatch | GroupsNeeded):
            return above
        path = f"{above}.{name if rule.name == 'fixed' else name.replace('.', _DOT)}"
    parts = path.split(".")
    if len(parts) > _MOST_LEVELS:
        return _NoMatch(f"a queue path has at most {_MOST_LEVELS} levels")
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


#: The property that each rule reads, and the reason if it is empty.
_RULES: Final[dict[str, tuple[Callable[[PlacementRule, ApplicationSpec], str], str]]] = {
    "provided": (_provided, "the application names no queue"),
    "user": (_user, "the application has no user"),
    "tag": (_tag, "the application has no such tag"),
    "fixed": (_fixed, "the rule has no value"),
}


#: How an application gets a tag, and what to use instead of one that it never has.
_TAG_FIXES: Final = {
    keys.APP_TAG_PARENT_QUEUE: "annotate the namespace with yunikorn.apache.org/parentqueue",
    "queue": "use the placement rule provided, which reads the queue that a pod names",
}


def _parent_path(
    tree: QueueTree, rule: PlacementRule, application: ApplicationSpec
) -> QueuePath | GroupsNeeded | _NoMatch:
    path = _path(tree, rule, application)
    if isinstance(path, GroupsNeeded):
        return path
    if isinstance(path, _NoMatch):
        return _NoMatch(f"its parent rule {rule.name}: {path.why}", path.fix)
    queue = tree.get(path)
    if queue is None and not rule.create:
        return _NoMatch(
            f"its parent {path} does not exist and the parent rule may not create it",
            f"add queue {path} to queues.yaml, or write create: true in the parent rule",
        )
    if queue is not None and queue.is_leaf:
        return _NoMatch(f"its parent {path} is a leaf", f"write parent: true at queue {path} in queues.yaml")
    return path


def _usable(
    tree: QueueTree, path: QueuePath, application: ApplicationSpec, *, create: bool
) -> Chosen | GroupsNeeded | _NoMatch:
    queue = tree.get(path)
    if queue is None and not create:
        return _NoMatch(f"queue {path} does not exist and the rule may not create it")
    missing: list[QueuePath] = []
    while queue is None:
        missing.append(path if not missing else parent_path(missing[-1]))
        queue = tree.get(parent_path(missing[-1]))
    blocking_reason = _closed_to_children(queue, path) if missing else _closed(queue)
    if blocking_reason:
        is_below_leaf = bool(missing) and queue.is_leaf
        fix = f"write parent: true at queue {queue.path} in queues.yaml" if is_below_leaf else "name another leaf queue"
        return _NoMatch(blocking_reason, fix)
    is_allowed = may_submit(queue, application.user, _known_groups(application))
    if is_allowed is None:
        return GroupsNeeded(f"an access list of queue {path} or of a parent queue names groups")
    if not is_allowed:
        return _NoMatch(
            f"user {application.user} may not submit to queue {path}",
            "add the user to submitacl of the queue or of a parent queue, or name another queue",
        )
    return Chosen(path, tuple(reversed(missing)))


def _closed(queue: Queue) -> str:
    """Returns why an existing queue accepts no applications; empty = it accepts them."""
    if not queue.is_leaf:
        return f"queue {queue.path} is a parent queue and accepts no applications"
    if queue.draining:
        return f"queue {queue.path} is draining"
    if queue.state is QueueState.STOPPED:
        return f"queue {queue.path} is stopped: it becomes a parent queue when its last application ends"
    return ""


def _closed_to_children(queue: Queue, path: QueuePath) -> str:
    """Returns why no queue can be created below an existing one on the way to `path`; empty = it can."""
    if queue.is_leaf:
        return f"queue {path} would be below the leaf {queue.path}"
    if queue.draining:
        return f"queue {path} would be below {queue.path}, which is draining"
    if queue.wanted is not None:
        return f"queue {path} would be below {queue.path}, which becomes a leaf when it is empty"
    return ""
