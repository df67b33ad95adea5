"""The jobs of datasets: bake, merge, combine, info."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from whest.config.build import Node, build_group, build_target
from whest.config.compose import command_of
from whest.config.devices import prepare_jax
from whest.config.launching import is_sweeps_job, launch
from whest.config.settings import Settings, read_settings
from whest.dataset.bake import Bake, Baked, BakedRow, BakeOptions, counted_from_zero
from whest.dataset.formats import combine as combining
from whest.dataset.formats.metadata import Part, choose_split, parse_header, split_names
from whest.dataset.formats.opening import open_split, read_document
from whest.dataset.formats.save import provenance_here
from whest.dataset.formats.split import StoredSplit
from whest.dataset.row import ContentDigest
from whest.dataset.slices import KEPT, Drawn, failed, hand_over, marked, take_over
from whest.dataset.sources import drawn_seed
from whest.dataset.stored import VERIFIED_BYTES
from whest.display.console import open_console, say
from whest.display.progress import open_progress
from whest.errors import ConfigError, JobFailedError, WhestError
from whest.experiment import refuse_missing_groups
from whest.mlp import SEED_PROTOCOL_NAMES
from whest.notation import figure, printable
from whest.truth.cache import TruthCache
from whest.truth.truth import refuse_idle_truth, refuse_two_aims

LOCAL = ("output", "outputs_dir", "hydra.run.dir", "bake.slices")
"""Overrides left out of a dataset's recorded command: they name folders on the baker's machine."""


def bake(config: Node, folder: Path, overrides: list[str]) -> Drawn | None:
    options = build_target(BakeOptions, config["bake"], "bake")
    output = _output(read_settings(config))
    if options.slices is not None and options.slice is not None:
        return draw_slice(config, output, overrides, str(options.slice))
    recorded = [_without_folder(word) for word in overrides if word.lstrip("+").partition("=")[0] not in LOCAL]
    job = build_bake(config, output, overrides, command_of(recorded))
    console = open_console()
    if options.slices is not None:
        draw_slices(job, options, folder, overrides)
    baked = []
    with open_progress(console) as progress:
        for row in job.draw(progress):
            if options.slices is None:
                print_baked_row(row, job.part, console)
            baked.append(row)
    print_baked(job.save(baked), console)
    return None


def draw_slices(job: Bake, options: BakeOptions, folder: Path, overrides: list[str]) -> None:
    """Draw the truth of all slices, a job each, by the launcher that was typed."""
    from whest.cli.command import task_function  # the launcher's processes find it there

    if is_sweeps_job():
        raise ConfigError(f"bake.slices={options.slices} starts jobs of its own: leave -m out")
    jobs, place = [[*overrides, word] for word in options.words(job.dataset.n_mlps)], folder / "slices"
    place.mkdir(parents=True)
    (place / ".bake").touch()  # a job removes its own folder, and this one if it were empty
    try:
        with marked(job.cache) as variables:
            take_over(job, launch(task_function, jobs, place, variables))
    except WhestError:
        raise
    except Exception as error:
        if "srun" in str(error):
            raise  # submitit's words for a machine without SLURM, which the command line explains
        reason = str(error).strip().splitlines() or [""]
        raise JobFailedError(f"hydra/launcher: {type(error).__name__}: {reason[0]}. {KEPT}") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def draw_slice(config: Node, output: Path, overrides: list[str], name: str) -> Drawn:
    """A slice's job: draw its truth into the cache, and hand it over. An error is handed over too, as words."""
    try:
        job, console = build_bake(config, output, overrides, "", is_drawn_only=True), open_console()
        with open_progress(console) as progress:
            for row in job.draw(progress):
                print_baked_row(row, job.part, console)
        return hand_over(job, name)
    except Exception as error:
        return failed(name, error)


def merge(config: Node, folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    inputs = settings.inputs or []
    if isinstance(inputs, dict):
        raise ConfigError("inputs must be a list of slices for job=merge: inputs=[a,b]")
    sha256 = combining.merge([Path(path) for path in inputs], _output(settings))
    say(f"merged {len(inputs)} slices into {settings.output}, sha256 {sha256}")


def combine(config: Node, folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    inputs = settings.inputs or []
    named = {name: Path(path) for name, path in inputs.items()} if isinstance(inputs, dict) else None
    splits = combining.combine(named or [Path(path) for path in inputs], _output(settings), settings.default_split)
    say(f"combined the splits {', '.join(splits)} into {settings.output}")


def info(config: Node, folder: Path, overrides: list[str]) -> None:
    path = read_settings(config).path
    if path is None:
        raise ConfigError("path is missing: name a dataset, job=info path=DIR")
    print_info(path, open_console())


def _output(settings: Settings) -> Path:
    if settings.output is None:
        raise ConfigError(f"output is missing: name the folder that job={settings.job} writes, output=DIR")
    return settings.output


def _without_folder(word: str) -> str:
    """The override; of an absolute path only the last part."""
    key, _, value = word.partition("=")
    return f"{key}={Path(value).name}" if Path(value).is_absolute() else word


def build_bake(config: Node, output: Path, overrides: Sequence[str], command: str, is_drawn_only: bool = False) -> Bake:
    """Make the typed bake of a composed, resolved config."""
    settings = read_settings(config)
    prepare_jax(settings)
    refuse_missing_groups(config)
    refuse_two_aims(overrides)
    if drawn_seed(config):
        raise ConfigError("seed is missing: a bake needs one, so that it can be resumed and sliced, seed=7")
    options = build_target(BakeOptions, config["bake"], "bake")
    sampler = build_group(config, "truth")
    dataset = counted_from_zero(build_group(config, "dataset").load())
    is_drawn = not dataset.has_truth or sampler.resample
    refuse_idle_truth(not is_drawn, overrides)
    drawn_by = f"{sampler.name} {sampler.version}" if is_drawn else dataset.sampler
    aim = sampler.standard_error if is_drawn else dataset.standard_error
    return Bake(
        dataset=dataset,
        part=options.part(dataset.n_mlps),
        sampler=sampler,
        cache=TruthCache(settings.outputs / "cache" / "truth"),
        output=output,
        provenance=provenance_here(options.split, options.config, drawn_by, aim, command),
        is_drawn_only=is_drawn_only,
        processes=options.processes,
    )


def print_baked_row(baked: BakedRow, part: Part, console: Console) -> None:
    """Print one line per MLP, so that a log shows the progress of a long bake."""
    truth = baked.truth
    how = "already drawn" if baked.seconds is None else f"{baked.seconds:.1f} s"
    console.print(
        f"{baked.row.index + 1 - part.start:>5} of {part.end - part.start}  {escape(baked.row.name):24} "
        f"standard error {figure(truth.floor_mse**0.5)}  {truth.n_samples:.3g} samples  {how}"
    )


def print_baked(baked: Baked, console: Console) -> None:
    part, place = baked.part, escape(str(baked.output))
    console.print(
        f"[bold]{place}[/]: MLPs [{part.start},{part.end}) of {part.total}, {baked.n_samples:.3g} samples in total; "
        f"the truth's noise adds {figure(baked.floor_mse)} to every MSE",
        soft_wrap=True,
    )
    console.print(f"sha256 {baked.sha256}", soft_wrap=True)
    use = f"dataset=file dataset.path={place}" if part.is_whole else "job=merge inputs=[…] output=…"
    console.print(f"next   python -m whest {use}", soft_wrap=True)


def print_info(path: Path, console: Console) -> None:
    """Describe every split. A split that is not too large is read and verified."""
    document = read_document(path)
    names = split_names(document, path)
    header = parse_header(choose_split(document, names[0], path), path)
    table = Table(box=None, show_header=False, title=_plain(str(path)), title_justify="left", title_style="bold")
    version = header.protocol.version
    table.add_row("  schema", str(document["schema_version"]))
    table.add_row("  shape", f"{header.stated.width}x{header.stated.depth} (width x depth)")
    table.add_row("  seed protocol", f"{SEED_PROTOCOL_NAMES[version]} {version}")
    if len(names) > 1:
        table.add_row("  default split", _plain(str(document.get("default_split", "none"))))
    for name in names:
        for key, value in describe_split(open_split(path, name, partial=True)).items():
            table.add_row(_plain(f"  {name}: {key}"), _plain(value))
    console.print(table)


def _plain(words: str) -> Text:
    """Text from a file, without control characters: they could change colours or open links in a terminal."""
    return Text(printable(words))


def describe_split(stored: StoredSplit) -> dict[str, str]:
    header, part = stored.header, stored.header.part
    share = "" if part.is_whole else f", the slice [{part.start},{part.end}) of {part.total}: merge it before use"
    facts = {"MLPs": f"{stored.n_mlps}{share}", "samples per MLP": f"{header.stated.n_samples:,}"}
    if header.stated.sampler:
        facts["sampler"] = header.stated.sampler
    if stored.reader.n_bytes > VERIFIED_BYTES:
        stated = header.stated.content_sha256 or "not stated"
        return {**facts, "sha256": f"{stated} (as stated; {stored.reader.n_bytes / 1e9:.1f} GB not read)"}
    digest, floors = ContentDigest(header.stated.width, header.stated.depth, header.protocol.version), []
    for record in stored.verified():
        digest.add(record.row, record.fingerprint)
        assert record.row.truth is not None
        floors.append(record.row.truth.floor_mse)
    noise = f"adds {np.mean(floors):.3g} to every MSE"
    return {**facts, "noise of the truth": noise, "sha256": digest.hexdigest()}
