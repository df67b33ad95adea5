"""PRISM's rule as it ships."""

from omegaconf import OmegaConf

from tests.support.places import CONF
from whest.config.build import build_target
from whest.scoring.prism import PrismRule

CHOICE = CONF / "scoring" / "prism.yaml"


def shipped() -> PrismRule:
    node = OmegaConf.to_container(OmegaConf.load(CHOICE))
    assert isinstance(node, dict)
    rule: PrismRule = build_target(PrismRule, {str(k): v for k, v in node.items() if k != "_target_"}, "scoring")
    return rule


RULE = shipped()
