"""Which compiled programs are kept on disk, and with which options large ones are compiled."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from whest.estimator import traced
from whest.estimator.traced import _kept_on_disk


@pytest.mark.parametrize("is_kept", [True, False])
def test_only_what_may_be_read_back_is_kept(is_kept: bool, tmp_path: Path) -> None:
    before = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    times = jax.config.jax_persistent_cache_min_compile_time_secs  # type: ignore[attr-defined]
    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        reset_cache()
        lowered = jax.jit(lambda x: jnp.sin(x) * 17.25).lower(jax.ShapeDtypeStruct((3,), jnp.float32))
        with _kept_on_disk(is_kept):
            lowered.compile()
        assert bool(list(tmp_path.iterdir())) == is_kept
        assert jax.config.jax_compilation_cache_dir == str(tmp_path)  # type: ignore[attr-defined]
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", times)
        reset_cache()


@pytest.fixture
def compiled_fully() -> Iterator[None]:
    """As a user's run compiles; the fast tests switch most of it off."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.usefixtures("compiled_fully")
@pytest.mark.parametrize("options", [traced.LARGE_OPTIONS, {"xla_of_another_version": 1}])
def test_a_large_program_has_its_own_options_if_xla_knows_them(
    options: dict[str, bool | int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, bool | int] | None] = []
    whole = jax.stages.Lowered.compile

    def watched(self: jax.stages.Lowered, compiler_options: dict[str, bool | int] | None = None) -> Any:
        asked.append(compiler_options)
        return whole(self, compiler_options)  # type: ignore[arg-type]

    monkeypatch.setattr(jax.stages.Lowered, "compile", watched)
    monkeypatch.setattr(traced, "LARGE_OPTIONS", options)
    monkeypatch.setattr(traced, "LARGE", 2)
    x = np.linspace(0, 1, 3, dtype=np.float32)
    programs = [jax.jit(lambda x: jnp.sin(x)), jax.jit(lambda x: jnp.sin(jnp.cos(x) * 2))]
    small, large = (traced._compile(program.trace(jax.ShapeDtypeStruct((3,), jnp.float32))) for program in programs)
    np.testing.assert_allclose(small(x), np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(large(x), np.sin(np.cos(x) * 2), rtol=1e-6)
    known = options == {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
    assert asked == ([None, options] if known else [None, options, None])
