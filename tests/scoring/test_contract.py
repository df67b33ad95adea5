"""Every shipped rule keeps the contract, on each task that it scores."""

from collections.abc import Sequence
from typing import Any

from hydra.utils import get_class
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tests.support.contracts.rule import (
    RuleContract,
    RuleSubject,
    UnorderedRuleContract,
    exam_subject,
    whitebox_subject,
)
from tests.support.places import CONF
from whest.cases.prequential import HeldOut
from whest.config.build import build_target
from whest.scoring import ari, fherma, prism, whest
from whest.scoring.prism import OnlineRun
from whest.tasks.task import PAIRS


def shipped(name: str) -> Any:
    """The rule of conf/scoring/NAME.yaml."""
    node = OmegaConf.to_container(OmegaConf.load(CONF / "scoring" / f"{name}.yaml"))
    assert isinstance(node, dict)
    return build_target(get_class(node.pop("_target_")), {str(key): value for key, value in node.items()}, "scoring")


def prism_subject(rule: Any) -> RuleSubject:
    """Its cases are the mean losses of batches, in their order."""
    held_out = HeldOut(3.0, 5.0)

    def run(losses: Sequence[float | None]) -> OnlineRun:
        return OnlineRun(losses, 100, held_out)

    def results(losses: Sequence[float | None], score: Any) -> dict[str, Any]:
        return {
            "online": {"loss": losses, "batch_bytes": 100, "is_whole": True},
            "val_bpb": score.val_bpb,
            "val_bpb_random_init": score.val_bpb_random_init,
            "per_case": [{"bpb": loss} for loss in losses],
        }

    losses = st.lists(st.none() | st.floats(0, 50), max_size=30)
    return RuleSubject(rule, "prequential", losses, lambda x: rule.score(run(x)), results, prism.recompute)


class TestRules(UnorderedRuleContract):
    subjects = {
        "whest on whitebox": whitebox_subject(shipped("whest"), whest.recompute),
        "fherma on whitebox": whitebox_subject(shipped("fherma"), fherma.recompute),
        "ari on exam": exam_subject(shipped("ari"), ari.recompute),
        "fherma on exam": exam_subject(shipped("fherma"), fherma.recompute),
    }


class TestRulesOfAStream(RuleContract):
    subjects = {"prism on prequential": prism_subject(shipped("prism"))}


def test_every_legal_pair_is_a_subject() -> None:
    subjects = [*TestRules.subjects.values(), *TestRulesOfAStream.subjects.values()]
    pairs = {(subject.task, subject.rule.name) for subject in subjects}
    assert pairs == {(task, rule) for task, rules in PAIRS.items() for rule in rules}
