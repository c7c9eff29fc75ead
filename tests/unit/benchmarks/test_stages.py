"""A sample counts for the stage of its innermost function. The codec and the loop have functions of two stages."""

import sys
from types import FrameType
from typing import Any

import pytest

from benchmarks.stages import DECODERS, TASK, Samples
from muster_operator.runtime import loop
from muster_operator.si import codec

_PROGRAM = """
def decoded(frame): return _core_event(frame)
def _core_event(frame): return frame()
def _ask(frame): return frame()
"""


@pytest.mark.parametrize("called, stage", [("decoded", "core responses"), ("_ask", "encode")])
def test_decoding_in_the_codec_counts_for_the_responses_of_the_core(called: str, stage: str) -> None:
    functions: dict[str, Any] = {}
    exec(compile(_PROGRAM, "/muster_operator/si/codec.py", "exec"), functions)  # noqa: S102 (a file of that name)
    frame: FrameType = functions[called](lambda: sys._getframe(1))
    samples = Samples()
    samples.look(0, frame)
    assert samples.stages == {stage: 1}


_LOOP = """
class Inbox:
    def take(self, frame): return frame()
class Loop:
    def turn(self, frame): return frame()
    def take(self, frame): return Inbox().take(frame)
"""


@pytest.mark.parametrize("called, stage", [("turn", "controller"), ("take", "decode")])
def test_the_inbox_counts_for_decoding_and_the_task_for_the_controller(called: str, stage: str) -> None:
    classes: dict[str, Any] = {}
    exec(compile(_LOOP, "/muster_operator/runtime/loop.py", "exec"), classes)  # noqa: S102 (a file of that name)
    frame: FrameType = getattr(classes["Loop"](), called)(lambda: sys._getframe(1))
    samples = Samples()
    samples.look(0, frame)
    assert samples.stages == {stage: 1}


def test_the_functions_and_the_class_exist() -> None:
    assert all(hasattr(codec, name) for name in DECODERS)
    assert hasattr(loop, TASK)
