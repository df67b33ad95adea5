"""The types of `report.json` that its parts share, and those of its `run_config`.

A figure is None if it could not be measured, or if it is not finite.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict  # before Python 3.12 pydantic refuses that of typing

Figure = float | None


def says(text: str) -> Any:
    """The description of a key, as the schema shows it."""
    return Field(description=text)


class TimesJson(TypedDict):
    """Where the wall time went, in seconds."""

    wall_time_s: Annotated[float, says("All of it: the sum of the other three.")]
    backend_time_s: Annotated[float, says("The device's work.")]
    overhead_time_s: Annotated[float, says("The harness's own work.")]
    residual_wall_time_s: Annotated[float, says("Everything else that the estimator did.")]
    flopscope_backend_time_s: NotRequired[Annotated[float, says("backend_time_s. Only with report.names=whestbench.")]]
    flopscope_overhead_time_s: NotRequired[
        Annotated[float, says("overhead_time_s. Only with report.names=whestbench.")]
    ]


class PartTimesJson(TypedDict):
    """The same of a part. All are None in a traced program, which runs as a whole."""

    wall_time_s: Annotated[Figure, says("All of it: the sum of the other three.")]
    backend_time_s: Annotated[Figure, says("The device's work.")]
    overhead_time_s: Annotated[Figure, says("The harness's own work.")]
    residual_wall_time_s: Annotated[Figure, says("Everything else that the estimator did.")]
    flopscope_backend_time_s: NotRequired[Annotated[Figure, says("backend_time_s. Only with report.names=whestbench.")]]
    flopscope_overhead_time_s: NotRequired[
        Annotated[Figure, says("overhead_time_s. Only with report.names=whestbench.")]
    ]


class SpentJson(PartTimesJson):
    """What a part cost."""

    flops_used: Annotated[int, says("Counted FLOPs.")]
    calls: Annotated[int, says("How many times it ran.")]


class NamespaceJson(SpentJson):
    """What one namespace cost."""

    operations: Annotated[dict[str, SpentJson], says("Its costs by the name of the operation.")]


class EstimatorBreakdownJson(TimesJson):
    """Where the FLOPs and the time of an estimator went."""

    flops_used: Annotated[int, says("Counted FLOPs.")]
    by_namespace: Annotated[dict[str, NamespaceJson], says("The costs by `jax.named_scope`.")]


class SamplingBreakdownJson(SpentJson):
    """What truth cost. Its times cover only the MLPs whose truth was drawn in this run."""

    n_samples: Annotated[int, says("Samples behind the truth of all MLPs.")]
    n_mlps_drawn: Annotated[int, says("MLPs whose truth was drawn in this run.")]
    by_namespace: Annotated[dict[str, SpentJson], says("The same costs, under `sampling.forward`.")]


class EstimatorPartJson(TypedDict):
    """The costs of an estimator."""

    estimator: Annotated[EstimatorBreakdownJson, says("Where its FLOPs and its time went.")]


class BreakdownsJson(EstimatorPartJson):
    """The costs of an estimator and of truth."""

    sampling: Annotated[SamplingBreakdownJson | None, says("What truth cost. None in an imported report.")]


class CaseScoreJson(TypedDict):
    """The field of a row that shows the row's part in the score. Runs are paired by it."""

    field: Annotated[str, says("The key in a row.")]
    label: Annotated[str, says("Its name for people.")]
    unit: Annotated[str, says("What a case is: MLP, block or question.")]
    direction: Annotated[Literal["lower", "higher"], says("Which values are better.")]


class FrontJson(TypedDict):
    """The run as a point of error against compute."""

    measure: Annotated[str, says("What the error measures.")]
    error: Annotated[Figure, says("The error; lower is better.")]
    error_se: Annotated[Figure, says("Its standard error.")]
    compute: Annotated[Figure, says("What it cost, in FLOPs.")]


class ScoreJson(TypedDict):
    """What every task has."""

    score: Annotated[Figure, says("The figure that ranks. None if the run has no valid score.")]
    score_se: Annotated[Figure, says("Its standard error over the cases.")]
    direction: Annotated[Literal["lower", "higher"], says("Which scores are better.")]
    case_score: Annotated[CaseScoreJson, says("The field of a row that shows the row's part in the score.")]
    peak_memory_bytes: Annotated[int | None, says("The most memory that the runner's process held.")]


class ErrorJson(TypedDict):
    """An error in words."""

    message: Annotated[str, says("One sentence.")]
    details: Annotated[dict[str, Any], says("For a wrong shape: both shapes and likely causes; else empty.")]
    exception: NotRequired[Annotated[str | None, says("The class of the exception. None if there was none.")]]
    where: NotRequired[Annotated[str | None, says("The last line of the estimator's own code: file, line, source.")]]


class FailureJson(TypedDict):
    """What a failed case adds to its row."""

    error: NotRequired[Annotated[ErrorJson, says("What went wrong. Only in a case that failed with an error.")]]
    error_code: NotRequired[Annotated[str, says("The kind of error. Only in a case that failed with an error.")]]


class EstimatorJson(TypedDict):
    """The estimator or the learner."""

    name: Annotated[str, says("Its name.")]
    target: Annotated[str | None, says("Its class, `package.module.Class`. None for a file.")]
    path: Annotated[str | None, says("Its file or folder. None for a class.")]
    mode: Annotated[Literal["traced", "eager", "flopscope"], says("How it was run and metered.")]
    knobs: Annotated[dict[str, Any], says("The values of its fields that were set.")]
    source_sha256: Annotated[str | None, says("The hash of its source.")]


class CommonConfig(TypedDict):
    """What every task's config has."""

    flop_budget: Annotated[float, says("B: the FLOPs that a case may spend; in the learners' tasks, a run.")]
    lambda_flops_per_second: Annotated[float, says("λ: what a second of residual time costs, in FLOPs.")]
    lambda_has_effect: NotRequired[
        Annotated[bool, says("False for a traced estimator: it has no residual time, so λ changed nothing.")]
    ]
    wall_time_limit_s: Annotated[Figure, says("Seconds that a case may take. None is no limit.")]
    residual_wall_time_limit_s: Annotated[Figure, says("Seconds of residual time that a case may take.")]
    round: Annotated[str, says("The round's name.")]
    seed: Annotated[int | None, says("The seed of the run.")]
    device: Annotated[str | None, says("The device that was asked for.")]
    memory_limit_mb: Annotated[Figure, says("Megabytes that a worker may take. None is no limit.")]
    setup_timeout_s: Annotated[Figure, says("Seconds that `setup` may take. None is no limit.")]
    participant: Annotated[str, says("Whose run it is.")]
    name: NotRequired[Annotated[str, says("The run's own name. Absent if it has none.")]]
    notes: NotRequired[Annotated[str, says("A remark. Absent if there is none.")]]
    hypothesis: NotRequired[Annotated[str, says("What the run was to show. Absent if nothing was said.")]]
    decision: NotRequired[Annotated[str, says("What was decided on it. Absent if nothing was said.")]]
    tags: NotRequired[Annotated[dict[str, str], says("Labels. Absent if there are none.")]]
    report_names: NotRequired[
        Annotated[Literal["whestbench"], says("The report has WhestBench's field names too. Absent if it has not.")]
    ]
    estimator: Annotated[EstimatorJson, says("The estimator or the learner.")]


class RuleJson(TypedDict):
    """What every rule has."""

    version: Annotated[int, says("The rule's version.")]


class WhestRuleJson(RuleJson):
    """scoring=whest and its constants."""

    name: Annotated[Literal["whest"], says("The rule's name.")]
    multiplier_floor: Annotated[float, says("The lowest multiplier.")]


class FhermaRuleJson(RuleJson):
    """scoring=fherma and its constants."""

    name: Annotated[Literal["fherma"], says("The rule's name.")]
    accuracy_scale: Annotated[float, says("s_t: points for each per cent.")]
    failure_power: Annotated[float, says("k: the power of the share that did not fail.")]
    time_weight: Annotated[float, says("ε: the weight of time.")]
    time_scale: Annotated[float, says("β: the scale of time, per second.")]
    tolerance: Annotated[float, says("How near a mean must be to count as right.")]


class PrismRuleJson(RuleJson):
    """scoring=prism and its constants."""

    name: Annotated[Literal["prism"], says("The rule's name.")]
    tie_cap: Annotated[float, says("The largest tie-break.")]
    tie_window: Annotated[float, says("Bits per byte within which a tie-break may reorder runs.")]
    gap_limit: Annotated[float, says("The gap above which a learner has memorised, in bits per byte.")]
    gap_penalty: Annotated[float, says("What memorising multiplies the score by.")]
    anomaly_share: Annotated[float, says("Of ln 256: a first batch below it scores 0.")]
    bad_batch_charge: Annotated[float, says("In units of ln 256 per byte, for a batch that is not finite.")]
    converged_share: Annotated[float, says("The share of last batches that count as converged.")]


class AriRuleJson(RuleJson):
    """scoring=ari, which has no constants."""

    name: Annotated[Literal["ari"], says("The rule's name.")]


class IsolationJson(TypedDict):
    """Where the estimator's code ran."""

    worker: Annotated[bool | None, says("Whether it ran in a worker.")]
    protections: Annotated[
        dict[str, str], says("Each protection of the worker and the mechanisms that held; empty: it was not in force.")
    ]
    require: NotRequired[Annotated[list[str], says("The protections that a stranger's code must have.")]]
    status: NotRequired[Annotated[str, says("trusted, protected or unprotected.")]]
    kind: NotRequired[Annotated[str, says("The choice of isolation.")]]
    fresh: NotRequired[Annotated[bool | None, says("Whether each MLP had a new worker.")]]


class SeedProtocolJson(TypedDict):
    """How MLPs are drawn from their seeds."""

    name: Annotated[str, says("Its name.")]
    version: Annotated[str, says("Its version, for example 3.0.")]


class MlpDatasetJson(TypedDict):
    """The MLPs."""

    name: Annotated[str, says("Its name.")]
    path: Annotated[str | None, says("Where it was read from. None if it was drawn.")]
    sha256: Annotated[str, says("The hash of its content.")]
    seed: Annotated[int | None, says("The seed that it was drawn from.")]
    n_mlps: Annotated[int, says("How many MLPs it has.")]
    seed_protocol: Annotated[SeedProtocolJson | None, says("How MLPs are drawn from their seeds.")]
    split: Annotated[str | None, says("The split that was read.")]
    n_samples: Annotated[int | None, says("The fewest samples behind a truth that it brings.")]


class TruthJson(TypedDict):
    """The sampler of truth."""

    sampler: Annotated[str, says("Its name.")]
    version: Annotated[int, says("Its version.")]
    n_samples: NotRequired[Annotated[int, says("Samples per MLP, if no standard error was asked for.")]]
    standard_error: Annotated[Figure, says("The standard error that was asked for.")]
    resample: Annotated[bool, says("Whether truth that the dataset brings was drawn anew.")]


class MlpConfig(CommonConfig):
    """What a run on MLPs has, our own or imported."""

    task: Annotated[Literal["whitebox"], says("The task.")]
    n_mlps: Annotated[int, says("How many MLPs were asked for.")]
    width: Annotated[int, says("Neurons per layer.")]
    depth: Annotated[int, says("Layers.")]
    isolation: Annotated[IsolationJson, says("Where the estimator's code ran.")]


class WhiteboxConfig(MlpConfig):
    """The config of task=whitebox."""

    meter: NotRequired[
        Annotated[
            Literal["xla", "flopscope", "flopscope-0.7", "flopscope-0.4"],
            says("The price list behind F. Absent for whest's own."),
        ]
    ]
    dataset: Annotated[MlpDatasetJson, says("The MLPs.")]
    truth: Annotated[TruthJson, says("The sampler of truth.")]
    scoring: Annotated[WhestRuleJson | FhermaRuleJson, says("The rule.")]


class ImportedConfig(MlpConfig):
    """The config of an imported report."""

    dataset: Annotated[dict[str, Any], says("The MLPs, as the report states them.")]
    truth: Annotated[dict[str, str], says("Always theirs.")]
    scoring: Annotated[WhestRuleJson, says("The rule; a floor of 1 stands for no discount.")]


class TextJson(TypedDict):
    """The text that is learnt and held out."""

    name: Annotated[str, says("Its name.")]
    sha256: Annotated[str, says("The hash of its content.")]
    path: Annotated[str | None, says("Where it was read from. None if it was made.")]
    seed: Annotated[int | None, says("The seed that it was made from.")]
    n_documents: Annotated[int, says("How many documents it has.")]
    n_train_bytes: Annotated[int, says("Bytes of the stream.")]
    n_val_bytes: Annotated[int, says("Bytes that are held out.")]


class PrequentialConfig(CommonConfig):
    """The config of task=prequential."""

    task: Annotated[Literal["prequential"], says("The task.")]
    row_length: Annotated[int, says("Bytes per row.")]
    n_blocks: Annotated[int, says("Blocks of the whole stream.")]
    random_updates: NotRequired[Annotated[float, says("The share of the updates that was repeated on random bytes.")]]
    is_reference: Annotated[bool, says("Whether the learner runs unmetered, for reference; it is not ranked.")]
    isolation: Annotated[IsolationJson, says("Where the learner was traced.")]
    dataset: Annotated[TextJson, says("The text.")]
    scoring: Annotated[PrismRuleJson, says("The rule.")]


class RecipeJson(TypedDict):
    """How the learner was trained, and what was promoted."""

    calls: Annotated[int, says("Training calls; a candidate is packaged after each.")]
    row_length: Annotated[int, says("Bytes of a training row, and of the window that answers see.")]
    promote: Annotated[Literal["last", "none"] | int, says("Which candidate was promoted.")]


class WallClockJson(TypedDict):
    """A budget in seconds."""

    budget_s: Annotated[float, says("The deadline.")]
    call_limit_s: Annotated[float, says("The longest call.")]
    reserve_s: Annotated[float, says("No call begins so near to the deadline.")]


class ExamDatasetJson(TypedDict):
    """The text, the validation set and the exam."""

    name: Annotated[str, says("Its name.")]
    seed: Annotated[int, says("The seed of the parts that were made.")]
    is_demo: Annotated[bool, says("Whether the exam is the demo that the seed makes.")]
    n_questions: Annotated[int, says("Questions of the exam.")]
    families: Annotated[dict[str, int], says("Questions of each family.")]
    n_validation: Annotated[int, says("Questions of the validation set.")]
    n_text_bytes: Annotated[int, says("Bytes of the text.")]
    sha256: Annotated[str, says("The hash of the exam.")]
    exam_sha256: Annotated[str, says("The hash of the exam.")]
    text_sha256: Annotated[str, says("The hash of the text.")]
    validation_sha256: Annotated[str, says("The hash of the validation set.")]


class ExamConfig(CommonConfig):
    """The config of task=exam."""

    task: Annotated[Literal["exam"], says("The task.")]
    n_questions: Annotated[int, says("Questions of the exam.")]
    recipe: Annotated[RecipeJson, says("How the learner was trained.")]
    budget_by: Annotated[Literal["flops", "wall"], says("What ends the training: FLOPs or the clock.")]
    wall_clock: Annotated[WallClockJson | None, says("The budget in seconds. None if it is in FLOPs.")]
    bundle_limit_bytes: Annotated[int, says("The largest bundle, gzipped.")]
    random_updates: NotRequired[Annotated[float, says("The share of the updates that was repeated on random bytes.")]]
    isolation: Annotated[IsolationJson, says("Where the learner's code ran.")]
    dataset: Annotated[ExamDatasetJson, says("The text, the validation set and the exam.")]
    scoring: Annotated[AriRuleJson | FhermaRuleJson, says("The rule.")]
