"""What a program was traced for: a task, the shape of its inputs, and the budget that it was told."""

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from whest.notation import short_number

Task = Literal["whitebox", "prequential", "exam"]
Positive = Annotated[int, Field(ge=1, lt=2**62)]
Budget = Annotated[int, Field(ge=0, lt=2**100)]


@dataclass(frozen=True)
class Purpose:
    """One of the shapes in a file. A white-box estimator has width and depth, a learner rows and a stream."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    task: Task
    budget: Budget
    width: Positive | None = None
    depth: Positive | None = None
    row_length: Positive | None = None
    n_bytes: Positive | None = None
    """Of the stream."""

    def __str__(self) -> str:
        if self.task == "whitebox":
            return f"{self.width}x{self.depth} with budget {short_number(self.budget)}"
        stream = f" of {self.n_bytes:,} bytes" if self.task == "prequential" and self.n_bytes else ""
        kind = "an exam" if self.task == "exam" else f"a stream{stream}"
        return f"{kind} in rows of {self.row_length} with budget {short_number(self.budget)}"

    @property
    def run_words(self) -> str:
        """Words of a command line that runs it so."""
        budget = f"budget={short_number(self.budget)}"
        if self.task == "whitebox":
            return f"dataset=fresh round.width={self.width} round.depth={self.depth} {budget}"
        row = "task.row_length" if self.task == "prequential" else "task.recipe.row_length"
        return f"task={self.task} {row}={self.row_length} {budget}"

    @property
    def seal_words(self) -> str:
        """Words of `job=seal` that seal for it."""
        if self.task != "whitebox":
            return self.run_words
        return f"seal.shapes=[{self.width}x{self.depth}@{short_number(self.budget)}]"

    def to_json(self) -> dict[str, int | str]:
        return {name: value for name, value in asdict(self).items() if value is not None}
