"""The process in which a WhestBench estimator lives. A file for the peer's own interpreter.

It needs the standard library, NumPy and the peer; of whest it reads `channel.py` and `wire.py`, which need no more.
Limits, seeds and the order of things are those of `whestbench.subprocess_worker`: the answer is made an array while
flopscope still counts, and checked for NaN after it has stopped.
"""

import sys
import traceback
from pathlib import Path
from typing import Any

Message = dict[str, Any]

API_VERSION = "1.0"


class Session:
    """The estimator, from set-up to teardown."""

    def __init__(self, start: Message) -> None:
        self._start = start
        self._estimator: Any = None

    def answer(self, message: Message, arrays: list[Any]) -> tuple[Message, list[Any]]:
        if message["do"] == "set_up":
            return self._set_up(), []
        if message["do"] == "tear_down":
            self._estimator.teardown()
            return {}, []
        return self._predict(message["seed"], arrays[0])

    def _set_up(self) -> Message:
        from whestbench.loader import load_estimator_from_path
        from whestbench.sdk import SetupContext

        try:
            entry = Path(self._start["entry"])
            self._estimator, _ = load_estimator_from_path(entry, class_name=self._start["class_name"])
            self._estimator.setup(SetupContext(api_version=API_VERSION, **self._start["context"]))
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        return {}

    def _predict(self, seed: int, weights: Any) -> tuple[Message, list[Any]]:
        import flopscope as flops
        import numpy as np
        from whestbench.scoring import materialise_predictions, validate_predictions

        mlp, budget = network(seed, weights), self._start["context"]["flop_budget"]
        shape = {"depth": mlp.depth, "width": mlp.width}
        window = flops.BudgetContext(flop_budget=budget, wall_time_limit_s=self._start["wall_time_limit_s"], quiet=True)
        try:
            with window:
                said = self._estimator.predict(mlp, budget)
                means = materialise_predictions(said, **shape)
                del said  # what its finaliser does is still on the meter
            means = validate_predictions(means, **shape)
        except flops.BudgetExhaustedError:
            return {"status": "budget", **spending(window)}, []
        except flops.TimeExhaustedError:
            return {"status": "time", **spending(window)}, []
        except Exception as error:
            details = getattr(error, "details", None)
            told = {"error": str(error) or type(error).__name__, "traceback": traceback.format_exc()}
            known = {"details": details if isinstance(details, dict) else None}
            return {"status": "error", **told, **known, **spending(window)}, []
        return {"status": "ok", **spending(window)}, [np.array(means.tolist(), np.float32)]


def network(seed: int, weights: Any) -> Any:
    """The peer's own MLP; like its subprocess runner it gives no name."""
    import flopscope.numpy as fnp
    from whestbench.domain import MLP

    layers = [fnp.array(fnp.asarray(layer, dtype=fnp.float32)) for layer in weights]
    mlp = MLP(width=weights.shape[1], depth=weights.shape[0], weights=layers, seed=seed)
    mlp.validate()
    return mlp


def spending(window: Any) -> Message:
    """flopscope's figures: the total, the three times, and a row for each operation of each namespace."""
    by_namespace = window.summary_dict(by_namespace=True).get("by_namespace") or {}
    charges = [
        {
            "namespace": "" if namespace in (None, "", "null") else str(namespace).removeprefix("estimator."),
            "operation": operation,
            "flops": int(row["flop_cost"]),
            "calls": int(row["calls"]),
            "timing": timing(row["flopscope_backend_time_s"], row["flopscope_overhead_time_s"], 0.0),
        }
        for namespace, bucket in by_namespace.items()
        for operation, row in bucket["operations"].items()
    ]
    whole = timing(window.flopscope_backend_time_s, window.flopscope_overhead_time_s, window.residual_wall_time_s)
    return {"flops_used": int(window.flops_used), "timing": whole, "cost": {"charges": charges}}


def timing(backend: float | None, overhead: float | None, residual: float | None) -> Message:
    return {
        "backend_time_s": float(backend or 0.0),
        "overhead_time_s": float(overhead or 0.0),
        "residual_wall_time_s": float(residual or 0.0),
    }


def limit_memory(limit_mb: float | None) -> str:
    """The peer's cap, on address space: what goes beyond it is a MemoryError in the estimator. Tried, then named."""
    if limit_mb is None:
        return ""
    import mmap
    import resource

    size = int(limit_mb) * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    try:
        mmap.mmap(-1, size).close()
    except (OSError, MemoryError):
        return "rlimit"
    return ""


def main(role: str, read_fd: int, write_fd: int, start: Message, protections: dict[str, str]) -> None:
    """Answer messages; the launcher has raised the walls."""
    import whestbench  # noqa: F401  (behind the walls, before the clock of set-up runs)

    from .channel import Channel, ChannelClosedError

    channel = Channel(read_fd, write_fd)
    memory = limit_memory(start["memory_limit_mb"])
    channel.send({"ready": True, "protections": protections | {"memory": memory}})
    session = Session(start)
    while True:
        try:
            message, arrays = channel.receive()
        except ChannelClosedError:
            return
        try:
            reply, results = session.answer(message, arrays)
        except Exception as error:
            reply, results = {"broken": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}, []
        sys.stdout.flush()
        channel.send(reply, results)
