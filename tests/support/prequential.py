"""The prequential task on made-up text, with learners of tests.support.byte_learners."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.support.prism_rule import RULE
from whest.estimator.spec import EstimatorSpec
from whest.experiment import gather
from whest.isolation.choose import Isolation
from whest.learner.contract import LearnerContext
from whest.limits import Limits, WorkerLimits
from whest.progress import SilentProgress
from whest.scoring.prism import PrismScore
from whest.tasks.prequential.task import Prequential
from whest.tasks.prequential.text import GeneratedText, Text

GENERATED = GeneratedText(5, 8192, 2048).load()
SHORT = GeneratedText(5, 2048, 512).load()


def text_of(train: bytes, val: bytes = b"") -> Text:
    return Text("test", np.frombuffer(train, np.uint8), np.frombuffer(val, np.uint8), 1, 0)


def task_of(
    learner: str,
    text: Text = GENERATED,
    row_length: int = 64,
    budget: float = 1e9,
    random_updates: float = 1 / 16,
    **knobs: Any,
) -> Prequential:
    return Prequential(
        text=text,
        estimator=EstimatorSpec(learner, "traced", f"tests.support.byte_learners.{learner}", None, knobs),
        limits=Limits(budget, 0.0, None, None),
        context=LearnerContext(int(budget), row_length, len(text.train), 1337),
        isolation=Isolation("none", False),
        worker_limits=WorkerLimits(None, None, None),
        bad_batch_charge=2.0,
        random_updates=random_updates,
        outputs=Path("nowhere"),
    )


def scored(task: Prequential) -> PrismScore:
    cases, _ = gather(task.cases(SilentProgress()))
    return task.score(RULE, cases)
