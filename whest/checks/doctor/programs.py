"""Check that JAX reads back a compiled program that it kept: jax 0.10 crashed on very large ones."""

import json
import subprocess
import sys
import tempfile

from whest.checks.finding import Finding

N_STEPS, TIMEOUT_S = 150, 120
CODE = """
import json, sys
import jax, jax.numpy as jnp

jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
events = []
jax.monitoring.register_event_listener(lambda name, **details: events.append(name))

def program(x):
    for step in range(int(sys.argv[2])):
        x = jnp.tanh(x @ x + step)
    return x.sum()

value = float(jax.jit(program)(jnp.eye(8) / 2))
print(json.dumps([value, "/jax/compilation_cache/cache_hits" in events]))
"""
NOT_KEPT = "runs are right, but each compiles anew; look at the version of jaxlib in docs/compatibility.md"


def check_kept_programs() -> Finding:
    """One process compiles a program and keeps it; another reads it back and must get the same number."""
    with tempfile.TemporaryDirectory(prefix="whest-doctor-") as folder:
        return judge_round_trip(*(_run(folder) for _ in range(2)))


def _run(folder: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CODE, folder, str(N_STEPS)]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, "", f"it took more than {TIMEOUT_S} s")


def judge_round_trip(writer: subprocess.CompletedProcess[str], reader: subprocess.CompletedProcess[str]) -> Finding:
    name = "kept programs"
    for ended, what in ((writer, "compile and keep"), (reader, "read back")):
        if ended.returncode:
            said = (ended.stderr.strip().splitlines() or ["no message"])[-1][:200]
            told = f"JAX could not {what} a program (exit code {ended.returncode}: {said})"
            return Finding(
                name, "fail", told, "python -m whest job=clean empties the cache; if it stays, change jaxlib"
            )
    (written, _), (read, is_hit) = json.loads(writer.stdout), json.loads(reader.stdout)
    if read != written:
        told = f"a program that was read back gives {read}, and {written} when compiled"
        return Finding(name, "fail", told, "change the version of jaxlib (docs/compatibility.md)")
    if not is_hit:
        return Finding(name, "warn", "JAX kept a program and compiled it anew all the same", NOT_KEPT)
    return Finding(name, "ok", f"a program of {2 * N_STEPS} operations was kept and read back by another process")
