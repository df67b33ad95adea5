"""The whole program document is bounded: constants, wiring, parameters and labels."""

from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from tests.support.byte_learners import Bigram, Wired
from tests.support.places import CONF
from whest.config.compose import compose
from whest.estimator.spec import estimator_spec
from whest.isolation.learner import written_programs
from whest.learner.contract import LearnerContext, create_learner
from whest.learner.programs import LearnerError, Programs, flatten_learner, trace_programs
from whest.learner.size import LARGEST_DOCUMENT, LARGEST_WRITTEN, program_bytes

CONTEXT = LearnerContext(10**9, 16, 8192, 1337)
BUNDLED = sorted(path.stem for path in (CONF / "estimator").glob("byte_*.yaml") if "_target_" in OmegaConf.load(path))


def programs_of(learner: Any, context: LearnerContext = CONTEXT) -> Programs:
    return trace_programs(flatten_learner(learner), context)


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_learners_need_a_quarter_of_the_limit(name: str) -> None:
    config = compose("experiment=prism", f"estimator={name}")
    context = LearnerContext(int(float(config["budget"])), config["task"]["row_length"], 262_144, 1337)
    learner = create_learner(estimator_spec(config["estimator"]), context)
    size = program_bytes(*written_programs(programs_of(learner, context)))
    assert 0 < 3.5 * size < LARGEST_DOCUMENT  # other versions of JAX write a program a little longer or shorter


def test_luggage_in_the_wiring_is_weighed() -> None:
    """Few constants, and 100,000 bytes in the choice of operands."""
    programs = programs_of(Wired())
    with pytest.raises(LearnerError, match=r"bytes under gzip, at most 76,000 are allowed"):
        program_bytes(*written_programs(programs))


def test_luggage_in_labels_and_parameters_is_weighed() -> None:
    document, arrays = written_programs(programs_of(Bigram()))
    small = program_bytes(document, arrays)
    knowledge = np.random.default_rng(0).bytes(50_000).hex()
    document["programs"]["init"]["program"]["equations"][0][4] = knowledge[:4000]
    assert program_bytes(document, arrays) > small + 1900
    document["programs"]["init"]["program"]["equations"][0][3]["note"] = knowledge * 2
    with pytest.raises(LearnerError, match="under gzip"):
        program_bytes(document, [*arrays, np.frombuffer(bytes.fromhex(knowledge), np.uint8)])


def test_a_document_too_long_to_weigh_is_refused() -> None:
    with pytest.raises(LearnerError, match="bytes written down"):
        program_bytes({"padding": " " * LARGEST_WRITTEN}, [])
