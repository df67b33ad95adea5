"""What an estimator is told at set-up."""

from pathlib import Path

from whest.config.compose import compose
from whest.experiment import build

WORDS = ("estimator=zeros", "tracking=none", "dataset=fresh", "round.width=8", "round.depth=2", "dataset.n_mlps=1")


def context_seed(seed: int, folder: Path) -> int:
    return build(compose(*WORDS, f"seed={seed}", f"outputs_dir={folder}"), folder).task.context.seed


def test_setup_is_not_told_the_seed_of_the_networks(tmp_path: Path) -> None:
    """With it, `setup` could draw the networks of `dataset=fresh` again, and tracing could compute their answers."""
    experiment = build(compose(*WORDS, "seed=7", f"outputs_dir={tmp_path}"), tmp_path)
    assert experiment.task.dataset.seed == 7
    assert experiment.task.context.seed not in (0, 7)


def test_the_same_run_gets_the_same_seed_at_set_up(tmp_path: Path) -> None:
    assert context_seed(7, tmp_path) == context_seed(7, tmp_path) != context_seed(8, tmp_path)
