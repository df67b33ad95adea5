"""Where the errors of four estimators come from, by `job=explain` alone: the tables of section 7 of docs/frontier.md.

python benchmarks/explained.py          # 8 MLPs of the warmup suite
python benchmarks/explained.py 3
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ESTIMATORS = {"cov_prop": (), "third_cumulant": (), "matrix_core": (), "kerdock": ("explain.seeds=[0,1]",)}


def explain(estimator: str, n_mlps: int, *words: str) -> dict[str, Any]:
    command = ["job=explain", f"estimator={estimator}", f"dataset.n_mlps={n_mlps}", *words]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "whest", *command, f"hydra.run.dir={folder}"], check=True)
        found: dict[str, Any] = json.loads((Path(folder) / "explanation.json").read_text())
    return found


def share_se(found: dict[str, Any], layer: int) -> float:
    """The standard error over MLPs of a layer's share, which is a ratio of means."""
    whole = [mlp["mse"] for mlp in found["mlps"]]
    mean, share = sum(whole) / len(whole), found["by_layer"][layer]
    rest = [(mlp["by_layer"][layer] - share) * mlp["mse"] / mean for mlp in found["mlps"]]
    return float((sum(value**2 for value in rest) / (len(rest) - 1) / len(rest)) ** 0.5)


def main() -> None:
    n_mlps = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    everything = {name: explain(name, n_mlps, *words) for name, words in ESTIMATORS.items()}
    depth = len(everything["cov_prop"]["by_layer"])
    lines = [f"n = {n_mlps} MLPs", "", "| | " + " | ".join(f"layer {i + 1}" for i in range(1, depth)) + " |"]
    lines.append("|---" * depth + "|")
    for name, found in everything.items():
        cells = [f"{found['by_layer'][i]:.1%} ± {share_se(found, i):.1%}" for i in range(1, depth)]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    left = everything["cov_prop"]["with_true_moments"]["by_layer"]
    lines += [
        "",
        "cov_prop with true moments: "
        + ", ".join(f"{r['layer']}: {r['share']:.1%} ± {r['share_se']:.1%}" for r in left),
    ]
    for name, found in everything.items():
        kinds = ", ".join(f"{k} {v:.1%} (of {found['neurons_by_kind'][k]:.0%})" for k, v in found["by_kind"].items())
        lines += ["", f"{name}: MSE {found['final_layer_mse']:.3g}, {kinds}, seeds {found['bias_and_noise']}"]
        lines += [f"  {one['factor']}: {json.dumps(one)}" for one in found["by_compute"]]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
