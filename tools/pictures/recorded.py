"""A recorded run of ``make demo`` (``docs/pictures/run.json``), which several pictures show.

To record another run: ``PLACEMENT=Reserve RECORD=docs/pictures/run.json make demo``, then ``make diagrams``.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from devcluster.gang import GangView, GroupCounts, PodLife

RECORDING = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "run.json"


class Life(BaseModel):
    """One pod; times are seconds after ``kubectl apply``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    group: str
    is_placeholder: bool
    seen: float
    bound: float | None
    ended: float | None


class Run(BaseModel):
    """The events that the demo observed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    asked: dict[str, int]
    milestones: dict[str, float]
    writes: dict[str, int]
    pods: dict[str, Life]

    def view(self) -> GangView:
        """Return the demo's final view of the gang."""
        view = GangView({group: GroupCounts(asked) for group, asked in self.asked.items()}, dict(self.milestones))
        for name, life in self.pods.items():
            view.lives[name] = PodLife(**life.model_dump())
            counts = view.groups[life.group]
            moments = (
                (True, counts.created if life.is_placeholder else None),
                (life.bound is not None, counts.reserved if life.is_placeholder else counts.bound),
                (life.ended is not None, counts.released if life.is_placeholder else counts.finished),
            )
            for came, names in moments:
                if came and names is not None:
                    names.add(name)
        return view


def load() -> Run:
    """Read the recording. Raises pydantic.ValidationError if it is invalid."""
    return Run.model_validate_json(RECORDING.read_text())
