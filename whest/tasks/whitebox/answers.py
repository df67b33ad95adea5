"""Prediction against truth: the residuals of each layer, and which neurons the error comes from."""

from functools import lru_cache

import numpy as np

from whest.notation import figure
from whest.page.blocks import Axis, Block, Cell, Chart, Choice, Colour, Column, Guide, Series, Table, Value
from whest.page.flops import percent
from whest.tasks.whitebox.figures import Answers
from whest.tasks.whitebox.neurons import KINDS, MEANING

MAX_POINTS = 7000
"""On one page. A point takes about 25 bytes."""
FINAL_SHARE = 0.2
TINTS: dict[str, Colour] = {"dead": "muted", "borderline": "accent", "on": "series-3", "neurons": "accent"}


def answer_blocks(answers: Answers) -> list[Block]:
    """The residuals of one layer at a time, the last layer first, then the classes of neurons."""
    n_mlps, depth, width = answers.truth.shape
    errors = np.square(answers.predicted.astype(np.float64) - answers.truth).mean(axis=(0, 2))
    kinds = answers.kinds
    room = int(MAX_POINTS * (1 - FINAL_SHARE)) // max(depth - 1, 1)
    options = []
    for layer in layers_to_show(errors):
        chosen = choose(n_mlps * width, int(MAX_POINTS * FINAL_SHARE) if layer == depth - 1 else room)
        options.append((_layer_name(layer, errors), [_residuals(answers, layer, chosen, kinds)]))
    return [Choice("Layer", options), *([] if kinds is None else _class_blocks(answers, kinds))]


def layers_to_show(errors: np.ndarray) -> list[int]:
    """The last layer, then the one with the largest error, then the others in order."""
    last, worst = len(errors) - 1, int(np.argmax(errors))
    return list(dict.fromkeys([last, worst, *range(last)]))


@lru_cache(maxsize=256)
def _labels(names: tuple[str, ...], width: int, members: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The MLP and the neuron of each point: the same for all jobs of a sweep on one dataset."""
    neurons = [f"neuron {i + 1}" for i in range(width)]
    mlps, places = divmod(np.frombuffer(members, dtype=np.intp), width)
    return tuple([names[i] for i in mlps.tolist()]), tuple([neurons[i] for i in places.tolist()])


@lru_cache(maxsize=32)
def choose(n_all: int, n_wanted: int) -> np.ndarray:
    """The neurons to draw: all, or `n_wanted` at random, always the same ones."""
    if n_all <= n_wanted:
        chosen = np.arange(n_all)
    else:
        chosen = np.sort(np.random.default_rng(0).choice(n_all, max(n_wanted, 1), replace=False))
    chosen.flags.writeable = False  # all who ask share it
    return chosen


def _layer_name(layer: int, errors: np.ndarray) -> str:
    is_last, is_worst = layer == len(errors) - 1, layer == int(np.argmax(errors))
    words = [word for word, is_so in (("last", is_last), ("largest error", is_worst)) if is_so]
    marks = f" ({', '.join(words)})" if words else ""
    return f"{layer + 1}{marks}: RMSE {figure(float(errors[layer]) ** 0.5)}"


def _residuals(answers: Answers, layer: int, chosen: np.ndarray, kinds: np.ndarray | None) -> Chart:
    """One dot per neuron: prediction minus truth against truth, one colour per class."""
    truth, predicted = _layer(answers, layer)
    width = answers.truth.shape[2]
    shown = f"{len(chosen):,} of {len(truth):,} neurons, drawn at random" if len(chosen) < len(truth) else "all neurons"
    words, bias = fit_words(truth, predicted), float(np.mean(predicted - truth))
    groups = {"neurons": chosen}
    if kinds is not None:
        own = kinds[:, layer].ravel()
        groups = {kind: chosen[own[chosen] == i] for i, kind in enumerate(KINDS)}
    series = [
        Series(
            kind,
            x=truth[members].tolist(),
            y=(predicted - truth)[members].tolist(),
            kind="points",
            colour=TINTS[kind],
            is_faint=True,
            names=labels[0],
            notes=labels[1],
        )
        for kind, members in groups.items()
        if len(members)
        for labels in [_labels(answers.names, width, members.tobytes())]
    ]
    return Chart(
        Axis("true mean"),
        Axis("prediction − truth"),
        series,
        alt=f"Layer {layer + 1}, prediction minus truth against truth: {words}, {bias:+.2g} on average.",
        caption=f"Layer {layer + 1}, {shown}. {words}; prediction − truth is {bias:+.2g} on average.",
        guides=[Guide("no error", y=0.0, is_dashed=False)],
        size="wide",
    )


def fit_words(truth: np.ndarray, predicted: np.ndarray) -> str:
    """The error of a layer's prediction in words."""
    mse, variance = float(np.mean(np.square(predicted - truth))), float(np.var(truth))
    explained = f", R² {1 - mse / variance:.4g}" if variance > 0 else ""
    return f"RMSE {figure(mse**0.5)}{explained}"


def _class_blocks(answers: Answers, kinds: np.ndarray) -> list[Block]:
    squared = np.square(answers.predicted.astype(np.float64) - answers.truth)
    columns: list[Column | str] = [
        "neurons",
        Column("of the last layer", "the class's share of the neurons", is_numeric=True),
        Column("of its squared error", is_numeric=True),
        Column("RMSE", is_numeric=True),
        Column("of all layers", is_numeric=True),
        Column("of their squared error", is_numeric=True),
        Column("RMSE of all", is_numeric=True),
    ]
    rows = [
        [kind, *_class_cells(kinds[:, -1] == i, squared[:, -1]), *_class_cells(kinds == i, squared)]
        for i, kind in enumerate(KINDS)
    ]
    return [Table(columns, rows, MEANING)]


def _class_cells(is_member: np.ndarray, squared: np.ndarray) -> list[Value | Cell]:
    """The class's share of the neurons, its share of the squared error, and its RMSE."""
    total = float(squared.sum())
    own = squared[is_member]
    return [
        percent(float(is_member.mean())),
        percent(float(own.sum()) / total) if total else "–",
        float(own.mean()) ** 0.5 if own.size else None,
    ]


def _layer(answers: Answers, layer: int) -> tuple[np.ndarray, np.ndarray]:
    truth, predicted = answers.truth[:, layer], answers.predicted[:, layer]
    return truth.ravel().astype(np.float64), predicted.ravel().astype(np.float64)
