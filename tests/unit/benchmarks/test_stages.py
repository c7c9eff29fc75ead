"""A sample counts for the stage of its innermost function, and the codec converts in two directions."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from benchmarks.stages import DECODERS, Samples
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


def test_the_decoding_functions_exist() -> None:
    assert all(hasattr(codec, name) for name in DECODERS)
