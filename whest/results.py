"""The types of `results` in `report.json`: what each task measured, and what its rule made of it."""

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict  # before Python 3.12 pydantic refuses that of typing

from whest.schema import (
    BreakdownsJson,
    EstimatorPartJson,
    FailureJson,
    Figure,
    FrontJson,
    ScoreJson,
    TimesJson,
    says,
)


class FhermaJson(TypedDict):
    """The figures of scoring=fherma."""

    accuracy: NotRequired[Annotated[Figure, says("Accuracy of the cases that answered, in per cent.")]]
    failure_rate: NotRequired[Annotated[Figure, says("The share of cases that failed.")]]
    mean_wall_time_s: NotRequired[Annotated[Figure, says("Mean wall time of the cases that were attempted.")]]
    time_deduction: NotRequired[Annotated[Figure, says("Points lost for time.")]]
    failure_factor: NotRequired[Annotated[Figure, says("What the failures multiply the score by.")]]


class FhermaRowJson(TypedDict):
    """What scoring=fherma adds to a row."""

    accuracy: NotRequired[Annotated[Figure, says("The case's accuracy in per cent. None if it failed.")]]
    attempted: NotRequired[Annotated[bool, says("Whether it ran. A program over the budget is refused.")]]


class MlpRow(TimesJson, FailureJson, FhermaRowJson):
    """One MLP."""

    mlp_index: Annotated[int, says("Its place in the dataset.")]
    mlp_name: Annotated[str, says("Its name.")]
    flops_used: Annotated[int, says("F: counted FLOPs.")]
    flops_xla: NotRequired[Annotated[Figure, says("XLA's count of the same operations. None if XLA was not asked.")]]
    xla_unknown: NotRequired[Annotated[list[str], says("Operations without a figure of XLA's; they count 0 in it.")]]
    effective_compute: Annotated[Figure, says("C = F + λ·R, with R residual seconds.")]
    score_multiplier: NotRequired[Annotated[Figure, says("max(floor, C/B), and 1 if it failed. scoring=whest.")]]
    adjusted_final_layer_score: NotRequired[Annotated[Figure, says("MSE times the multiplier. scoring=whest.")]]
    budget_exhausted: Annotated[bool, says("F was over the budget B.")]
    time_exhausted: Annotated[bool, says("The wall time was over its limit.")]
    residual_wall_time_exhausted: Annotated[bool, says("The residual time was over its limit.")]
    combined_budget_exhausted: Annotated[bool, says("C was over the budget B.")]
    final_layer_mse: Annotated[Figure, says("Mean squared error of the last layer.")]
    all_layers_mse: Annotated[Figure, says("Mean squared error of all layers.")]
    per_layer_mse: Annotated[list[Figure] | None, says("Mean squared error of each layer.")]
    truth_floor_mse: Annotated[Figure, says("The noise that truth adds to the last layer's MSE.")]
    sampling_mse_at_budget: Annotated[Figure, says("MSE of plain sampling that spends the budget.")]
    sampling_mse_at_compute: Annotated[Figure, says("MSE of plain sampling that spends C.")]
    breakdowns: Annotated[EstimatorPartJson, says("What the prediction cost.")]
    compile_time_s: Annotated[float, says("Tracing and compiling, outside the wall time.")]
    output: Annotated[str | None, says("What the estimator printed in its worker.")]
    traceback: Annotated[str | None, says("Why the case failed. None if it did not.")]


class WhiteboxFailuresJson(TypedDict):
    """How many MLPs have each flag. One MLP may have several."""

    budget_exhausted: Annotated[int, says("MLPs over the budget by F alone.")]
    time_exhausted: Annotated[int, says("MLPs over the limit of wall time.")]
    residual_wall_time_exhausted: Annotated[int, says("MLPs over the limit of residual time.")]
    combined_budget_exhausted: Annotated[int, says("MLPs over the budget by C.")]
    error: Annotated[int, says("MLPs that failed with an error.")]


class WhiteboxFindings(TypedDict):
    """What a white-box report adds to the score."""

    flops_xla: NotRequired[Annotated[Figure, says("XLA's count of the same operations. None if XLA was not asked.")]]
    xla_unknown: NotRequired[Annotated[list[str], says("Operations without a figure of XLA's; they count 0 in it.")]]
    compile_time_s: Annotated[float, says("Tracing and compiling, all MLPs together.")]
    breakdowns: Annotated[BreakdownsJson, says("What the estimator and truth cost, all MLPs together.")]
    per_mlp: Annotated[list[MlpRow], says("One row per MLP.")]


class MlpMeasuresJson(ScoreJson, WhiteboxFindings):
    """The figures of all MLPs together, as our own and imported reports have them."""

    final_layer_mse: Annotated[Figure, says("Mean over MLPs of the last layer's MSE.")]
    final_layer_mse_se: Annotated[Figure, says("Its standard error.")]
    final_layer_mse_corrected: Annotated[Figure, says("The same without the noise of truth.")]
    all_layers_mse: Annotated[Figure, says("Mean over MLPs of the MSE of all layers.")]
    per_layer_mse: Annotated[list[Figure], says("Mean over MLPs of each layer's MSE.")]
    truth_floor_mse: Annotated[Figure, says("The noise that truth adds to the last layer's MSE.")]
    mean_compute_utilization: Annotated[Figure, says("Mean of C/B.")]
    mean_effective_compute: Annotated[Figure, says("Mean of C.")]
    n_failed_mlps: Annotated[int, says("MLPs that failed.")]
    adjusted_final_layer_score: NotRequired[Annotated[Figure, says("The score of scoring=whest.")]]
    adjusted_final_layer_score_se: NotRequired[Annotated[Figure, says("Its standard error.")]]
    best_mlp_adjusted_final_layer_score: NotRequired[Annotated[Figure, says("The lowest score of an MLP.")]]
    worst_mlp_adjusted_final_layer_score: NotRequired[Annotated[Figure, says("The highest score of an MLP.")]]
    mean_score_multiplier: NotRequired[Annotated[Figure, says("Mean multiplier of scoring=whest.")]]


class WhiteboxResults(MlpMeasuresJson, FhermaJson):
    """task=whitebox: how near the estimator came on a dataset of MLPs."""

    front: Annotated[FrontJson, says("The run as a point of error against compute.")]
    failure_breakdown: Annotated[WhiteboxFailuresJson, says("How many MLPs have each flag.")]
    sampling_mse_at_budget: Annotated[Figure, says("Mean MSE of plain sampling that spends the budget.")]
    sampling_mse_at_compute: Annotated[Figure, says("Mean MSE of plain sampling that spends C.")]
    adjusted_final_layer_score_corrected: NotRequired[Annotated[Figure, says("The score without truth's noise.")]]
    ratio_to_sampling: NotRequired[Annotated[Figure, says("The score over that of plain sampling at C.")]]


class ImportedResults(MlpMeasuresJson):
    """A WhestBench report: its figures as it states them, under our names."""

    failure_breakdown: Annotated[dict[str, Any], says("How many MLPs have each flag, as the report states it.")]


class OnlineJson(TypedDict):
    """The losses along the stream."""

    loss: Annotated[list[Figure], says("Nats per byte of each batch, taken before the learner saw it.")]
    batch_bytes: Annotated[int, says("Bytes of one batch.")]
    rows_per_step: Annotated[int, says("Rows of one batch.")]
    is_whole: Annotated[bool, says("Whether the run went on until the budget or the stream was spent.")]


class GuessJson(TypedDict):
    """One byte of held-out text, and what the learner expected."""

    before: Annotated[str, says("The text before the byte.")]
    byte: Annotated[int, says("The byte, 0 to 255.")]
    bits: Annotated[Figure, says("Its code length in bits.")]
    guesses: Annotated[list[tuple[int, Figure]], says("The likeliest bytes with their probabilities.")]


class BlockRow(TimesJson):
    """One block of the stream."""

    case_index: Annotated[int, says("Its place in the stream.")]
    case_name: Annotated[str, says("Its name.")]
    bpb: Annotated[Figure, says("Bits per byte.")]
    n_bytes: Annotated[int, says("Its bytes.")]
    flops_used: Annotated[int, says("Counted FLOPs of its updates.")]
    flops_xla: NotRequired[Annotated[Figure, says("XLA's count of the same operations. None if XLA was not asked.")]]


class ErrorCountJson(TypedDict):
    """Whether a run failed."""

    error: Annotated[int, says("1 if the run failed, else 0.")]


class PrequentialFindings(TypedDict):
    """What a prequential report adds to the score."""

    compile_time_s: Annotated[float, says("Tracing and compiling.")]
    breakdowns: Annotated[EstimatorPartJson, says("What the updates cost.")]
    program_bytes: Annotated[
        int | None, says("All programs of the learner, gzipped. None: a reference, or none were made.")
    ]
    constant_bytes: NotRequired[Annotated[int | None, says("Constants in these programs, in bytes.")]]
    flops_xla: NotRequired[Annotated[Figure, says("XLA's count of the same operations. None if XLA was not asked.")]]
    harness_flops: Annotated[int, says("FLOPs of the harness's own losses and checks, which are not charged.")]
    n_failed_cases: Annotated[int, says("Always 0: a run fails as a whole.")]
    failure_breakdown: Annotated[ErrorCountJson, says("Whether the run failed.")]
    online: Annotated[OnlineJson, says("The losses along the stream.")]
    examples: Annotated[list[GuessJson], says("Bytes of held-out text, and what the learner expected.")]
    per_case: Annotated[list[BlockRow], says("One row per block.")]


class PrequentialResults(ScoreJson, PrequentialFindings):
    """task=prequential: how short a code the learner gave the stream while it was learning."""

    front: Annotated[FrontJson, says("The run as a point of error against compute.")]
    bpb: Annotated[Figure, says("Bits per byte of the stream.")]
    base: Annotated[Figure, says("1 / (1 + bpb).")]
    tie_break: Annotated[Figure, says("The part of the score that orders nearly equal runs.")]
    penalty: Annotated[float, says("Below 1 for a learner that memorised.")]
    heldout_delta: Annotated[Figure, says("Bits per byte of held-out text that learning saved.")]
    gap: Annotated[Figure, says("Held-out text against the text learnt last, in bits per byte.")]
    val_bpb: Annotated[Figure, says("Bits per byte of held-out text at the end.")]
    val_bpb_random_init: Annotated[Figure, says("The same for a twin that learnt nothing.")]
    train_bpb_converged: Annotated[Figure, says("Bits per byte of the last batches.")]
    covered_bytes: Annotated[int, says("Bytes of the stream that were coded.")]
    n_batches: Annotated[int, says("Batches that were coded.")]
    n_charged_batches: Annotated[int, says("Batches whose loss was not finite; each is charged a fixed loss.")]
    step0_loss: Annotated[Figure, says("Nats per byte of the first batch.")]
    step0_anomaly: Annotated[bool, says("The first batch was too cheap for random weights: the score is 0.")]
    memorised: Annotated[bool, says("Whether the gap was over its limit.")]
    flops_used: Annotated[int, says("Counted FLOPs of the updates.")]
    failure: Annotated[str | None, says("Why there is no score.")]


class FamilyJson(TypedDict):
    """One family of questions."""

    right: Annotated[int, says("Right answers.")]
    asked: Annotated[int, says("Questions.")]


class CallJson(TypedDict):
    """A training call."""

    event: Annotated[Literal["call"], says("The kind of event.")]
    number: Annotated[int, says("Its number.")]
    asked_at_s: Annotated[float, says("When it was asked for, in seconds from the start.")]
    flops_left: Annotated[Figure, says("FLOPs that were left. None for a budget in seconds.")]
    seconds_left: Annotated[Figure, says("Seconds that were left. None for a budget in FLOPs.")]
    steps: Annotated[int, says("Updates that it ran.")]
    flops_used: Annotated[int, says("FLOPs that it used.")]
    wall_time_s: Annotated[float, says("Seconds that it took.")]


class RefusalJson(TypedDict):
    """A call that was asked for too late."""

    event: Annotated[Literal["refusal"], says("The kind of event.")]
    number: Annotated[int, says("The call's number.")]
    asked_at_s: Annotated[float, says("When it was asked for, in seconds from the start.")]
    reason: Annotated[str, says("Why it was refused.")]


class CandidateJson(TypedDict):
    """A packaged model."""

    event: Annotated[Literal["candidate"], says("The kind of event.")]
    number: Annotated[int, says("Its number.")]
    packaged_at_s: Annotated[float, says("When it was packaged, in seconds from the start.")]
    steps: Annotated[int, says("Updates behind it.")]
    sha256: Annotated[str, says("The hash of its bundle.")]
    gzipped_bytes: Annotated[int, says("The size of its bundle, gzipped.")]
    validation_right: Annotated[int, says("Right answers on the validation set.")]
    validation_asked: Annotated[int, says("Questions of the validation set.")]


class PromotionJson(TypedDict):
    """The recipe's choice of a candidate."""

    event: Annotated[Literal["promotion"], says("The kind of event.")]
    candidate: Annotated[int, says("The candidate's number.")]
    at_s: Annotated[float, says("When, in seconds from the start.")]


class TrainingJson(TypedDict):
    """How the learner was trained."""

    losses: Annotated[list[tuple[int, Figure]], says("Pairs of a step and its bits per byte.")]
    history: Annotated[list[CallJson | RefusalJson | CandidateJson | PromotionJson], says("The events in order.")]


class QuestionRow(FailureJson, FhermaRowJson):
    """One question."""

    case_index: Annotated[int, says("Its place in the exam.")]
    case_name: Annotated[str, says("Its name.")]
    family: Annotated[str, says("Its family.")]
    n_bytes: Annotated[int, says("Bytes of the right answer.")]
    right: Annotated[float, says("100 if the answer was right byte for byte, else 0.")]
    bits: Annotated[Figure, says("The code length of the right answer.")]
    wall_time_s: Annotated[float, says("Seconds that the answer took.")]
    prefix: NotRequired[Annotated[str, says("The question. Only if the exam may be shown.")]]
    answer: NotRequired[Annotated[str, says("The right answer. Only if the exam may be shown.")]]
    given: NotRequired[Annotated[str | None, says("The answer that was given. Only if the exam may be shown.")]]
    traceback: NotRequired[Annotated[str, says("Why the question failed. Only if it did.")]]


class ExamResults(ScoreJson, FhermaJson):
    """task=exam: how many questions the trained learner answered. There is also a key `family/NAME` per family."""

    front: Annotated[FrontJson, says("The run as a point of error against compute.")]
    n_questions: Annotated[int, says("Questions that were asked.")]
    n_right: Annotated[int, says("Right answers.")]
    n_failed_cases: Annotated[int, says("Questions that failed.")]
    right_percent: Annotated[Figure, says("Right answers in per cent. None if the run is invalid.")]
    right_percent_se: Annotated[Figure, says("Its standard error over the questions.")]
    bits_per_byte: Annotated[Figure, says("Code length of the right answers, per byte.")]
    training_flops: Annotated[int, says("Counted FLOPs of the training.")]
    training_steps: Annotated[int, says("Updates of the training.")]
    n_params: Annotated[int | None, says("Parameters of the model.")]
    n_candidates: Annotated[int, says("Candidates that were packaged.")]
    promoted: Annotated[int | None, says("The number of the candidate that was graded.")]
    validation_score: Annotated[Figure, says("That candidate's right answers on the validation set, in per cent.")]
    bundle_gzipped_bytes: Annotated[int | None, says("The size of its bundle, gzipped.")]
    invalid: Annotated[str | None, says("Why the run counts for nothing and should be run again.")]
    failure_breakdown: Annotated[dict[str, int], says("`error`: questions that failed; then a count for each code.")]
    flops_xla: NotRequired[Annotated[Figure, says("XLA's count of the same operations. None if XLA was not asked.")]]
    training_time_s: Annotated[float, says("Seconds of all training calls.")]
    program_bytes: Annotated[int | None, says("All programs of the learner, gzipped. None: none were made.")]
    constant_bytes: NotRequired[Annotated[int | None, says("Constants in these programs, in bytes.")]]
    families: Annotated[dict[str, FamilyJson], says("Right answers of each family.")]
    training: Annotated[TrainingJson, says("How the learner was trained.")]
    breakdowns: Annotated[EstimatorPartJson, says("What the updates cost.")]
    per_case: Annotated[list[QuestionRow], says("One row per question.")]
