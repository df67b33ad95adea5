"""The templates of `job=init`: a first estimator, its config and its test."""

import importlib.util
import keyword
from importlib.resources import files
from pathlib import Path

from whest.errors import ConfigError
from whest.host import page

PARTS = {"{name}.py": "estimator.py.txt", "estimator/{name}.yaml": "config.yaml.txt", "test_{name}.py": "test.py.txt"}
"""The files that are written, and their templates."""


def start_estimator(folder: Path, taken: list[str], outputs: Path) -> list[Path]:
    """Write the files into the folder, with its name. Existing files are not overwritten."""
    name = folder.absolute().name
    _refuse_name(folder, name, taken)
    if folder.absolute().is_relative_to(outputs):
        raise ConfigError(f"path={folder} is in {outputs}, which is hidden from estimators: choose another folder")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"path={folder} is a file: name a folder for your estimator, path=mine")
    texts = {folder / place.format(name=name): _text(template, folder, name) for place, template in PARTS.items()}
    for path in texts:
        if path.exists():
            raise ConfigError(f"path={folder}: {path} exists and is not overwritten; choose another folder")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def next_steps(folder: Path) -> list[str]:
    """The next commands for a beginner."""
    file = f"{folder}/{folder.absolute().name}.py"
    has_pytest = importlib.util.find_spec("pytest") is not None
    return [
        f"python -m whest job=validate estimator=file estimator.path={file}",
        f"python -m pytest {folder}" if has_pytest else f"pip install pytest && python -m pytest {folder}",
        f"python -m whest --config-dir {folder} estimator={folder.absolute().name}",
    ]


def _refuse_name(folder: Path, name: str, taken: list[str]) -> None:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ConfigError(f"path={folder}: {name!r} becomes the estimator's name, so use only letters, digits and _")
    if name in taken:
        raise ConfigError(f"path={folder}: estimator={name} exists already, choose another name")


def _text(template: str, folder: Path, name: str) -> str:
    text = files("whest.starter").joinpath(template).read_text(encoding="utf-8")
    return text.format(name=name, folder=folder, file=folder / f"{name}.py", guide=page("write.md"))
