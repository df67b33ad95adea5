"""Files of WhestBench's first API, `import whest as we`. The meter had this package's name before it was flopscope."""

import ast
from pathlib import Path

import whest
from whest.errors import ConfigError

METER, HARNESS = "flopscope 0.2.0", "whestbench 0.4.0"
"""The first releases under these names, which already import flopscope."""


def refuse_former_api(path: Path, text: bytes) -> None:
    """Say what a file of the first API was written for, and how to run it. Any other file passes."""
    used = former_name(text)
    if used is None:
        return
    line, name, attribute = used
    raise ConfigError(
        f"{path}:{line}: {name}.{attribute} is of WhestBench's first API, `import whest as {name}`. The file was "
        f"written for a meter older than {METER} and a harness older than {HARNESS}, which PyPI never had. Write "
        f"`import flopscope.numpy as {name}` (and `import flopscope` for budgets), then run it with the peer: "
        f"estimator=whestbench estimator.path={path} estimator.python=ENV/bin/python, where ENV has whestbench 0.16"
    )


def former_name(text: bytes) -> tuple[int, str, str] | None:
    """Line, name and attribute of the first use of `whest` that this package never had."""
    if b"whest" not in text:
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # its import fails with a better message
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    names = {alias.asname or alias.name for node in imports for alias in node.names if alias.name == "whest"}
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    for node in attributes:
        if isinstance(node.value, ast.Name) and node.value.id in names and not _is_ours(node.attr):
            return node.lineno, node.value.id, node.attr
    return None


def _is_ours(name: str) -> bool:
    """Whether `whest.NAME` is a name, a module or a package of this package."""
    place = Path(whest.__file__).parent / name
    return name in dir(whest) or place.is_dir() or place.with_suffix(".py").is_file()
