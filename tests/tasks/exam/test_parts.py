"""The exam's pure parts: the file's format, the generators, what a call may use up, which candidate is graded."""

import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.exam_cases import cases
from whest.cases.exam import Candidate, Code, Entry, Promotion, Question
from whest.errors import ConfigError
from whest.scoring.ari import AriRule
from whest.tasks.exam.allowance import WallClock, affordable, steps_by_call
from whest.tasks.exam.material import ExamData
from whest.tasks.exam.process.bundle import Bundle, BundleError, gzipped_size, pack, unpack
from whest.tasks.exam.puzzles import EXAMINED, FAMILIES, TRAINED, VALIDATED, demo_questions, demo_text
from whest.tasks.exam.questions import (
    PREFIX_BYTES,
    load_questions,
    mask_earlier,
    read_questions,
    refuse_shown_answers,
    write_questions,
)
from whest.tasks.exam.recipe import Recipe, graded_candidate
from whest.tasks.exam.report import ExamReport
from whest.tasks.exam.view import VIEW

steady = settings(deadline=None, derandomize=True)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
DEMO = ExamData(seed=0, n_questions=100, n_validation=8, n_text_bytes=4096, exam=None, text=None, validation=None)


# --- the report ---


@pytest.mark.parametrize(
    ("outcome", "said"), [("INFRASTRUCTURE", "must be run again: why"), ("LEARNER_ERROR", "the estimator failed")]
)
def test_a_failure_of_ours_does_not_blame_the_estimator(outcome: Code, said: str) -> None:
    asked = tuple(cases([True, outcome]))
    score = AriRule().score_exam(asked)
    problem = ExamReport("score", None, {}, None, asked, score, VIEW, False).problem  # type: ignore[arg-type]
    assert problem is not None
    assert said in problem
    assert ("estimator" in problem) == (outcome == "LEARNER_ERROR")


# --- questions ---


@steady
@given(st.lists(st.tuples(TEXTS, TEXTS.filter(bool), st.sampled_from(["a", "b c"])), min_size=1, max_size=5))
def test_a_file_of_questions_reads_back(rows: list[tuple[str, str, str]]) -> None:
    asked = tuple(Question(prefix.encode(), answer.encode(), family) for prefix, answer, family in rows)
    content = write_questions(asked)
    read = read_questions(content, "x")
    assert read.questions == asked
    assert read.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 1 is no question"),
        ('{"prefix": "a", "answer": "b"}', "with prefix, answer, family"),
        ('["a", "b", "c"]', "is no question"),
        ('{"prefix": "a", "answer": 3, "family": "x"}', "must be strings"),
        ('{"prefix": "a", "answer": "b", "family": ""}', "family not empty"),
        ('{"prefix": "a", "answer": "", "family": "x"}', "must have 1 to"),
        (
            json.dumps({"prefix": "é" * 513, "answer": "b", "family": "x"}),
            "the prefix has 1026 bytes, the limit is 1024",
        ),
        ('{"prefix": "\\ud800", "answer": "b", "family": "x"}', "half a character"),
        ("", "has no questions"),
    ],
)
def test_what_is_no_question_is_refused(line: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "exam.jsonl"
    path.write_text(line)
    with pytest.raises(ConfigError, match=complaint):
        load_questions(path, "data.exam")


def test_a_missing_exam_names_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.exam=.*nothing\.jsonl can't be read"):
        load_questions(tmp_path / "nothing.jsonl", "data.exam")


@steady
@given(st.lists(st.tuples(st.binary(max_size=300), st.binary(min_size=1, max_size=9)), min_size=1, max_size=8))
def test_no_prefix_shows_an_earlier_answer(parts: list[tuple[bytes, bytes]]) -> None:
    text, spans = b"", []
    for before, answer in parts:
        before, answer = before.replace(b"#", b""), b"#" * len(answer)
        text += before + answer
        spans.append((len(text) - len(answer), len(text)))
    for asked, (start, end) in enumerate(spans):
        question = mask_earlier(text, spans, asked, "x")
        assert question.answer == text[start:end]
        assert len(question.prefix) <= PREFIX_BYTES
        assert b"#" not in question.prefix


def test_answers_are_masked_in_whichever_order_they_are_listed() -> None:
    text, spans = b"one AAA two BBB three CCC", [(4, 7), (12, 15), (22, 25)]
    for order in itertools.permutations(spans):
        asked = order.index((22, 25))
        assert mask_earlier(text, order, asked, "x").prefix == b"one ___ two ___ three "
        assert mask_earlier(text, order, order.index((4, 7)), "x").prefix == b"one "


def test_an_exam_that_shows_an_answer_elsewhere_is_refused(tmp_path: Path) -> None:
    asked = [Question(b"who? ", b"Ada Lovelace", "x"), Question(b"Ada Lovelace was born in ", b"1815", "x")]
    with pytest.raises(ConfigError, match="e: the answer to question 1 stands in the prefix of question 2: mask it"):
        refuse_shown_answers(asked, "e")
    refuse_shown_answers(asked[:1], "e")
    refuse_shown_answers([Question(b"a b c ", b"d", "x"), Question(b"d e f ", b"g", "x")], "e")
    refuse_shown_answers([Question(b"Ada Lovelace is ", b"Ada Lovelace", "x")], "e")
    path = tmp_path / "exam.jsonl"
    path.write_bytes(write_questions(asked))
    with pytest.raises(ConfigError, match="the answer to question 1 stands"):
        ExamData(0, 5, 3, 2000, path, None, None).load()


# --- the demo ---


def test_the_demo_is_the_same_everywhere() -> None:
    """Text and exam of a seed are part of the protocol, so no machine may make others of them."""
    made = [demo_text(0, 100_000), write_questions(demo_questions(0, "exam", EXAMINED, 100))]
    assert [hashlib.sha256(content).hexdigest()[:16] for content in made] == ["deb30144391a92a0", "d82ed77834ac4cfd"]


def test_families_of_text_and_exam_overlap_only_partly() -> None:
    assert set(TRAINED) & set(EXAMINED)
    assert set(TRAINED) - set(EXAMINED)
    assert set(EXAMINED) - set(TRAINED)
    assert set(VALIDATED) < set(EXAMINED)
    assert {*TRAINED, *EXAMINED} == set(FAMILIES)


def test_another_seed_makes_another_exam_and_the_validation_set_is_not_the_exam() -> None:
    first, other = DEMO.load(), ExamData(1, 100, 8, 4096, None, None, None).load()
    assert first.exam.sha256 != other.exam.sha256
    assert first.text != other.text
    made_up = {q.prefix for q in first.validation.questions if q.family in ("copy", "recall")}
    assert not made_up & {q.prefix for q in first.exam.questions}
    assert first.is_demo


def test_an_exam_from_outside_is_no_demo_and_one_byte_makes_another(tmp_path: Path) -> None:
    path = tmp_path / "exam.jsonl"
    content = write_questions([Question(b"one, two, ", b"three", "count")])
    path.write_bytes(content)
    given = ExamData(0, 100, 8, 4096, path, None, None).load()
    assert (given.is_demo, given.exam.sha256) == (False, hashlib.sha256(content).hexdigest())
    path.write_bytes(content.replace(b"three", b"threE"))
    changed = ExamData(0, 100, 8, 4096, path, None, None).load()
    assert changed.protocol() != given.protocol()
    assert {key for key in given.protocol() if given.protocol()[key] != changed.protocol()[key]} == {"exam"}


def test_a_demo_given_as_a_file_is_still_a_demo(tmp_path: Path) -> None:
    path = tmp_path / "exam.jsonl"
    path.write_bytes(write_questions(DEMO.load().exam.questions))
    assert ExamData(0, 100, 8, 4096, path, None, None).load().is_demo


# --- what a call may use up ---

HOUR = WallClock(3600, 1200, 300)


@pytest.mark.parametrize(
    ("asked_at", "allowed"),
    [(0, 1200), (2399, 1200), (2400, 1200), (2401, 1199), (3299, 301), (3300, None), (3599, None), (4000, None)],
)
def test_a_call_may_run_as_long_as_the_clock_allows(asked_at: float, allowed: float | None) -> None:
    assert HOUR.allowance_s(asked_at) == allowed


@steady
@given(st.floats(0, 4000), st.floats(1, 3600), st.floats(1, 2000), st.floats(0, 3599))
def test_no_call_outlives_the_deadline(at: float, budget: float, limit: float, reserve: float) -> None:
    clock = WallClock(budget, limit, reserve)
    allowed = clock.allowance_s(at)
    if allowed is None:
        assert at >= budget - reserve
    else:
        assert 0 < allowed <= limit
        assert at + allowed <= budget * (1 + 1e-12)


@steady
@given(st.integers(0, 10**6), st.integers(1, 50))
def test_calls_share_every_update_out(n_steps: int, n_calls: int) -> None:
    shares = steps_by_call(n_steps, n_calls)
    assert (len(shares), sum(shares)) == (n_calls, n_steps)
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize(("budget", "flops", "steps"), [(1e6, 300_000, 3), (9e5, 300_000, 3), (2e5, 300_000, 0)])
def test_a_budget_pays_for_whole_updates(budget: float, flops: int, steps: int) -> None:
    assert affordable(budget, flops) == steps


# --- candidates and promotion ---


def candidate(number: int, right: int = 0) -> Candidate:
    return Candidate(number, float(number), number, "", 1, right, 10)


def promoted(number: int, at_s: float) -> Promotion:
    return Promotion(number, at_s)


@pytest.mark.parametrize(
    ("history", "graded"),
    [
        ([], None),
        ([candidate(1, 10), candidate(2, 10)], None),
        ([candidate(1), promoted(1, 1), candidate(2), promoted(2, 2)], 2),
        ([candidate(1), candidate(2), promoted(2, 2), promoted(1, 3)], 1),
        ([candidate(1), promoted(1, 1), candidate(2), promoted(2, 3601)], 1),
        ([candidate(1), promoted(1, 3600)], 1),
        ([candidate(1), promoted(1, 3600.1)], None),
        ([candidate(1, 0), promoted(1, 1), candidate(2, 10)], 1),
        ([promoted(3, 1), candidate(1)], None),
    ],
)
def test_the_latest_promotion_at_the_deadline_is_graded(history: list[Entry], graded: int | None) -> None:
    assert graded_candidate(history, 3600) == graded


@steady
@given(st.lists(st.integers(0, 10), min_size=1, max_size=6), st.data())
def test_validation_never_chooses(rights: list[int], data: st.DataObject) -> None:
    number = data.draw(st.integers(1, len(rights)))
    for scores in (rights, rights[::-1], [10 - right for right in rights]):
        history: list[Entry] = [candidate(i, right) for i, right in enumerate(scores, start=1)]
        assert graded_candidate([*history, promoted(number, 9)], None) == number


@pytest.mark.parametrize(("promote", "which"), [("last", [1, 2, 3]), ("none", []), (2, [2])])
def test_a_recipe_promotes_what_it_says(promote: object, which: list[int]) -> None:
    recipe = Recipe(3, 16, promote)  # type: ignore[arg-type]
    assert [number for number in (1, 2, 3) if recipe.promotes(number)] == which


# --- bundles ---


def test_a_bundle_reads_back_and_its_bytes_repeat() -> None:
    params = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7, np.int32)]
    bundle = Bundle(params, {"format": 1}, [np.ones(2)], {"name": "x"})
    content = pack(bundle)
    assert content == pack(bundle)
    read = unpack(content)
    assert [array.tolist() for array in read.params] == [array.tolist() for array in params]
    assert (read.program, read.learner, len(read.constants)) == ({"format": 1}, {"name": "x"}, 1)


def test_a_bundles_size_is_that_of_its_bytes_under_gzip() -> None:
    random = np.random.default_rng(0).integers(0, 256, 5000, dtype=np.uint8)
    sizes = [gzipped_size(pack(Bundle([array], {}, [], {}))) for array in (random, np.zeros(5000, np.uint8))]
    assert 5000 < sizes[0] < 6500
    assert sizes[1] < 1000


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + bytes(18), b"no archive"])
def test_what_is_no_bundle_is_refused(content: bytes) -> None:
    with pytest.raises(BundleError, match="can't be opened"):
        unpack(content)


def test_a_bundle_holds_no_pickles() -> None:
    content = pack(Bundle([], {}, [], {}))
    with pytest.raises(ValueError, match=r"pickle|Object arrays"):
        pack(Bundle([np.array([object()])], {}, [], {}))
    assert unpack(content).params == []
