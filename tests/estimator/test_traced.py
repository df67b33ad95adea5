"""Which compiled programs are kept on disk."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

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
