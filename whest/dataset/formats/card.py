"""The dataset card: `README.md`, with the front matter from which the hub finds each split's files."""

from pathlib import Path

from omegaconf import OmegaConf

from whest.dataset.formats.metadata import Document

SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K"}

BODY = """# {title}

Bias-free ReLU MLPs of width {width} and depth {depth} with the mean activation of every neuron under standard
Gaussian input: `h_0 ~ N(0, I)`, `h_l = relu(h_(l-1) @ W_l)`, entries of `W_l` from N(0, 2/width). An estimator is given
the weights and predicts `all_layer_means` within a budget of FLOPs.

{splits}

## How it was made

| | |
|---|---|
{facts}

## How to load it

```bash
python -m whest dataset=file dataset.path=PATH dataset.split={split}
python -m whest dataset=hub dataset.repo=OWNER/NAME dataset.revision=COMMIT dataset.split={split}
```

```python
import whestbench

ds = whestbench.load_dataset("PATH", split="{split}")
for mlp in whestbench.iter_mlps(ds):
    ...
```

```python
from datasets import load_dataset

ds = load_dataset("PATH", "{config}", split="{split}")
```

## Columns

| column | what it is |
|---|---|
| `mlp_id`, `mlp_name`, `mlp_seed` | place in the dataset, a name for people, the seed by its protocol |
| `weights` | float32 [depth, width, width], used as `h @ W` |
| `all_layer_means`, `final_means` | float32 [depth, width] and its last row: sampled means, the truth |
| `standard_errors` | float32 [depth, width]: one standard error of each mean; NaN if it is not known |
| `avg_variance` | variance of one sample, averaged over the last layer |
| `n_samples`, `n_replicates` | number of samples of the means; number of replicates of their errors, if there are any |
| `sampling_budget_breakdown` | JSON: the cost of the sampling |
"""


def write_card(path: Path, document: Document) -> None:
    splits = document.get("splits") or {document["split"]: document}
    path.write_text(f"---\n{_front_matter(document, splits)}---\n\n{_body(document, splits)}", encoding="utf-8")


def _front_matter(document: Document, splits: Document) -> str:
    total = sum(info["n_mlps"] for info in splits.values())
    size = next((label for limit, label in SIZES.items() if total < limit), "100K<n<1M")
    configs = [
        {"config_name": info["config"], "data_files": [{"split": name, "path": f"data/{name}-*.parquet"}]}
        for name, info in splits.items()
    ]
    matter = {
        "pretty_name": _title(document),
        "tags": ["whestbench", "white-box-estimation"],
        "size_categories": [size],
        "configs": configs,
    }
    return OmegaConf.to_yaml(OmegaConf.create(matter))


def _body(document: Document, splits: Document) -> str:
    rows = "\n".join(
        f"| `{name}` | {_count(info)} | {info['truth_floor_mse']:.3g} | `{info['content_sha256']}` |"
        for name, info in splits.items()
    )
    columns = "| split | MLPs | noise of the truth (adds to every MSE) | sha256 of the content |\n|---|---|---|---|"
    split = document.get("default_split") or next(iter(splits))
    return BODY.format(
        title=_title(document),
        width=document["width"],
        depth=document["depth"],
        splits=f"{columns}\n{rows}",
        facts="\n".join(f"| {name} | {value} |" for name, value in _facts(document, splits[split])),
        split=split,
        config=splits[split]["config"],
    )


def _facts(document: Document, info: Document) -> list[tuple[str, object]]:
    """The facts that the metadata states; a dataset made by another program may lack some."""
    protocol = document["seed_protocol"]
    facts = {
        "samples per MLP": f"{document['n_samples']:,} or more",
        "sampler": info.get("sampler"),
        "seed protocol": f"{protocol['name']} {protocol['version']}",
        "made with": info.get("backend") or document.get("backend"),
        "created": document.get("created_at_utc"),
        "command": f"`{info['command']}`" if info.get("command") else None,
    }
    return [(name, str(value).replace("|", "\\|")) for name, value in facts.items() if value]


def _title(document: Document) -> str:
    return f"White-box estimation, {document['width']}x{document['depth']}"


def _count(info: Document) -> str:
    if not info.get("is_partial"):
        return str(info["n_mlps"])
    start, end = info["mlp_range"]
    return f"[{start},{end}) of {info['total_n_mlps']}: a slice, to be merged"
