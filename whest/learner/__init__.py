"""What a byte learner is: the contract that authors write against, and the mathematics most learners need."""

from whest.learner.contract import (
    BOS,
    N_BYTES,
    N_TOKENS,
    Learner,
    LearnerContext,
    State,
    TrainState,
    affordable_steps,
    batch_shape,
    code_lengths,
    mean_nats,
    nats,
    step_cost,
    tokens_of,
)

__all__ = [
    "BOS",
    "N_BYTES",
    "N_TOKENS",
    "Learner",
    "LearnerContext",
    "State",
    "TrainState",
    "affordable_steps",
    "batch_shape",
    "code_lengths",
    "mean_nats",
    "nats",
    "step_cost",
    "tokens_of",
]
