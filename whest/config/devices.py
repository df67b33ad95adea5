"""Prepare JAX: the device, the precision and the cache of compiled programs."""

import logging

import jax

from whest.config.settings import Settings
from whest.errors import ConfigError


def prepare_jax(settings: Settings) -> None:
    """Set the device, the precision and the compilation cache. Call it before the first array is made."""
    logging.getLogger("jax").setLevel(logging.WARNING)
    if settings.device != "auto":
        jax.config.update("jax_platforms", {"cpu": "cpu", "gpu": "cuda,rocm"}[settings.device])
    jax.config.update("jax_default_matmul_precision", "highest")
    jax.config.update("jax_compilation_cache_dir", str(settings.outputs / "cache" / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    try:
        jax.devices()
    except RuntimeError as error:
        raise ConfigError(f"device={settings.device}: JAX finds no such device ({error}). Use device=cpu") from None


def prepare_precision(cache: str | None) -> None:
    """Set the precision, and the compilation cache if a folder is given; for a process that inherits its device."""
    jax.config.update("jax_default_matmul_precision", "highest")
    if cache is not None:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
