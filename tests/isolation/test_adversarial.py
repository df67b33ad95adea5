"""Programs that try to pay less, see more or break something. Each is charged, refused or contained, as its name says.

If a test is about a program's cost, the program is metered in a worker by a process that never imports it.
"""

import os
import signal
import textwrap

import pytest

from tests.support.hostile import BUDGET, DATASET, DEPTH, MATMUL, WIDTH, predict, score, worker
from tests.support.places import ROOT

ZEROS = "jnp.zeros((mlp.depth, mlp.width))"


def estimator(body: str, setup: str = "", top: str = "") -> str:
    """An estimator's source with this body of `predict`; the body assigns its answer to `out`."""
    lines = [
        "import jax, jax.numpy as jnp, numpy as np, os, sys, time",
        "from jax import lax",
        textwrap.dedent(top),
        "class Estimator:",
        "    def setup(self, context):",
        textwrap.indent(textwrap.dedent(setup or "pass"), "        "),
        "    def predict(self, mlp, budget):",
        f"        out = {ZEROS}",
        textwrap.indent(textwrap.dedent(body), "        "),
        "        return out",
    ]
    return "\n".join(lines)


# ---------------------------------------------------------------- charged: F is at least what was really done
CHARGED = {
    "loops in loops": (
        "w = mlp.weights[0]\n"
        "h = lax.fori_loop(0, 10, lambda i, h: lax.fori_loop(0, 10, lambda j, h: h @ w, h), w)\n"
        "out = out + h[0, 0]",
        100 * MATMUL,
    ),
    "a while that depends on the data": (
        "w = mlp.weights[0]\n"
        "n = 50 + (w[0, 0] * 0).astype(int)\n"
        "h = lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] @ w), (0, w))[1]\n"
        "out = out + h[0, 0]",
        50 * MATMUL,
    ),
    "a loop hidden in a loop's test": (
        "w = mlp.weights[0]\n"
        "def test(s):\n"
        "    n = 20 + (w[0, 0] * 0).astype(int)\n"
        "    h = lax.while_loop(lambda t: t[0] < n, lambda t: (t[0] + 1, t[1] @ w), (0, w))[1]\n"
        "    return (s < 3) & (h[0, 0] < jnp.inf)\n"
        "out = out + lax.while_loop(test, lambda s: s + 1, 0)",
        3 * 20 * MATMUL,
    ),
    "map": ("out = out + lax.map(lambda w: w @ w, jnp.tile(mlp.weights, (10, 1, 1))).sum()", 30 * MATMUL),
    "a counter that wraps around": (
        "w = mlp.weights[0]\n"
        "s = lax.while_loop(lambda s: s[0] < jnp.uint8(250),\n"
        "                   lambda s: (s[0] + jnp.uint8(100), s[1] @ w), (jnp.uint8(0), w))\n"
        "out = out + s[1][0, 0]",
        23 * MATMUL,
    ),
    "a dear branch behind a vmapped cond": (
        "f = jax.vmap(lambda w: lax.cond(w[0, 0] > 1e9, lambda w: w @ w @ w, lambda w: w, w))\n"
        "out = out + f(mlp.weights).sum()",
        DEPTH * 2 * MATMUL,
    ),
    "work on constants for the compiler to fold": (
        "c = jnp.ones((16, 16))\nfor _ in range(20):\n    c = c @ c * 1e-3\nout = out + c[0, 0]",
        20 * MATMUL,
    ),
    "work in a __jax_array__ hook": (
        "class Lazy:\n"
        "    def __jax_array__(self):\n"
        "        h = mlp.weights[0]\n"
        "        for _ in range(20):\n"
        "            h = jnp.tanh(h @ h)\n"
        "        return h[: mlp.depth] * 0\n"
        "out = jnp.asarray(Lazy())",
        20 * MATMUL,
    ),
    "work inside a custom derivative rule": (
        "@jax.custom_jvp\n"
        "def f(w):\n"
        "    return w @ w @ w\n"
        "f.defjvp(lambda p, t: (f(p[0]), t[0]))\n"
        "out = out + f(mlp.weights[0]).sum()",
        2 * MATMUL,
    ),
    "four products packed into a complex one": (
        "w = mlp.weights\nc = w[0] + 1j * w[1]\nout = out + (c @ c).real.sum()",
        4 * MATMUL,
    ),
    "products of bytes": (
        "b = mlp.weights[0].astype(jnp.int8)\nout = out + (b @ b).sum()",
        MATMUL,
    ),
    "a generator XLA counts as nothing": (
        "k = jax.random.key(0, impl='rbg')\nout = out + jax.random.normal(k, (100, 16)).sum()",
        100 * 16 * (30 + 39),
    ),
    "arithmetic by looking it up in a table": (
        "table = jnp.asarray(np.arange(256.0, dtype=np.float32))\n"
        "i = lax.bitcast_convert_type(mlp.weights[0], jnp.uint8).reshape(-1)\n"
        "out = out + table[i].max() * 0",
        1024 * 8,
    ),
    "products of bits by the word": (
        "b = lax.bitcast_convert_type(mlp.weights[0], jnp.uint32)\n"
        "out = out + (lax.population_count(b[:, None, :] ^ b[None, :, :]).sum() * 0).astype(jnp.float32)",
        16**3 * 32,
    ),
    "recomputation behind remat": (
        "f = jax.checkpoint(lambda w: jnp.sin(w @ w))\n"
        "out = out + jax.grad(lambda w: f(w).sum())(mlp.weights[0]).sum()",
        2 * MATMUL,
    ),
    "the meter's own tables rewritten": (
        "import whest.metering.prices, whest.metering.walk, whest.isolation.portable\n"
        "whest.metering.prices.FORMULAS['dot_general'] = lambda i, o, p: 0\n"
        "rewritten = sys.modules['whest.metering.walk']\n"
        "rewritten.price = lambda *a: 0.0\n"
        "rewritten._Walk = None\n"
        "jax._src.core.Trace.process_primitive = None\n"
        "h = mlp.weights[0]\n"
        "for _ in range(20):\n"
        "    h = jnp.tanh(h @ h)\n"
        "out = out + h[0, 0]",
        20 * MATMUL,
    ),
}  # fmt: skip


PLAIN_CHARGES = {
    "loops in loops",
    "map",
    "a dear branch behind a vmapped cond",
    "work on constants for the compiler to fold",
    "work inside a custom derivative rule",
    "four products packed into a complex one",
    "products of bytes",
    "a generator XLA counts as nothing",
    "recomputation behind remat",
    "a loop hidden in a loop's test",
    "a while that depends on the data",
    "a counter that wraps around",
    "arithmetic by looking it up in a table",
    "products of bits by the word",
}
"""The meter's own tests cover these without a process, so here they run only in `make test-all`."""


def slow_where(names, slow):
    """Parameters; some run only in `make test-all`."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in slow else []) for name in sorted(names)]


@pytest.mark.parametrize("name", slow_where(CHARGED, PLAIN_CHARGES))
def test_charged(name, tmp_path):
    body, at_least = CHARGED[name]
    (prediction,) = predict(estimator(body), tmp_path)
    assert prediction.failure is None, prediction.failure
    assert prediction.cost.flops >= at_least
    assert prediction.cost.flops < 1.5 * at_least + 20_000  # and not for something else


# ---------------------------------------------------------------- refused: no score, a code and a reason
REFUSED = {
    "pure_callback": (
        "out = jax.pure_callback(lambda w: np.zeros((3, 16), np.float32), "
        "jax.ShapeDtypeStruct((3, 16), jnp.float32), mlp.weights)",
        "UNMETERABLE",
    ),
    "io_callback": (
        "from jax.experimental import io_callback\n"
        "out = io_callback(lambda w: np.zeros((3, 16), np.float32), "
        "jax.ShapeDtypeStruct((3, 16), jnp.float32), mlp.weights)",
        "UNMETERABLE",
    ),
    "a debug callback that carries the weights out": ("jax.debug.callback(lambda w: None, mlp.weights)", "UNMETERABLE"),
    "a foreign custom call": (
        "out = jax.ffi.ffi_call('mine', jax.ShapeDtypeStruct((3, 16), jnp.float32))(mlp.weights)",
        "UNMETERABLE",
    ),
    "host NumPy on the weights": ("out = jnp.asarray(np.asarray(mlp.weights).mean(1))", "PREDICT_ERROR"),
    "BLAS through NumPy": ("out = np.linalg.svd(mlp.weights)[1]", "PREDICT_ERROR"),
    "a lazily computed object": ("out = (row for row in mlp.weights)", "PREDICT_ERROR"),
    "NaN": ("out = out + jnp.nan", "NON_FINITE"),
    "a NaN payload in one cell": ("out = out.at[0, 3].set(jnp.nan)", "NON_FINITE"),
    "a loop of negative length": (
        "w = mlp.weights[0]\nout = out + lax.scan(lambda c, _: (c @ w, None), w, None, length=-(10**9))[0].sum() * 0",
        "UNMETERABLE",
    ),
    "an array of negative size": ("_ = jnp.sin(jnp.tile(mlp.weights.reshape(-1), -(10**6)))", "UNMETERABLE"),
    "a loop body that declares smaller shapes than it is given": (
        "w = mlp.weights[0]\n"
        "n = 10 + (w[0, 0] * 0).astype(int)\n"
        "base = jax.make_jaxpr(lambda w, n: lax.while_loop(\n"
        "    lambda s: s[1] < n, lambda s: [s[0] + (w @ w).sum(), s[1] + 1], [0.0, 0]))(w, n)\n"
        "eqn = next(e for e in base.eqns if e.primitive.name == 'while')\n"
        "def body(w, c, i):\n"
        "    h = lax.dot_general(w, w, (((1,), (0,)), ((), ())))\n"
        "    return [c + lax.reduce_sum(h, axes=(0, 1)), lax.add(i, jnp.int32(1))]\n"
        "shape = jax.ShapeDtypeStruct\n"
        "small = jax.make_jaxpr(body)(shape((1, 1), jnp.float32), shape((), jnp.float32), shape((), jnp.int32))\n"
        "r, _ = eqn.primitive.bind(n, w, jnp.float32(0), jnp.int32(0), **{**eqn.params, 'body_jaxpr': small})\n"
        "out = out + r",
        "UNMETERABLE",
    ),
    "the wrong shape": ("out = out.T", "BAD_SHAPE"),
    "whole numbers": ("out = out.astype(int)", "PREDICT_ERROR"),
    "endless recursion": ("def f(x):\n    return f(x)\nout = f(out)", "PREDICT_ERROR"),
    "a thread": ("import threading\nthreading.Thread(target=print).start()", "PREDICT_ERROR"),
    "a subprocess": ("import subprocess\nsubprocess.run(['true'])", "PREDICT_ERROR"),
    "a fork": ("os.fork()", "PREDICT_ERROR"),
    "killing its parent": ("os.kill(os.getppid(), 9)", "PREDICT_ERROR"),
    "the network": ("import socket\nsocket.create_connection(('127.0.0.1', 9))", "PREDICT_ERROR"),
    "sys.exit": ("sys.exit(0)", "PREDICT_ERROR"),
}  # fmt: skip


ALIKE = {
    "a NaN payload in one cell",
    "whole numbers",
    "a lazily computed object",
    "endless recursion",
    "BLAS through NumPy",
    "a subprocess",
    "sys.exit",
    "io_callback",
    "a debug callback that carries the weights out",
    "a foreign custom call",
    "an array of negative size",
    "a loop of negative length",
    "a thread",
    "a fork",
    "the network",
    "killing its parent",
}
"""Each has another of its kind among the rest, or in tests/metering or test_escapes.py."""


@pytest.mark.parametrize("name", slow_where(REFUSED, ALIKE))
def test_refused(name, tmp_path):
    body, code = REFUSED[name]
    (prediction,) = predict(estimator(body), tmp_path)
    assert prediction.means is None
    assert prediction.failure is not None
    assert prediction.failure.code == code, prediction.failure


# ---------------------------------------------------------------- contained: one MLP pays, nothing else is touched
DEATHS = {
    "os._exit": "os._exit(0)",
    "a segmentation fault": "import ctypes\nctypes.string_at(1)",
    "garbage on every pipe": (
        "for fd in range(3, 40):\n"
        "    try:\n        os.write(fd, b'x' * 64)\n"
        "    except OSError:\n        pass\n"
        "os._exit(1)"
    ),
}


@pytest.mark.parametrize("mode", ["traced", pytest.param("eager", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", sorted(DEATHS))
def test_a_death_is_reported_and_survived(name, mode, tmp_path):
    body = "if mlp.name != 'warm-up':\n" + textwrap.indent(DEATHS[name], "    ")
    predictions = predict(estimator(body), tmp_path, n_mlps=2, mode=mode)
    assert [prediction.failure.code for prediction in predictions] == ["WORKER_DIED"] * 2


def test_a_death_costs_one_mlp_and_the_next_is_answered(tmp_path):
    body = f"if mlp.name == {DATASET.rows[0].name!r}:\n    os._exit(3)"
    first, second, third = predict(estimator(body), tmp_path, n_mlps=3, mode="eager")
    assert first.failure.code == "WORKER_DIED"
    assert "exit code 3" in first.failure.message
    assert second.failure is None
    assert third.failure is None


def test_an_endless_traced_loop_is_killed_at_the_wall_limit(tmp_path):
    body = "out = out + lax.while_loop(lambda x: x < 1, lambda x: x * 0.5, mlp.weights[0, 0, 0] * 0 + 0.5)"
    first, second = predict(estimator(body), tmp_path, n_mlps=2, wall_time_limit_s=1.0)
    for prediction in (first, second):
        assert prediction.means is None
        assert score(prediction, wall_time_limit_s=1.0).flags.time_exhausted


@pytest.mark.parametrize("body", ["time.sleep(600)", "while True: pass"], ids=["sleeping", "spinning"])
def test_a_predict_that_never_returns_is_killed_at_the_wall_limit(body, tmp_path):
    guarded = f"if mlp.name != 'warm-up':\n    {body}"
    first, second = predict(estimator(guarded), tmp_path, n_mlps=2, mode="eager", wall_time_limit_s=1.0)
    for prediction in (first, second):
        assert prediction.means is None
        assert prediction.failure is None
        assert score(prediction, wall_time_limit_s=1.0).flags.time_exhausted


def test_the_wall_limit_governs_warm_up_calls(tmp_path):
    """A warm-up call may take longer than a set-up; one that never ends is too slow, on this MLP and the next."""
    slow = estimator("if mlp.name == 'warm-up' and not hasattr(self, 'warm'):\n    self.warm = time.sleep(5)")
    (answered,) = predict(slow, tmp_path, mode="eager", wall_time_limit_s=20.0, setup_timeout_s=4.0)
    assert answered.failure is None
    assert answered.means is not None
    endless = estimator("time.sleep(600)")
    for prediction in predict(endless, tmp_path, 2, mode="eager", wall_time_limit_s=1.0, setup_timeout_s=4.0):
        assert prediction.failure is None
        assert score(prediction, wall_time_limit_s=1.0).flags.time_exhausted


@pytest.mark.parametrize("mode", ["traced", "eager"])
def test_a_setup_that_never_returns_fails_every_mlp_once(mode, tmp_path):
    source = estimator("pass", setup="time.sleep(600)")
    first, second = predict(source, tmp_path, n_mlps=2, mode=mode, setup_timeout_s=2.0)
    assert first.failure.code == second.failure.code == "SETUP_TIMEOUT"


@pytest.mark.parametrize("mode", ["traced", "eager"])
def test_a_setup_that_raises_fails_every_mlp(mode, tmp_path):
    first, second = predict(estimator("pass", setup="raise ValueError('no')"), tmp_path, n_mlps=2, mode=mode)
    assert first.failure.code == second.failure.code == "SETUP_ERROR"
    assert "ValueError: no" in first.failure.message


def test_a_runaway_allocation_is_stopped_by_the_memory_limit(tmp_path):
    body = (
        "if mlp.name != 'warm-up':\n"
        "    hoard = []\n"
        "    while True:\n"
        "        hoard.append(np.ones(2**22))\n"
        "        time.sleep(0.005)"
    )
    (prediction,) = predict(estimator(body), tmp_path, mode="eager", memory_limit_mb=1500)
    assert prediction.failure.code == "OUT_OF_MEMORY"
    assert "1,500 MB" in prediction.failure.message


def test_page_tables_count_as_memory(tmp_path):
    """One byte read per 2 MB of a read-only mapping stays the zero page: only the tables grow."""
    body = """
        import mmap
        m = mmap.mmap(-1, 3 * 2**39, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
        m.madvise(15)
        sum(m[i] for i in range(0, len(m), 2**21))
    """
    (prediction,) = predict(estimator(body), tmp_path, mode="eager", memory_limit_mb=1000)
    assert prediction.failure is not None
    assert prediction.failure.code == "OUT_OF_MEMORY"


def test_the_memory_limit_lets_ordinary_work_pass(tmp_path):
    (prediction,) = predict(
        estimator("out = out + (mlp.weights[0] @ mlp.weights[1]).sum()"), tmp_path, memory_limit_mb=4000
    )
    assert prediction.failure is None


def test_giant_arrays_hurt_nobody_else(tmp_path):
    body = "out = out + jnp.sort(jnp.tile(mlp.weights.reshape(-1), 2**26))[0]"
    (prediction,) = predict(estimator(body), tmp_path, budget=2**60)
    assert prediction.failure is not None
    assert prediction.failure.code in ("OUT_OF_MEMORY", "PREDICT_ERROR", "WORKER_DIED")


# ---------------------------------------------------------------- eager: charged as it is spent
def test_eager_work_on_the_host_lands_in_residual_time(tmp_path):
    body = (
        "w = np.asarray(mlp.weights[0])\n"
        "began = time.perf_counter()\n"
        "while time.perf_counter() - began < 0.3:\n    w @ w\n"
        "out = np.zeros((mlp.depth, mlp.width), np.float32)"
    )
    (prediction,) = predict(estimator(body), tmp_path, mode="eager")
    assert prediction.timing.residual_wall_time_s >= 0.3
    assert score(prediction).flags.combined_budget_exhausted  # 0.3 s at 1e11 FLOPs per second is 300 budgets


def test_eager_work_in_an_array_hook_is_charged(tmp_path):
    body = (
        "class Lazy:\n"
        "    def __array__(self, dtype=None, copy=None):\n"
        "        h = mlp.weights[0]\n"
        "        for _ in range(20):\n"
        "            h = lax.tanh(lax.dot(h, h))\n"
        "        return np.asarray(h[: mlp.depth] * 0)\n"
        "out = Lazy()"
    )
    (prediction,) = predict(estimator(body), tmp_path, mode="eager")
    assert prediction.failure is None, prediction.failure
    assert prediction.cost.flops >= 20 * MATMUL


def test_eager_spending_stops_at_the_budget_and_is_reported(tmp_path):
    body = "h = mlp.weights[0]\nwhile True:\n    h = lax.dot(h, h)"
    budget = 100 * MATMUL
    (prediction,) = predict(estimator(body), tmp_path, mode="eager", budget=budget)
    assert prediction.means is None
    assert budget < prediction.cost.flops <= budget + MATMUL
    assert score(prediction, budget=budget).flags.budget_exhausted


def test_a_killed_eager_worker_leaves_what_it_spent(tmp_path):
    body = "h = mlp.weights[0]\nfor _ in range(10):\n    h = lax.dot(h, h)\nif mlp.name != 'warm-up':\n    os._exit(1)"
    (prediction,) = predict(estimator(body), tmp_path, mode="eager")
    assert prediction.failure.code == "WORKER_DIED"
    assert prediction.cost.flops >= 10 * MATMUL


REMEMBERS = estimator(
    "if mlp.name != 'warm-up':\n    self.seen = getattr(self, 'seen', 0) + 1\n    out = out + self.seen",
)


def test_state_between_mlps_is_forbidden_by_a_fresh_worker(tmp_path):
    kept = predict(REMEMBERS, tmp_path, n_mlps=2, mode="eager")
    fresh = predict(REMEMBERS, tmp_path, n_mlps=2, mode="eager", fresh=True)
    assert [prediction.means[0, 0] for prediction in kept] == [1, 2]
    assert [prediction.means[0, 0] for prediction in fresh] == [1, 1]


def test_a_traced_estimator_keeps_no_state_and_never_sees_a_weight(tmp_path):
    source = estimator(
        "self.n = getattr(self, 'n', 0) + 1\nout = out + self.n\nprint('saw', type(mlp.weights).__name__)"
    )
    first, second = predict(source, tmp_path, n_mlps=2)
    assert first.means[0, 0] == second.means[0, 0] == 1
    assert "saw" in first.output
    assert "Tracer" in first.output
    assert second.output == ""


# ---------------------------------------------------------------- kept from: truth, secrets, other processes
LOOK = estimator(
    "def attempt(what):\n"
    "    try:\n        return what()\n"
    "    except Exception as error:\n        return type(error).__name__\n"
    "print('folder', attempt(lambda: os.listdir(FOLDER)))\n"
    "print('file', attempt(lambda: open(FILE).read()))\n"
    "print('environment', sorted(os.environ))\n"
    "print('processes', attempt(lambda: [p for p in os.listdir('/proc') if p.isdigit()]))\n"
    "print('interfaces', attempt(lambda: [l.split(':')[0].strip() for l in open('/proc/self/net/dev') if ':' in l]))\n"
    "print('open', [attempt(lambda: os.readlink('/proc/self/fd/' + f)) for f in os.listdir('/proc/self/fd')])"
)


def test_the_worker_is_kept_from_answers_secrets_and_neighbours(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret-token")
    hidden = tmp_path / "outputs"
    hidden.mkdir()
    (hidden / "truth.npz").write_text("the answer")
    answer = tmp_path / "dataset.bin"
    answer.write_text("the answer")
    where = tmp_path / "elsewhere"
    where.mkdir()
    source = f"FOLDER, FILE = {str(hidden)!r}, {str(answer)!r}\n" + LOOK
    with worker(source, where, hidden=(hidden, answer)) as runner:
        prediction = runner.predict(DATASET.mlp(DATASET.rows[0]))
        protections = runner.protections
    assert prediction.failure is None, prediction.failure
    seen = dict(line.split(" ", 1) for line in prediction.output.splitlines() if " " in line)
    assert all(protections[name] for name in ("files", "network", "processes", "disk")), protections
    assert "MLFLOW_TRACKING_TOKEN" not in seen["environment"]
    assert "secret-token" not in prediction.output
    assert seen["folder"] in ("FileNotFoundError", "PermissionError")
    assert "the answer" not in prediction.output
    assert seen["processes"] in ("['1']", "PermissionError")  # the second where there is no room
    assert seen["interfaces"] in ("['lo']", "PermissionError")
    assert (hidden / "truth.npz").read_text() == "the answer"


def test_the_covers_cannot_be_lifted(tmp_path):
    """Answers inside the folder that an estimator must see are covered."""
    where = tmp_path / "elsewhere"
    hidden = where / "outputs"
    hidden.mkdir(parents=True)
    (hidden / "truth.npz").write_text("the answer")
    body = (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        f"print('lifted', libc.umount2({os.fsencode(hidden)!r}, 2), os.listdir({str(hidden)!r}))"
    )
    source = estimator(body, top="import ctypes\nLIBC = ctypes.pythonapi")
    source = source.replace("libc = ctypes.CDLL(None)", "libc = ctypes.pythonapi")
    with worker(source, where, hidden=(hidden,)) as runner:
        prediction = runner.predict(DATASET.mlp(DATASET.rows[0]))
    assert "lifted -1 []" in prediction.output, (prediction.output, prediction.failure)


def test_setup_is_told_the_rules_and_nothing_of_the_mlps(tmp_path):
    source = estimator("pass", setup="print('context', sorted(vars(context)))")
    (prediction,) = predict(source, tmp_path)
    known = [
        "depth", "flop_budget", "lam", "residual_wall_time_limit_s", "scratch_dir", "seed", "submission_dir",
        "wall_time_limit_s", "width",
    ]  # fmt: skip
    assert f"context {known}" in prediction.output


def test_nothing_but_the_scratch_folder_can_be_written(tmp_path):
    """Neither our code nor another worker's folder: code planted there would run outside the sandbox."""
    body = (
        "import whest\n"
        "def attempt(path):\n"
        "    try:\n        open(path, 'w').close()\n        return 'written'\n"
        "    except OSError as error:\n        return type(error).__name__\n"
        "mine = os.path.dirname(os.environ['HOME'])\n"
        "print('beside', [attempt(f'{mine}/jaxtyping.py'), attempt(f'{os.path.dirname(mine)}/jaxtyping.py')])\n"
        "print('code', attempt(os.path.join(os.path.dirname(whest.__file__), 'planted.py')))\n"
        "print('scratch', attempt(os.path.join(os.environ['HOME'], 'mine')))"
    )
    with worker(estimator(body), tmp_path) as runner:
        prediction = runner.predict(DATASET.mlp(DATASET.rows[0]))
    assert "scratch written" in prediction.output, prediction.failure
    assert "code OSError" in prediction.output or "code PermissionError" in prediction.output
    assert "'written'" not in prediction.output


def forged_reply(charges, timing=""):
    """The source of a prediction's header with these costs and times."""
    cost = '{"cost": {"charges": [' + charges + ']}, "timing": {' + timing + '}, "compile_time_s": 0}'
    return repr(('{"message": ' + cost + ', "arrays": []}').encode())


FORGED = {
    "deep nesting": "b'[' * 20000",
    "no message": """b'{"message": null, "arrays": []}'""",
    "a list for a message": """b'{"message": [], "arrays": []}'""",
    "a dtype that is code": """b'{"message": {}, "arrays": [["(1,,2)f4", [1]]]}'""",
    "a shape of truth values": """b'{"message": {}, "arrays": [["float32", [true]]]}'""",
    "a shape beyond counting": """b'{"message": {}, "arrays": [["float32", [0, 1000000000000000000000000000000]]]}'""",
    "more than there is": """b'{"message": {}, "arrays": [["float32", [999999999999]]]}'""",
    "half a character": """b'{"message": {"broken": "\\\\ud800"}, "arrays": []}'""",
    "times that aren't numbers": forged_reply("", '"backend_time_s": NaN'),
    "a cost below zero": forged_reply('{"namespace": "", "operation": "x", "flops": -5, "calls": 1}'),
    "a cost beyond counting": forged_reply(
        '{"namespace": "", "operation": "x", "flops": ' + "9" * 400 + ', "calls": 1}'
    ),
}  # fmt: skip


KEPT_FORGERIES = {"a dtype that is code", "more than there is", "a cost below zero"}


@pytest.mark.parametrize("name", slow_where(FORGED, FORGED.keys() - KEPT_FORGERIES))
def test_a_forged_answer_fails_its_own_mlp(name, tmp_path):
    body = (
        "import struct\n"
        "if mlp.name != 'warm-up':\n"
        f"    header = {FORGED[name]}\n"
        "    os.write(int(sys.argv[3]), struct.pack('<Q', len(header)) + header)\n"
        "    time.sleep(600)"
    )
    (prediction,) = predict(estimator(body), tmp_path, mode="eager", wall_time_limit_s=4.0)
    assert prediction.means is None
    assert prediction.failure is not None
    assert prediction.failure.message.encode()  # printable


def test_an_answer_to_a_question_that_was_not_asked_yet_is_refused(tmp_path):
    body = (
        "import json, struct\n"
        "if mlp.name != 'warm-up' and not globals().get('SENT'):\n"
        "    globals()['SENT'] = True\n"
        "    message = {'cost': {'charges': []}, 'timing': {}, 'failure': None, 'compile_time_s': 0}\n"
        "    header = json.dumps({'message': message, 'arrays': []}).encode()\n"
        "    os.write(int(sys.argv[3]), 2 * (struct.pack('<Q', len(header)) + header))"
    )
    _, second = predict(estimator(body), tmp_path, n_mlps=2, mode="eager")
    assert second.means is None
    assert second.failure is not None
    assert "before it was asked" in second.failure.message


def test_a_worker_that_stops_reading_is_killed(tmp_path):
    body = (
        "import fcntl, json, struct\n"
        "if mlp.name != 'warm-up':\n"
        "    fcntl.fcntl(int(sys.argv[2]), 1031, 4096)\n"
        "    message = {'cost': {'charges': []}, 'timing': {}, 'failure': None, 'compile_time_s': 0}\n"
        "    header = json.dumps({'message': message, 'arrays': []}).encode()\n"
        "    os.write(int(sys.argv[3]), struct.pack('<Q', len(header)) + header)\n"
        "    time.sleep(600)"
    )
    first, second = predict(estimator(body), tmp_path, n_mlps=2, mode="eager", wall_time_limit_s=2.0)
    assert first.means is None
    assert second.means is None
    assert score(second, wall_time_limit_s=2.0).flags.time_exhausted


def test_a_giant_output_is_read_at_its_end_only(tmp_path):
    (prediction,) = predict(estimator("print('x' * 50_000_000)\nprint('the end')"), tmp_path)
    assert prediction.failure is None
    assert len(prediction.output) <= 4000
    assert prediction.output.endswith("the end\n")


def test_workers_die_with_their_parent(tmp_path):
    import subprocess
    import sys

    import psutil

    if not sys.platform.startswith("linux"):
        pytest.skip("needs Linux's parent-death signal")
    source = estimator("if mlp.name != 'warm-up':\n    while True: pass")
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom tests.support.hostile import predict\n"
        f"predict({source!r}, Path(sys.argv[2]), mode='eager', wall_time_limit_s=None)\n"
    )
    parent = subprocess.Popen([sys.executable, script, str(ROOT), str(tmp_path)])
    try:
        workers = []
        for _ in range(600):
            workers = psutil.Process(parent.pid).children(recursive=True)
            if any(process.cpu_times().user > 4 for process in workers if process.is_running()):
                break
            psutil.wait_procs([], timeout=0)
            import time

            time.sleep(0.1)
        assert workers
    finally:
        parent.kill()
        parent.wait()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive


def test_no_process_or_folder_is_left_behind(tmp_path):
    import psutil

    before = {process.pid for process in psutil.Process().children(recursive=True)}
    with worker(estimator("pass"), tmp_path) as runner:
        runner.predict(DATASET.mlp(DATASET.rows[0]))
        pid, scratch = runner._evaluator.pid, runner._evaluator.scratch
        assert psutil.pid_exists(pid)
    assert not scratch.exists()
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before


def test_a_worker_killed_from_outside_costs_one_mlp(tmp_path):
    source = estimator("out = out + (mlp.weights[0] @ mlp.weights[1]).sum() * 0")
    mlps = [DATASET.mlp(row) for row in DATASET.rows]
    with worker(source, tmp_path) as runner:
        first = runner.predict(mlps[0])
        os.killpg(runner._evaluator.pid, signal.SIGKILL)
        second, third = runner.predict(mlps[1]), runner.predict(mlps[2])
    assert first.failure is None
    assert second.failure.code == "WORKER_DIED"
    assert "SIGKILL" in second.failure.message
    assert third.failure is None
    assert third.cost.flops == first.cost.flops


def test_a_program_costs_the_same_here_and_in_a_worker(tmp_path):
    from tests.support.hostile import LIMITS, context
    from whest.estimator.spec import EstimatorSpec
    from whest.isolation.choose import Isolation, open_runner

    spec = EstimatorSpec("cov_prop", "traced", "estimators.cov_prop.CovarianceProp", None, {})
    mlp = DATASET.mlp(DATASET.rows[0])
    answers = []
    for kind in ("none", "process"):
        with open_runner(Isolation(kind, False), spec, context(), LIMITS, (), tmp_path / "xla") as runner:
            answers.append(runner.predict(mlp))
    assert answers[0].cost.flops == answers[1].cost.flops > 0
    assert abs(answers[0].means - answers[1].means).max() < 1e-6
    assert answers[0].means.shape == (DEPTH, WIDTH)
    assert answers[0].cost.flops < BUDGET


def test_a_run_that_requires_what_is_missing_never_imports_the_estimator(tmp_path):
    """The sentence names what is missing and the remedy; the estimator's first line is not reached."""
    from whest.errors import UnprotectedError

    source = "raise SystemExit('imported')"
    for mode in ("traced", "eager"):
        with worker(source, tmp_path, mode=mode, require=("files", "memory")) as runner:
            with pytest.raises(UnprotectedError, match=r"memory.*isolation\.require=\[\]") as refused:
                runner.predict(DATASET.mlp(DATASET.rows[0]))
            assert "memory_limit_mb" in str(refused.value)


def test_there_are_enough_of_them():
    assert len(CHARGED) + len(REFUSED) + len(DEATHS) >= 25
