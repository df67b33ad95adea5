"""How repeatable effective compute is: cov_prop on one MLP of 256x8, 20 times, traced and eager.

    python benchmarks/meter_noise.py        # about half a minute

Traced mode has no residual time, so its C equals F and doesn't vary. In eager mode, the time between operations costs
λ = 1e11 FLOPs per second.
"""

import statistics

from estimators.cov_prop import CovarianceProp
from whest.dataset.sources import FreshDataset
from whest.estimator.contract import SetupContext
from whest.estimator.eager import EagerSession
from whest.estimator.traced import compile_program, estimator_function

WIDTH, DEPTH, BUDGET, LAM, REPEATS = 256, 8, int(6.8e10), 1e11, 20
CONTEXT = SetupContext(WIDTH, DEPTH, BUDGET, LAM, 60.0, None, 0, ".", None)


def main() -> None:
    dataset = FreshDataset(width=WIDTH, depth=DEPTH, seed=1, n_mlps=1).load()
    mlp = dataset.mlp(dataset.rows[0])
    program = compile_program(estimator_function(CovarianceProp(), BUDGET), CONTEXT)
    eager = EagerSession(CovarianceProp(), CONTEXT)
    eager.warm_up()
    print("| mode | mean C | standard deviation | share of the mean | residual ms |")
    print("|---|---|---|---|---|")
    for mode, session in (("traced", program), ("eager", eager)):
        predictions = [session.predict(mlp) for _ in range(REPEATS)]  # type: ignore[union-attr]
        computes = [p.cost.flops + LAM * p.timing.residual_wall_time_s for p in predictions]
        residual = statistics.mean(p.timing.residual_wall_time_s for p in predictions)
        mean, spread = statistics.mean(computes), statistics.stdev(computes)
        print(f"| {mode} | {mean:.4g} | {spread:.2g} | {spread / mean:.2%} | {1e3 * residual:.2f} |")


if __name__ == "__main__":
    main()
