"""Annotations are decoded as YuniKorn decodes them: Go's `encoding/json` with the types of Kubernetes decides.

The expected values come from the Go program in `devcluster/modules/decoding`, which runs beside the tests.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from devcluster import binaries, programs
from muster_operator.model.errors import BadInputError
from muster_operator.model.pods import GangProblem, GangSource
from muster_operator.translate import go_json
from muster_operator.translate.gangs.dialects import read_gang
from muster_operator.translate.values import nanos

#: The first test builds the program, about 10 s if the packages of Kubernetes are compiled.
pytestmark = pytest.mark.timeout(300)

#: Texts by the kind of annotation.
CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "annotations.yaml").read_text())
REJECTED: Final = "rejected"
Decode = Callable[[str, str], Any]


@pytest.fixture(scope="module")
def go() -> Iterator[Decode]:
    """Decodes a text of a kind with Go."""
    path = binaries.ensure([programs.DECODING])[programs.DECODING.name]
    with subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        to, of = process.stdin, process.stdout
        assert to is not None
        assert of is not None

        def decode(kind: str, text: str) -> Any:
            to.write(json.dumps({"Kind": kind, "Text": text}) + "\n")
            to.flush()
            answer = json.loads(of.readline())
            return REJECTED if "error" in answer else plain(answer["value"], kind)

        yield decode
        to.close()


def muster(kind: str, text: str) -> Any:
    """Decodes a text of a kind with Muster."""
    try:
        if kind == "task-groups":
            return plain(go_json.task_groups(kind, text)[0], kind)
        if kind == "user.info":
            user, groups, _ = go_json.user_info(kind, text)
            return plain({"user": user, "groups": groups}, kind)
        return plain(go_json.quantities(kind, text), kind)
    except BadInputError:
        return REJECTED


def plain(value: Any, kind: str) -> Any:
    """The value without what is empty, with lower-case keys of groups, and amounts in nano units."""
    if kind == "task-groups":
        return [_group(group) for group in value or []]
    return _filled(value) or {}


def _group(group: dict[str, Any]) -> Any:
    found = {key.lower(): value for key, value in group.items()}
    resources = found.pop("minresource", None)
    amounts: Any = None if resources is None else {name: _nanos(text) for name, text in resources.items()}
    return (_filled(found) or {}) | {"minresource": REJECTED if REJECTED in (amounts or {}).values() else amounts}


def _nanos(text: str) -> int | str:
    with suppress(BadInputError):
        return nanos("", text)
    return REJECTED


def _filled(value: Any) -> Any:
    """None for what Go leaves out when it writes: empty texts, lists and maps, and zero. Pointers to empty stay."""
    if isinstance(value, dict):
        found = {key: kept for key, entry in value.items() if (kept := _filled(entry)) is not None}
        return found or ({} if value == {} else None)
    if isinstance(value, list):
        return [_filled(entry) or ({} if isinstance(entry, dict) else entry) for entry in value] or None
    return value if value not in ("", 0) or value is False else None


@pytest.mark.parametrize("kind,text", [(kind, text) for kind, texts in CASES.items() for text in texts])
def test_an_annotation_is_decoded_as_go_decodes_it(go: Decode, kind: str, text: str) -> None:
    assert rejects_amounts(muster(kind, text)) == go(kind, text)


def rejects_amounts(value: Any) -> Any:
    """Go parses the amounts of groups while it decodes, Muster afterwards."""
    is_rejected = isinstance(value, list) and any(group["minresource"] == REJECTED for group in value)
    return REJECTED if is_rejected else value


KEYS = st.sampled_from(
    ["name", "Name", "minMember", "minResource", "labels", "LABELS", "nodeSelector", "tolerations", "key", "value"]
)
POD_KEYS = st.sampled_from(
    ["tolerationSeconds", "affinity", "nodeAffinity", "topologySpreadConstraints", "maxSkew", "labelSelector"]
)
OTHER_KEYS = st.sampled_from(["matchLabels", "user", "groups", "cpu", "other"])
SCALARS = st.sampled_from(["null", "true", "1", "-3", "2.5", '"1"', '"x"', '""', "{}", "[]"])


def _objects(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.lists(st.tuples(KEYS | POD_KEYS | OTHER_KEYS, inner), max_size=5)
    return members.map(lambda found: "{" + ", ".join(f'"{key}": {value}' for key, value in found) + "}")


VALUES = st.recursive(
    SCALARS,
    lambda inner: _objects(inner) | st.lists(inner, max_size=3).map(lambda found: f"[{', '.join(found)}]"),
    max_leaves=12,
)


@settings(max_examples=2000, deadline=None)
@given(kind=st.sampled_from(["task-groups", "user.info", "quota"]), text=_objects(VALUES), is_list=st.booleans())
def test_random_json_is_decoded_as_go_decodes_it(go: Decode, kind: str, text: str, *, is_list: bool) -> None:
    written = f"[{text}, {text}]" if is_list or kind == "task-groups" else text
    assert rejects_amounts(muster(kind, written)) == go(kind, written)


@pytest.mark.parametrize(
    "text,problem",
    [
        ('[{"name": "g", "minMember": 1, "minResource": {"cpu": 1e100}}]', '"1e100" is out of range'),
        (
            '[{"name": "g", "minResource": {"memory": "99999999999999999999"}}]',
            '"99999999999999999999" does not fit 64 bits',
        ),
        ("[" * 5000 + "]" * 5000, "is nested too deeply"),
    ],
)
def test_what_muster_rejects_on_purpose(go: Decode, text: str, problem: str) -> None:
    """The differences that the module declares: each has a message that names the value or the problem."""
    found = read_gang(GangSource(text, ""))
    assert isinstance(found, GangProblem)
    assert problem in found.message
    if "[[" not in text:
        assert go("task-groups", text) != REJECTED
