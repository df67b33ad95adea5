"""Policies as pure functions of entries: the published vectors, and the laws of a ranking."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tests.support.places import CONF
from whest.boards.board import Board, make_board
from whest.boards.entries import Entry, sidelined
from whest.boards.policies import AriPolicy, FhermaPolicy, PrismPolicy, Row, WhestPolicy, overlap_ranks, shared_ranks
from whest.boards.verdicts import Ruling, Verdict, current_verdict, read_verdicts, verdict_tag
from whest.config.build import build_target
from whest.errors import ConfigError, WhestError

CHOICE = CONF / "leaderboard"
steady = settings(deadline=None, derandomize=True)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
POLICIES = {"whest": WhestPolicy, "fherma": FhermaPolicy, "prism": PrismPolicy, "ari": AriPolicy}


def shipped(name: str, **more: Any) -> Any:
    """The policy with the values of its YAML."""
    node = OmegaConf.to_container(OmegaConf.load(CHOICE / f"{name}.yaml"))
    assert isinstance(node, dict)
    values = {str(key): value for key, value in node.items() if key != "_target_"}
    return build_target(POLICIES[name], values | more, "leaderboard")


def entry(participant: str, score: float | None, hours: float = 0.0, run_id: str = "", **more: Any) -> Entry:
    rule, protocol = more.pop("rule", "whest"), more.pop("protocol", "p1")
    at = NOON + timedelta(hours=hours)
    return Entry(run_id or f"{participant}-{score}-{hours}", participant, rule, protocol, score, at, **more)


def places(rows: Sequence[Row]) -> list[tuple[int | None, str]]:
    return [(row.rank, row.participant) for row in rows]


def judged(verdict: Ruling, reason: str = "because") -> Verdict:
    return Verdict(verdict, reason, "now")


def board(policy: Any, *entries: Entry) -> Board:
    return make_board(policy, [replace(e, rule=policy.rule) for e in entries])


def aside(made: Board) -> list[tuple[str, str]]:
    return [(row.status, row.participant) for row in made.rows if row.rank is None]


# --- whest ---


def test_whest_ranks_each_participants_lowest_score_ascending() -> None:
    rows = shipped("whest").rank([entry("a", 3.0), entry("b", 2.0), entry("a", 1.0), entry("c", 9.0), entry("b", 5.0)])
    assert places(rows) == [(1, "a"), (2, "b"), (3, "c")]
    assert [(row.score, row.n_runs) for row in rows] == [(1.0, 2), (2.0, 2), (9.0, 1)]


def test_whest_equal_scores_share_a_rank_the_earliest_first() -> None:
    rows = shipped("whest").rank([entry("late", 2.0, 5), entry("early", 2.0, 1), entry("last", 3.0), entry("top", 1.0)])
    assert places(rows) == [(1, "top"), (2, "early"), (2, "late"), (4, "last")]


# --- fherma ---


def test_fherma_ranks_each_participants_highest_score_and_ties_go_to_the_earliest() -> None:
    rows = shipped("fherma").rank(
        [entry("a", 900.0, 3), entry("b", 900.0, 2), entry("c", 950.0), entry("d", -7.0), entry("a", 100.0)]
    )
    assert places(rows) == [(1, "c"), (2, "b"), (3, "a"), (4, "d")]
    assert [row.status for row in rows] == ["preliminary", "preliminary", "preliminary", "ranked"]


def test_fherma_a_winner_is_reviewed_only_with_a_solutions_description() -> None:
    entries = [
        entry("both", 9.0, verdict=judged("reviewed"), solution="https://example.org/how"),
        entry("verdict", 8.0, verdict=judged("reviewed")),
        entry("described", 7.0, solution="a chain of means"),
        entry("fourth", 6.0, verdict=judged("reviewed"), solution="yes"),
    ]
    rows = shipped("fherma").rank(entries)
    assert [row.status for row in rows] == ["reviewed", "preliminary", "preliminary", "ranked"]
    assert "example.org/how" in rows[0].note
    assert "description" in rows[1].note


def test_fherma_a_disqualified_winner_yields_to_the_next() -> None:
    entries = [entry("a", 9.0, verdict=judged("disqualified", "copied")), entry("b", 8.0), entry("c", 7.0)]
    entries += [entry("d", 6.0), entry("a", 5.0)]
    made = board(shipped("fherma"), *entries)
    assert places(made.ranked) == [(1, "b"), (2, "c"), (3, "d"), (4, "a")]
    assert [row.status for row in made.ranked][:3] == ["preliminary"] * 3
    (out,) = [row for row in made.rows if row.rank is None]
    assert (out.status, out.note, out.score) == ("disqualified", "copied", 9.0)


def test_fherma_what_comes_after_the_deadline_does_not_win() -> None:
    policy = shipped("fherma", deadline="2026-06-01T13:00:00Z")
    made = board(policy, entry("a", 9.0, 1.001), entry("b", 8.0, 1.0), entry("a", 5.0, 0.5), entry("c", 7.0, 2))
    assert places(made.ranked) == [(1, "b"), (2, "a")]
    assert made.ranked[1].score == 5.0
    assert aside(made) == [("late", "a"), ("late", "c")]


# --- prism ---


def test_prism_orders_by_the_grid_then_the_earliest_then_the_id() -> None:
    entries = [
        entry("later", 0.5 + 3e-10, 2),
        entry("earlier", 0.5, 1),
        entry("b", 0.4, 0, run_id="2"),
        entry("a", 0.4, 0, run_id="1"),
        entry("top", 0.5 + 2e-9, 9),
    ]
    assert places(shipped("prism").rank(entries)) == [(1, "top"), (2, "earlier"), (3, "later"), (4, "a"), (5, "b")]


@steady
@given(st.floats(0, 1), st.floats(0, 1))
def test_prism_order_is_floor_of_the_rounded_grid(first: float, second: float) -> None:
    policy = shipped("prism")
    keys = [policy.order(entry("x", score))[0] for score in (first, second)]
    assert keys == [-math.floor(score / 1e-9 + 0.5) for score in (first, second)]
    if first - second > 1e-9:
        assert keys[0] < keys[1]


def test_prism_a_worse_run_never_replaces_a_participants_better_one() -> None:
    (row,) = shipped("prism").rank([entry("a", 0.6, 1), entry("a", 0.2, 2), entry("a", 0.6, 0)])
    assert (row.score, row.submitted_at, row.n_runs) == (0.6, NOON, 3)


def test_prism_weights_are_the_positive_best_scores_normalised() -> None:
    rows = shipped("prism").rank([entry("a", 1 / 1.5), entry("b", 1 / 1.4), entry("c", 0.0), entry("a", 0.1)])
    weights = {row.participant: row.weight for row in rows}
    assert weights["a"] == pytest.approx(0.4827586, abs=5e-8)
    assert weights["b"] == pytest.approx(0.5172414, abs=5e-8)
    assert weights["c"] is None
    assert places(rows)[-1] == (3, "c")


@steady
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=8))
def test_prism_weights_sum_to_one_where_anybody_scored(scores: list[float]) -> None:
    rows = shipped("prism").rank([entry(f"p{i}", score) for i, score in enumerate(scores)])
    weights = [row.weight for row in rows if row.weight is not None]
    assert len(weights) == sum(score > 0 for score in scores)
    assert not weights or math.fsum(weights) == pytest.approx(1)


# --- ari ---


def seeds(participant: str, *scores: float | None, config: str = "c", **more: Any) -> list[Entry]:
    return [
        entry(participant, score, seed, run_id=f"{participant}{config}{seed}", seed=seed, config=config, **more)
        for seed, score in enumerate(scores)
    ]


@pytest.mark.parametrize(
    ("scores", "mean", "error"),
    [((39, 42, 45), 42, 1.732051), ((40, 50, 60), 50, 5.773503), ((40, 50, 0), 30, 15.275252)],
    ids=["close", "wide", "none promoted"],
)
def test_ari_three_seeds_are_official_as_mean_and_standard_error(
    scores: tuple[float, ...], mean: float, error: float
) -> None:
    (row,) = shipped("ari").rank(seeds("a", *scores))
    assert (row.status, row.rank, row.n_runs, row.score) == ("official", 1, 3, mean)
    assert row.score_se == pytest.approx(error, abs=5e-7)


def test_ari_an_invalid_run_is_shown_and_never_averaged() -> None:
    entries = seeds("a", 40, 50, 99)
    entries[2] = replace(entries[2], verdict=judged("invalid", "the disk was full"))
    made = board(shipped("ari"), *entries)
    (row, invalid) = made.rows
    assert (row.status, row.rank, row.n_runs, row.score) == ("provisional", None, 2, 45)
    assert (invalid.status, invalid.note, invalid.score) == ("invalid", "the disk was full", 99)


@pytest.mark.parametrize(
    ("intervals", "ranks"),
    [
        ([(60, 2), (57, 2), (54, 2)], [1, 1, 1]),
        ([(60, 2), (55, 2), (54, 2)], [1, 2, 2]),
        ([(13, 2), (8, 1), (8, 5)], [1, 1, 1]),
        ([(60, 2), (56, 2)], [1, 1]),
        ([(60, 1), (50, 1), (49, 1), (40, 0)], [1, 2, 2, 4]),
        ([(5, 0), (5, 0), (4, 0)], [1, 1, 3]),
        ([], []),
    ],
)
def test_ari_overlapping_intervals_share_a_rank(intervals: list[tuple[float, float]], ranks: list[int]) -> None:
    assert overlap_ranks(intervals) == ranks
    assert overlap_ranks(intervals[::-1]) == ranks[::-1]


@steady
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), max_size=10))
def test_ari_ranks_are_components_of_the_overlap_graph(intervals: list[tuple[int, int]]) -> None:
    """Compare with components found by merging until nothing changes."""
    component = list(range(len(intervals)))
    for _ in intervals:
        for i, (a, da) in enumerate(intervals):
            for j, (b, db) in enumerate(intervals):
                if a - da <= b + db and b - db <= a + da:
                    component[i] = component[j] = min(component[i], component[j])
    ranks = overlap_ranks(intervals)
    for i, (a, da) in enumerate(intervals):
        for j, (b, db) in enumerate(intervals):
            assert (ranks[i] == ranks[j]) == (component[i] == component[j])
            if component[i] != component[j] and a - da > b + db:
                assert ranks[i] < ranks[j]
        assert ranks[i] == 1 + sum(rank < ranks[i] for rank in ranks)


def test_ari_a_seed_counts_once_by_its_first_run() -> None:
    entries = seeds("a", 10, 20, 30)
    again = entry("a", 90, 9, seed=0, config="c")
    (row,) = shipped("ari").rank([again, *entries])
    assert (row.score, row.n_runs) == (20, 3)
    (short,) = shipped("ari").rank([entries[0], entries[1], again])
    assert (short.status, short.n_runs) == ("provisional", 2)
    assert "1 more seed" in short.note


def test_ari_another_config_is_another_row() -> None:
    rows = shipped("ari").rank(seeds("a", 10, 20, 30) + seeds("a", 80, 80, 80, config="other") + seeds("b", 95, 96))
    assert [(row.rank, row.participant, row.score) for row in rows] == [(1, "a", 80), (2, "a", 20), (None, "b", 95.5)]


@pytest.mark.parametrize(("counts", "status", "rank"), [(True, "official", 1), (False, "provisional", None)])
def test_ari_a_demo_exam_says_so_and_counts_where_it_may(counts: bool, status: str, rank: int | None) -> None:
    (row,) = shipped("ari", demo_counts=counts).rank(seeds("a", 10, 20, 30, is_demo=True))
    assert (row.status, row.rank, row.score) == (status, rank, 20)
    assert row.note == "scored on the demo exam"


# --- every board ---


@pytest.mark.parametrize("name", POLICIES)
def test_an_empty_board_has_no_rows(name: str) -> None:
    assert shipped(name).rank([]) == []


@steady
@given(st.permutations(range(9)), st.sampled_from(sorted(POLICIES)))
def test_a_ranking_does_not_depend_on_the_order_of_the_runs(order: list[int], name: str) -> None:
    entries = [entry(f"p{i % 4}", float(i % 5), i % 3, run_id=str(i), seed=i, config="c") for i in range(9)]
    policy = shipped(name)
    assert policy.rank([entries[i] for i in order]) == policy.rank(entries)


def test_the_gravest_reason_is_told() -> None:
    everything: dict[str, Any] = {"problem": "changed", "verdict": judged("disqualified", "why"), "unfinished": "half"}
    expected = ["tampered", "disqualified", "unfinished", "late"]
    for found in expected:
        reason = sidelined(entry("a", 1.0, 5, **everything), NOON)
        assert reason is not None
        assert reason[0] == found
        everything = dict(list(everything.items())[1:])
    assert sidelined(entry("a", 1.0, 0), NOON) is None, "at the deadline is in time"
    assert sidelined(entry("a", None), None) == ("unfinished", "it has no score")


def test_a_tampered_run_is_on_the_board_and_not_ranked() -> None:
    made = board(shipped("whest"), entry("a", 1.0, problem="its sha256 differs"), entry("b", 2.0))
    assert places(made.ranked) == [(1, "b")]
    assert aside(made) == [("tampered", "a")]


def test_the_track_with_the_most_runs_is_taken_and_the_others_listed() -> None:
    entries = [entry("a", 1.0, protocol="p1"), entry("b", 2.0, protocol="p2"), entry("c", 3.0, protocol="p2")]
    entries += [entry("x", 0.1, protocol="p1", problem="changed", run_id=str(i)) for i in range(5)]
    entries += [entry("y", 5.0, rule="fherma", protocol="p3")]
    made = make_board(shipped("whest"), entries)
    assert (made.track.protocol, made.why) == ("p2", "the one with the most runs of 2 tracks")
    assert places(made.rows) == [(1, "b"), (2, "c")]
    assert {(track.protocol, track.rule, track.n_runs) for track in made.other_tracks} == {
        ("p1", "whest", 1),
        ("p3", "fherma", 1),
    }


def test_a_track_is_chosen_by_its_hash_or_the_beginning_of_it() -> None:
    entries = [entry("a", 1.0, protocol="abc1"), entry("b", 2.0, protocol="abd2"), entry("c", 3.0, protocol="abd2")]
    made = make_board(shipped("whest", protocol="abc"), entries)
    assert (made.track.protocol, made.why) == ("abc1", "as chosen")
    with pytest.raises(
        ConfigError, match=r"leaderboard.protocol=ab matches several tracks: choose one of abd2 \(2 runs\)"
    ):
        make_board(shipped("whest", protocol="ab"), entries)
    with pytest.raises(ConfigError, match=r"leaderboard\.protocol=zz is no track of this board"):
        make_board(shipped("whest", protocol="zz"), entries)
    with pytest.raises(WhestError, match="leaderboard=prism has no runs, there are runs of whest"):
        make_board(shipped("prism"), entries)


def test_superseded_tracks_are_shown_as_legacy() -> None:
    entries = [entry("a", 1.0, protocol="old"), entry("b", 2.0, protocol="new"), entry("c", 2.0, protocol="new")]
    made = make_board(shipped("whest", supersedes=["old"]), entries)
    assert places(made.ranked) == [(1, "b"), (1, "c")]
    assert aside(made) == [("legacy", "a")]


@pytest.mark.parametrize("deadline", ["2026-06-01 12:00", "tomorrow"])
def test_a_deadline_needs_a_date_with_a_time_zone(deadline: str) -> None:
    with pytest.raises(ConfigError, match=r"leaderboard\.deadline"):
        shipped("fherma", deadline=deadline)


@steady
@given(st.lists(st.integers(0, 5), max_size=12))
def test_shared_ranks_count_who_is_ahead(keys: list[int]) -> None:
    keys.sort()
    assert shared_ranks(keys) == [1 + sum(other < key for other in keys) for key in keys]


# --- verdicts ---


def test_verdicts_are_kept_and_the_last_counts() -> None:
    tags = {"participant": "a", "verdict/x": "no JSON", "verdict/y": '{"verdict": "crowned", "reason": ""}'}
    assert current_verdict(tags) is None
    for hour, (verdict, reason) in enumerate([("disqualified", "copied"), ("reinstated", "it was not")]):
        name, value = verdict_tag(verdict, reason, NOON + timedelta(hours=hour))  # type: ignore[arg-type]
        tags[name] = value
        current = current_verdict(tags)
        assert (current.reason if current else None) == ("copied" if verdict == "disqualified" else None)
    assert [(verdict.verdict, verdict.reason) for verdict in read_verdicts(tags)] == [
        ("disqualified", "copied"),
        ("reinstated", "it was not"),
    ]


@pytest.mark.parametrize("reason", ["", "  ", "x" * 4001])
def test_a_verdict_needs_a_reason_that_mlflow_can_keep(reason: str) -> None:
    with pytest.raises(ConfigError, match="reason"):
        verdict_tag("disqualified", reason, NOON)


def test_runs_of_an_older_rule_are_legacy_even_where_they_are_more() -> None:
    old = [entry(name, 0.5, rule="prism", protocol="old", version=1, track="t") for name in "abc"]
    new = [entry("a", 0.4, rule="prism", protocol="new", version=2, track="t")]
    elsewhere = [entry("z", 0.9, rule="prism", protocol="other", version=1, track="another text")]
    board = make_board(shipped("prism"), [*old, *new, *elsewhere])
    assert (board.track.protocol, board.why) == ("new", "the one with the most runs of 3 tracks, by the newest rule")
    assert [(row.participant, row.status) for row in board.rows] == [
        ("a", "ranked"), ("a", "legacy"), ("b", "legacy"), ("c", "legacy"),
    ]  # fmt: skip


def test_ari_the_demo_is_provisional_by_default() -> None:
    (row,) = shipped("ari").rank(seeds("a", 10, 20, 30, is_demo=True))
    assert (row.status, row.rank) == ("provisional", None)
