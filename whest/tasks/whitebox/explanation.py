"""Why a score is what it is: shares of the error over all MLPs, in words, as JSON and as a page."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from whest.cost import Cost
from whest.document import Json
from whest.notation import count, figure, plus_minus
from whest.page import Block, Headline, Page, Section, Table, Text
from whest.scoring.seeds import ErrorSplit
from whest.scoring.whitebox import WhiteboxScore
from whest.tasks.whitebox.counts import COUNTS, count_json, count_rows
from whest.tasks.whitebox.marginal import Bought, bought_lines, bought_section
from whest.tasks.whitebox.neurons import KINDS, MEANING
from whest.tasks.whitebox.oracle import Replaced
from whest.tasks.whitebox.origin import Explained
from whest.tasks.whitebox.words import against_sampling

N_WORST = 10
ORIGIN = (
    "An error of the means goes on through the mean slopes of the ReLUs, to first order. What a layer has beyond that "
    "it made itself. The shares add up to 1; one below 0 undoes errors of other layers."
)


@dataclass(frozen=True)
class Explanation:
    """The parts of one estimator's error on one dataset."""

    title: str
    score: WhiteboxScore
    mlps: Sequence[Explained]
    split: ErrorSplit | None
    """Bias and noise over seeds, if several were run."""
    champion: tuple[str, float] | None
    """The best known run of the protocol, and our score over its score on the same MLPs."""
    cost: Cost | None = None
    """What one MLP costs by each price list, if the estimator is traced."""
    replaced: Replaced | str = ""
    """What is left with the true moments of one layer; words if the estimator does not expose them."""
    bought: Sequence[Bought] = ()
    """The score with more and less compute."""

    @property
    def mse(self) -> float:
        return sum(mlp.mse for mlp in self.mlps) / len(self.mlps)

    @property
    def by_layer(self) -> list[float]:
        """Shares of all MLPs together, each weighted by its error."""
        return [
            self._weighted([mlp.by_layer[layer] for mlp in self.mlps]) for layer in range(len(self.mlps[0].by_layer))
        ]

    @property
    def by_kind(self) -> dict[str, float]:
        return {kind: self._weighted([mlp.by_kind[kind] for mlp in self.mlps]) for kind in KINDS}

    @property
    def n_by_kind(self) -> dict[str, float]:
        """The share of the neurons in each class."""
        total = sum(sum(mlp.n_by_kind.values()) for mlp in self.mlps)
        return {kind: sum(mlp.n_by_kind[kind] for mlp in self.mlps) / total for kind in KINDS}

    @property
    def worst(self) -> list[Explained]:
        return sorted(self.mlps, key=lambda mlp: -mlp.mse)[:N_WORST]

    def _weighted(self, shares: Sequence[float]) -> float:
        whole = sum(mlp.mse for mlp in self.mlps)
        return sum(share * mlp.mse for share, mlp in zip(shares, self.mlps, strict=True)) / whole if whole else 0.0

    def limits(self) -> list[tuple[str, str, str]]:
        """What is possible: a name, a figure and a remark each."""
        score, mse = self.score, self.mse
        floor = score.truth_floor_mse or 0.0
        rows = [
            ("floor of truth", figure(floor), f"{floor / mse:.2%} of the MSE is the truth's own noise" if mse else "")
        ]
        sampling = score.sampling_mse_at_compute
        if sampling:
            rows.append(("plain sampling", figure(sampling), f"{against_sampling(mse / sampling)} at the same compute"))
        if self.champion is not None:
            name, ratio = self.champion
            rows.append(("champion", name, f"this score is {ratio:.3g} × the champion's on the same MLPs"))
        return rows

    def counts(self) -> list[tuple[str, str, str]]:
        """One MLP's FLOPs by each price list."""
        rows = [] if self.cost is None else count_rows(self.cost)
        return [(f"FLOPs by {name}", value, remark) for name, value, remark in rows]

    def seeds(self) -> tuple[str, str]:
        if self.split is None:
            return "", "explain.seeds=[0,1,2] separates bias and noise, for an estimator with a seed"
        split = self.split
        parts = f"bias² {plus_minus(split.bias, split.bias_se)}, noise {plus_minus(split.noise, split.noise_se)}"
        share = "" if split.noise_share is None else f"; {split.noise_share:.0%} is noise, which averages out"
        return f"{split.n_seeds} seeds", f"{parts}{share}"

    def lines(self) -> list[str]:
        """The explanation as text."""
        layers = "  ".join(f"{layer}: {share:.1%}" for layer, share in enumerate(self.by_layer, start=1))
        kinds = ", ".join(
            f"{kind} {self.by_kind[kind]:.1%} (of {self.n_by_kind[kind]:.0%} of the neurons)" for kind in KINDS
        )
        worst = [
            f"  {name}: {figure(mse)}, {ratio} the mean, {why}" for name, mse, ratio, why in self._worst_rows()[:3]
        ]
        seeds = " ".join(word for word in self.seeds() if word)
        return [
            f"{self.title}: final-layer MSE {figure(self.mse)}",
            *(f"{name:<17}{value}, {remark}" for name, value, remark in self.limits()),
            *(f"{name:<19}{value}, {remark}" for name, value, remark in self.counts()),
            f"by origin        {layers}",
            f"left with truth  {self.replaced if isinstance(self.replaced, str) else self.replaced.words()}",
            f"by neuron        {kinds}",
            f"over seeds       {seeds}",
            "hardest MLPs",
            *worst,
            *(bought_lines(self.bought) if self.bought else []),
        ]

    def _worst_rows(self) -> list[tuple[str, float, str, str]]:
        mean = self.mse or 1.0
        return [(mlp.name, mlp.mse, f"{mlp.mse / mean:.3g} ×", _why(mlp)) for mlp in self.worst]

    def page(self, command: str) -> Page:
        blocks: list[Block] = [
            Headline("final-layer MSE", figure(self.mse), f"mean over {count(len(self.mlps), 'MLP')}"),
            Section(
                "What is possible",
                [Table(("against", "figure", ""), self.limits(), "The error against what is possible.")],
            ),
            *(
                [Section("By price list", [Table(("list", "one MLP", ""), self.counts(), COUNTS)])]
                if self.cost is not None
                else []
            ),
            Section(
                "By layer of origin",
                [Table(("layer", "share"), [(i, f"{s:.2%}") for i, s in enumerate(self.by_layer, start=1)], ORIGIN)],
            ),
            self.replaced.section()
            if isinstance(self.replaced, Replaced)
            else Section("With true moments", [Text(self.replaced)]),
            Section(
                "By class of neuron",
                [
                    Table(
                        ("class", "share of the error", "share of the neurons"),
                        [(kind, f"{self.by_kind[kind]:.2%}", f"{self.n_by_kind[kind]:.1%}") for kind in KINDS],
                        MEANING,
                    )
                ],
            ),
            Section("Bias and noise", [Text(" ".join(word for word in self.seeds() if word))]),
            Section(
                "Hardest MLPs",
                [
                    Table(
                        ("MLP", "MSE", "against the mean", "why"),
                        self._worst_rows(),
                        "The MLPs with the largest error.",
                    )
                ],
            ),
            *([bought_section(self.bought)] if self.bought else []),
        ]
        return Page(f"{self.title}, explained", command, blocks, kind="run")

    def to_json(self) -> Json:
        return {
            "schema_version": "1.1",
            "title": self.title,
            "final_layer_mse": self.mse,
            "truth_floor_mse": self.score.truth_floor_mse,
            "sampling_mse_at_compute": self.score.sampling_mse_at_compute,
            "champion": None if self.champion is None else {"name": self.champion[0], "ratio": self.champion[1]},
            "by_layer": self.by_layer,
            "with_true_moments": self.replaced.to_json() if isinstance(self.replaced, Replaced) else None,
            "by_compute": [one.to_json() for one in self.bought],
            "by_kind": self.by_kind,
            "neurons_by_kind": self.n_by_kind,
            "bias_and_noise": None if self.split is None else asdict(self.split),
            "cost": None if self.cost is None else count_json(self.cost),
            "mlps": [asdict(mlp) for mlp in self.mlps],
        }


def _why(mlp: Explained) -> str:
    """The layer that made most of it, and how many neurons are neither dead nor on."""
    largest = max(range(len(mlp.by_layer)), key=lambda layer: mlp.by_layer[layer])
    borderline = mlp.n_by_kind["borderline"] / max(1, sum(mlp.n_by_kind.values()))
    return f"{mlp.by_layer[largest]:.0%} from layer {largest + 1}, {borderline:.0%} of its neurons borderline"
