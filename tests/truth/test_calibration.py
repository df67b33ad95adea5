"""The shipped warmup suite against the published calibration (256x8, 100 MLPs) and against theory."""

import math

import pytest

from whest.api import score
from whest.config.compose import compose

PUBLISHED_MLPS = 100


def run(tmp_path, *overrides):
    config = compose("tracking=none", f"outputs_dir={tmp_path / 'outputs'}", *overrides)
    return score(config, tmp_path)


@pytest.mark.parametrize(("estimator", "published"), [("mean_prop", 7.5e-4), ("cov_prop", 3.7e-5)])
def test_analytic_estimators_agree_with_the_published_figures(estimator, published, tmp_path):
    suite = run(tmp_path, f"estimator={estimator}").score
    ours = suite.final_layer_mse_se
    theirs = ours * math.sqrt(len(suite.cases) / PUBLISHED_MLPS)
    assert abs(suite.final_layer_mse - published) <= 3 * math.hypot(ours, theirs)
    assert suite.n_failed_mlps == 0


def test_sampling_scores_its_variance_over_its_samples(tmp_path):
    suite = run(tmp_path, "estimator=monte_carlo", "budget=6.8e9", "estimator.budget_fraction=0.1").score
    excess = [c.final_layer_mse - c.truth_floor_mse - c.sampling_mse_at_compute for c in suite.cases]
    mean = sum(excess) / len(excess)
    spread = math.sqrt(sum((e - mean) ** 2 for e in excess) / (len(excess) - 1) / len(excess))
    assert abs(mean) <= 3 * spread
    assert 0.09 < suite.mean_compute_utilization <= 0.1
