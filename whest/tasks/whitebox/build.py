"""Make the white-box task from a composed config. Every value is checked before any work starts."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from whest.config.build import Node, build_group, build_target
from whest.config.settings import Round, Settings, TaskName
from whest.dataset.sources import drawn_seed
from whest.errors import ConfigError
from whest.estimator.contract import SetupContext
from whest.estimator.spec import estimator_spec
from whest.isolation.choose import Isolation
from whest.limits import Limits, WorkerLimits
from whest.metering.lists import DEFAULT
from whest.tasks.whitebox.task import Whitebox
from whest.truth.cache import TruthCache
from whest.truth.truth import refuse_idle_truth, refuse_two_aims

PROFILE = "profile"
"""The folder of the profiler's trace, in the run's folder."""


def setup_seed(seed: int | None) -> int:
    """The seed of `setup` if the run's own seed draws the networks of `dataset=fresh`, which nobody may draw again."""
    return int.from_bytes(sha256(f"whest setup {seed}".encode()).digest()[:4])


def build_task(config: Node, settings: Settings, folder: Path, overrides: Sequence[str]) -> Whitebox:
    build_target(TaskName, config["task"], "task")
    build_target(Round, config["round"], "round")
    refuse_two_aims(overrides)
    sampler = build_group(config, "truth")
    dataset = build_group(config, "dataset", **drawn_seed(config)).load()
    refuse_idle_truth(dataset.has_truth and not sampler.resample, overrides)
    estimator = estimator_spec(config["estimator"])
    if estimator.is_bundled:
        made = estimator.create()  # a wrong knob is a config error, found before any work
        if not callable(getattr(made, "predict", None)):
            raise ConfigError(
                f"estimator={estimator.name} is a byte learner without predict(mlp, budget): use it with "
                "task=prequential, as in experiment=prism"
            )
    isolation = build_target(Isolation, config["isolation"], "isolation")
    isolation.refuse_unfit(estimator)
    sealed = None
    if estimator.is_sealed:
        from whest.sealed.purpose import Purpose
        from whest.sealed.sealed import sealed_programs  # the reader of such files is not for every run

        purpose = Purpose("whitebox", int(settings.budget), width=dataset.width, depth=dataset.depth)
        sealed = sealed_programs(estimator, purpose)
    refuse_unfit_prices(settings.meter, estimator.mode)
    if settings.memory_limit_mb is not None and not isolation.is_process(estimator):
        raise ConfigError(
            f"memory_limit_mb={settings.memory_limit_mb:g} works only for a worker: add isolation=process"
        )
    if settings.profile and isolation.is_process(estimator):
        raise ConfigError(
            f"profile=true traces this process, and estimator={estimator.name} runs in a worker: if you trust its "
            "code, add isolation=none isolation.require=[]"
        )
    return Whitebox(
        profile=folder / PROFILE if settings.profile else None,
        dataset=dataset,
        sampler=sampler,
        estimator=estimator,
        limits=Limits(settings.budget, settings.lam, settings.wall_time_limit_s, settings.residual_wall_time_limit_s),
        context=SetupContext(
            width=dataset.width,
            depth=dataset.depth,
            flop_budget=int(settings.budget),
            lam=settings.lam,
            wall_time_limit_s=settings.wall_time_limit_s,
            residual_wall_time_limit_s=settings.residual_wall_time_limit_s,
            seed=setup_seed(settings.seed) if settings.seed and dataset.seed == settings.seed else settings.seed or 0,
            scratch_dir=str(folder / "scratch"),
            submission_dir=estimator.submission_dir,
        ),
        isolation=isolation,
        worker_limits=WorkerLimits(settings.wall_time_limit_s, settings.setup_timeout_s, settings.memory_limit_mb),
        cache=TruthCache(settings.outputs / "cache" / "truth"),
        outputs=settings.outputs,
        sealed=sealed,
        prices=settings.meter,
    )


def refuse_unfit_prices(prices: str, mode: str) -> None:
    """Only a whole traced program has a figure of XLA's."""
    if prices != DEFAULT and mode != "traced":
        raise ConfigError(f"meter={prices} needs estimator.mode=traced, this estimator is {mode}: leave meter out")
