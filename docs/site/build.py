"""Build the documentation as a site: `make docs`. Warnings are errors.

The Markdown of docs/ is the source. References are made here from conf/ and the report's schema, and example pages by
real runs.
"""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

import config_reference
import live_examples
import report_reference

from whest.config.jobs import JOBS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ABOVE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages of the top folder that the site has too."""
MADE = """
## References

- [Config reference](config_reference.md): every key, group and choice, with its default.
- [Report reference](report_reference.md): every field of `report.json`.
- [API reference](api_reference.md): functions and classes for scripts, by {ref}`name <genindex>` and by
  {ref}`module <modindex>`.
- [Live examples](live_examples.md): pages of a run, a sweep, a comparison, a board and the gallery.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "outputs" / "site")
    output = parser.parse_args().output.absolute()
    source = output.with_name(output.name + "-source")
    for folder in (source, output):
        shutil.rmtree(folder, ignore_errors=True)
    collect(source)
    live_examples.make_pages(source)
    from sphinx.cmd.build import main as sphinx

    code = sphinx(["-q", "-W", "--keep-going", "-b", "html", "-d", str(source / ".doctrees"), str(source), str(output)])
    if code:
        raise SystemExit(code)
    print(f"built {len(list(output.rglob('*.html')))} pages: {output / 'index.html'}")


def collect(source: Path) -> None:
    """Copy the pages and make the references. The source folder is all that Sphinx reads."""
    ignored = shutil.ignore_patterns("site", "__pycache__")
    shutil.copytree(ROOT / "docs", source, ignore=ignored)
    for page in source.glob("*.md"):
        _write(source, page.name, _beside(page.read_text(encoding="utf-8")))
    for name in ABOVE:
        if (ROOT / name).exists():
            (source / name).write_text(_level(ROOT / name), encoding="utf-8")
    for name in ("conf.py", "api_reference.md"):
        shutil.copy(HERE / name, source)
    jobs = {name: job.summary for name, job in JOBS.items()}
    _write(source, "config_reference.md", config_reference.write_reference(ROOT / "conf", jobs))
    schema = json.loads((source / "report.schema.json").read_text(encoding="utf-8"))
    _write(source, "report_reference.md", report_reference.write_reference(schema))
    _write(source, "index.md", write_index((ROOT / "docs" / "index.md").read_text(encoding="utf-8")))


def write_index(index: str) -> str:
    """docs/index.md with the made pages, and the site's contents in the order of its sections."""
    body = _beside(index)
    front, found, logs = body.partition("\n## Appendices")
    body = f"{front}{MADE}{found}{logs}"
    trees = []
    for section in re.split(r"^## ", body, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        pages = dict.fromkeys(re.findall(r"\]\(([\w/-]+)\.md\)", section))
        trees += [":::{toctree}", ":hidden:", f":caption: {title}", "", *pages, ":::", ""]
    if (ROOT / "SECURITY.md").exists():
        trees[-2:] = ["SECURITY", ":::", ""]
    return f"{body}\n" + "\n".join(trees)


def _beside(markdown: str) -> str:
    """A page's links to the top folder, whose pages stand beside it in the site."""
    return re.sub(rf"\]\(\.\./({'|'.join(map(re.escape, ABOVE))})", r"](\1", markdown)


def _level(path: Path) -> str:
    """A page of the top folder, with its links as seen from docs/."""
    return re.sub(r"\]\(docs/", "](", path.read_text(encoding="utf-8"))


def _write(source: Path, name: str, text: str) -> None:
    (source / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
