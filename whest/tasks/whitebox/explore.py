"""The network explorer: one MLP on one page, neuron by neuron, with the answers of one or two runs."""

import math
from collections.abc import Sequence

import numpy as np

from whest.document import Json
from whest.notation import count, figure
from whest.page.blocks import (
    Axis,
    Block,
    Cell,
    Chart,
    Choice,
    Code,
    Colour,
    Column,
    Fact,
    Facts,
    Grid,
    Guide,
    Headline,
    Page,
    Quantity,
    Section,
    Series,
    Table,
    Text,
    Value,
)
from whest.page.flops import percent
from whest.tasks.whitebox.layers import SQUEEZE
from whest.tasks.whitebox.network import Answer, Network, by_layer, rms
from whest.tasks.whitebox.neurons import EDGE, KINDS
from whest.tasks.whitebox.weights import weight_blocks

TINTS: tuple[Colour, ...] = ("muted", "accent", "series-3")
"""Of the classes, in order."""
ANSWERS: tuple[Colour, ...] = ("accent", "alarm")
CLASSES = (
    f"Each row is a layer. Its neurons are sorted by class (dead, borderline, on; a line stands between them), then by "
    f"true mean. A neuron is dead if E[max(z, 0)] is below {EDGE:.0%} of E[|z|], with z its input, and on above "
    f"{1 - EDGE:.0%}. One in a hundred neurons is beyond the end of a scale."
)


def explorer_page(network: Network, report: Json, links: Sequence[tuple[str, Cell]], command: str) -> Page:
    """The page of one MLP. `links` lead to the pages of the runs."""
    mlp, config = network.mlp, report["run_config"]
    names = " and ".join(answer.name for answer in network.answers)
    sections: dict[str, Sequence[Block]] = {
        "Layers": [_grid(network), _layer_table(network)],
        "How the error grows": _growth(network),
        "Side by side": _side_by_side(network),
        "Weights": weight_blocks(mlp.weights),
        "Runs": [Facts(list(links)), Code(command, "The command that makes this page.")],
    }
    return Page(
        title=f"{mlp.name}, {mlp.width}×{mlp.depth}",
        subtitle=f"{names} · {config['dataset']['name']}, MLP {network.answers[0].row['mlp_index']} · truth from "
        f"{network.truth.n_samples:.3g} samples",
        blocks=[
            *_notices(network),
            _headline(network),
            *(Section(title, blocks) for title, blocks in sections.items() if blocks),
        ],
        kind="network",
        is_wide=True,
    )


def _notices(network: Network) -> list[Block]:
    found: list[Block] = []
    for answer in network.answers:
        if answer.means is None:
            found.append(Text(f"{answer.name} has no valid answer for this MLP, or predictions.npz is gone.", "warn"))
        elif np.isnan(answer.means[0]).any():
            found.append(
                Text(f"{answer.name}'s run kept only the last layer. To see the others, run it again.", "warn")
            )
    return found


def _headline(network: Network) -> Headline:
    first = network.answers[0]
    facts = [_last(network, answer) for answer in network.answers[1:]]
    noise = rms(network.truth.standard_errors[-1].astype(np.float64))
    facts.append(Fact("truth's own error", figure(noise), "standard error of the last layer, root mean square"))
    shares = [f"{percent(float((network.kinds[-1] == i).mean())).text} {kind}" for i, kind in enumerate(KINDS)]
    facts.append(Fact("neurons of the last layer", shares[1], f"{shares[0]}, {shares[2]}"))
    error = first.row["final_layer_mse"]
    value = figure(None if error is None else math.sqrt(error))
    return Headline(f"RMSE of the last layer, {first.name}", value, _last(network, first).note, facts=facts)


def _last(network: Network, answer: Answer) -> Fact:
    error = network.error(answer)
    if error is None:
        return Fact(answer.name, "–", "no valid answer", "bad")
    bias = float(np.mean(error[-1]))
    return Fact(answer.name, f"RMSE {figure(rms(error[-1]))}", f"prediction − truth is {bias:+.2g} on average")


def _grid(network: Network) -> Grid:
    """The maps: the error on the right, beside the truth or the other run's error."""
    truth = network.truth.means.astype(np.float64)
    found = [Quantity("true mean", truth, "size")]
    errors = []
    for answer in network.answers:
        error = network.error(answer)
        if answer.means is not None and error is not None:
            found.append(Quantity(f"{answer.name}'s mean", answer.means, "size"))
            errors.append(len(found))
            found.append(Quantity(f"{answer.name}'s error", error, "error"))
    if len(errors) == 2:
        gain = np.abs(found[errors[1]].values) - np.abs(found[errors[0]].values)
        names = [answer.name for answer in network.answers]
        found.append(Quantity(f"|error| of {names[1]} − {names[0]}", gain, "error"))
    found.append(Quantity("standard error of the truth", network.truth.standard_errors, "noise"))
    first, second = errors if len(errors) == 2 else (0, errors[0] if errors else len(found) - 1)
    return Grid(
        "layer",
        "neuron",
        found,
        KINDS,
        network.kinds,
        (first, second),
        alt=f"{network.mlp.depth} layers of {network.mlp.width} neurons: true means, predictions, errors and the "
        "truth's standard errors.",
        caption=CLASSES,
    )


def _layer_table(network: Network) -> Table:
    columns: list[Column | str] = ["layer", *(Column(kind, "neurons", is_numeric=True) for kind in KINDS)]
    columns += [Column("mean", "of the true means", is_numeric=True)]
    errors = []
    for answer in network.answers:
        error = network.error(answer)
        if error is not None:
            errors.append(error)
            columns += [
                Column(f"RMSE, {answer.name}", is_numeric=True),
                Column(f"bias, {answer.name}", "the mean of prediction − truth", is_numeric=True),
            ]
    columns.append(Column("truth's SE", "standard error, root mean square", is_numeric=True))
    rows: list[list[Value | Cell]] = []
    for layer in range(network.mlp.depth):
        counts = [int((network.kinds[layer] == i).sum()) for i in range(len(KINDS))]
        own: list[Value | Cell] = [layer + 1, *counts, float(network.truth.means[layer].mean())]
        for error in errors:
            bias = float(error[layer].mean())
            own += [rms(error[layer]), None if math.isnan(bias) else bias]
        rows.append([*own, rms(network.truth.standard_errors[layer].astype(np.float64))])
    return Table(columns, rows, "Each layer in figures.")


def _growth(network: Network) -> list[Block]:
    """The error by layer of each run, and of the first run by class."""
    layers = list(range(1, network.mlp.depth + 1))
    series = [
        Series(answer.name, layers, [None if mse is None else math.sqrt(mse) for mse in answer.by_layer], colour=colour)
        for answer, colour in zip(network.answers, ANSWERS, strict=False)
        if len(answer.by_layer) == len(layers)
    ]
    noise = [rms(row) or None for row in network.truth.standard_errors.astype(np.float64)]
    series.append(Series("noise of the truth", layers, noise, "line", "muted", is_dashed=True))
    words = "; ".join(f"{one.name} from {figure(one.y[0])} to {figure(one.y[-1])}" for one in series)
    charts: list[Block] = [
        Chart(
            Axis("layer", is_integer=True),
            Axis("RMSE", is_log=_is_log(series), low=_lowest(series)),
            series,
            alt=f"RMSE by layer: {words}.",
            caption="Root mean squared error by layer. A layer that is almost exact is below the axis.",
        )
    ]
    for answer in network.answers:
        error = network.error(answer)
        if error is not None and not np.isnan(error[0]).any():
            charts.append(_by_class(network, answer.name, error, layers))
    return charts


def _by_class(network: Network, name: str, error: np.ndarray, layers: list[int]) -> Chart:
    series = [
        Series(kind, layers, by_layer(error, network.kinds == i), colour=TINTS[i])
        for i, kind in enumerate(KINDS)
        if (network.kinds == i).any()
    ]
    return Chart(
        Axis("layer", is_integer=True),
        Axis("RMSE of the class", is_log=_is_log(series), low=_lowest(series)),
        series,
        alt=f"RMSE of {name} by layer and class of neuron.",
        caption=f"{name}: which neurons carry the error.",
    )


def _is_log(series: Sequence[Series]) -> bool:
    known = [y for one in series for y in one.y if y is not None]
    return bool(known) and min(known) > 0


def _lowest(series: Sequence[Series]) -> float | None:
    """The lower end of a log axis, if an exact layer would squeeze the others; else None."""
    known = [y for one in series for y in one.y if y is not None and y > 0]
    last = [one.y[-1] for one in series if one.y and one.y[-1]]
    edge = min((y for y in last if y is not None), default=0.0) / SQUEEZE
    return edge if _is_log(series) and min(known) < edge else None


def _side_by_side(network: Network) -> list[Block]:
    """The two errors of every neuron, one layer at a time, the last layer first."""
    if len(network.answers) < 2:
        return []
    first, second = network.answers
    one, other = network.error(first), network.error(second)
    if one is None or other is None:
        return []
    layers = [i for i in range(network.mlp.depth - 1, -1, -1) if not np.isnan(one[i] + other[i]).any()]
    return [Choice("Layer", [(str(i + 1), [_pairs(network, i, one[i], other[i])]) for i in layers])]


def _pairs(network: Network, layer: int, one: np.ndarray, other: np.ndarray) -> Chart:
    first, second = (answer.name for answer in network.answers)
    nearer = int((np.abs(one) < np.abs(other)).sum())
    spread = float(one.std() * other.std())
    together = f"; their errors correlate by {float(np.cov(one, other, ddof=0)[0, 1]) / spread:.2f}" if spread else ""
    words = f"{first} is nearer to the truth at {nearer} of {count(len(one), 'neuron')}{together}"
    series = [
        Series(
            kind,
            one[members].tolist(),
            other[members].tolist(),
            "points",
            TINTS[i],
            is_faint=True,
            names=[f"neuron {place + 1}" for place in members],
        )
        for i, kind in enumerate(KINDS)
        if len(members := np.flatnonzero(network.kinds[layer] == i))
    ]
    return Chart(
        Axis(f"error of {first}"),
        Axis(f"error of {second}"),
        series,
        alt=f"Layer {layer + 1}, the two errors of each neuron: {words}.",
        caption=f"Layer {layer + 1}: {words}.",
        guides=[Guide(f"no error of {first}", x=0.0), Guide(f"no error of {second}", y=0.0)],
        size="wide",
    )
