"""The root of all shapes, and how a shape becomes bytes."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

#: Memory in bytes, vcore in millicores, others as they are counted.
Amounts = dict[str, int]
#: Whole percents by resource name.
Percents = dict[str, int]
Texts = dict[str, str]
TimeNs = Annotated[int, Field(description="nanoseconds since the epoch")]


class Shape(BaseModel):
    """One JSON object of an answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def encode(shape: Shape) -> bytes:
    """The JSON; what is None is left out."""
    return shape.__pydantic_serializer__.to_json(shape, exclude_none=True)


class Failure(Shape):
    """The body of every answer that is no (contract 4)."""

    status_code: int
    message: str
    description: str
