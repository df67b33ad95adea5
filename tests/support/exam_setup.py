"""A tiny exam, and a learner that counts which byte follows which. The learner also inspects its process."""

from pathlib import Path

from whest.cases.exam import Question
from whest.config.compose import compose
from whest.tasks.exam.questions import write_questions

PAIRS = ["ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st"]
KNOWN = "pairs-that-the-trainer-knows"
VALIDATION = [Question(f"{a}{b}{a}".encode(), b.encode(), KNOWN) for a, b in PAIRS]
EXAM = [Question(f"x{a}{b}{a}".encode(), b.encode(), "pairs") for a, b in PAIRS] + [
    Question(b"b", b"zzzz", "never seen"),
    Question(b"secret-question ", b"secret-answer", "never seen"),
]

LEARNER = '''
"""Counts which byte follows which, but only from its 41st update on; keeps what it sees of its surroundings."""
import json, os, sys
from dataclasses import dataclass
import jax, jax.numpy as jnp
from whest.learner import TrainState, mean_nats


def look():
    """Whatever a curious learner could find out."""
    fds = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            fds[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            pass
    below = sorted(os.path.join(folder, name) for folder, _, names in os.walk(__PLACE__) for name in names)
    try:
        content = open(__EXAM__).read()
    except OSError as error:
        content = type(error).__name__
    return {
        "environ": open("/proc/self/environ").read(),
        "argv": open("/proc/self/cmdline").read(),
        "python_argv": sys.argv + sys.orig_argv,
        "fds": fds,
        "cwd": os.getcwd(),
        "sys.path": sys.path,
        "mounts": open("/proc/self/mountinfo").read(),
        "processes": [name for name in os.listdir("/proc") if name.isdigit()],
        "below": below,
        "content": content,
    }


@dataclass
class Estimator:
    rows_per_step: int = 4
    seen: bytes = b""

    def setup(self, context):
        self.seen = json.dumps(look()).encode()

    def init(self, key):
        table = 1e-3 * jax.random.normal(key, (257, 256))
        seen = jnp.frombuffer(self.seen, jnp.uint8)
        return TrainState({"table": table, "seen": seen}, jnp.zeros((), jnp.int32))

    def logits(self, params, tokens):
        return params["table"][tokens]

    def update(self, state, batch):
        def loss(table):
            return mean_nats(self, {"table": table, "seen": None}, batch)

        rate = jnp.where(state.optimiser < 40, 0.0, 300.0)
        table = state.params["table"] - rate * jax.grad(loss)(state.params["table"])
        return TrainState({"table": table, "seen": state.params["seen"]}, state.optimiser + 1)
'''


def write_files(folder: Path) -> dict[str, Path]:
    """Text, validation set, exam and learner as a user would have them; the exam is in its own folder."""
    paths = {
        "text": folder / "text.txt",
        "validation": folder / "validation.jsonl",
        "exam": folder / "hidden-from-trainers" / "the-exam.jsonl",
        "learner": folder / "learner" / "pairs.py",
    }
    for path in paths.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    paths["text"].write_text("".join(f"{pair}{pair}\n" for pair in PAIRS) * 30)
    paths["validation"].write_bytes(write_questions(VALIDATION))
    paths["exam"].write_bytes(write_questions(EXAM))
    source = LEARNER.replace("__PLACE__", repr(str(folder))).replace("__EXAM__", repr(str(paths["exam"])))
    paths["learner"].write_text(source)
    return paths


def choices(paths: dict[str, Path], outputs: Path, *more: str) -> list[str]:
    return [
        *("task=exam", "data=exam", "scoring=ari", "estimator=file", f"estimator.path={paths['learner']}"),
        *(f"data.{name}={paths[name]}" for name in ("text", "validation", "exam")),
        *("budget=1.2e7", "seed=1", "task.recipe.row_length=5", "task.recipe.calls=2", f"outputs_dir={outputs}"),
        *more,
    ]


def composed(paths: dict[str, Path], outputs: Path, *more: str) -> dict[str, object]:
    return compose(*choices(paths, outputs, *more))
