"""
The `aotx` command: parse, call, print (`http.md` §10).

Exit codes: 0 done, 1 a configuration or resource failure with one line per error,
2 usage (click's own).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click

from twisted_aotx.cli_failures import told
from twisted_aotx.cli_grants import grants
from twisted_aotx.cli_model import model as model_commands
from twisted_aotx.cli_usage import usage
from twisted_aotx.config.gateway import GatewayFile, load_gateway
from twisted_aotx.config.initial import (
    LLAMA_CAPACITY,
    First,
    make_state_directory,
    new_token,
)
from twisted_aotx.engines.memory import available, need
from twisted_aotx.engines.memory import check as check_memory
from twisted_aotx.engines.model_file import read_model_file
from twisted_aotx.errors import EngineError
from twisted_aotx.models.first import first_for
from twisted_aotx.models.verdict import judge_template
from twisted_aotx.wiring_gateway import tls_options

_FILE: Final = click.Path(path_type=Path)
_CONFIG = click.option(
    "--config", "config", type=_FILE, required=True, help="A gateway.json."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="twisted-aotx")
def run() -> None:
    """Set up and check what `twistd aotx` runs."""


run.add_command(grants)
run.add_command(model_commands)
run.add_command(usage)


@run.command()
@click.argument("directory", metavar="DIR", type=_FILE)
@click.option(
    "--engine", type=click.Choice(["reference", "llama"]), default="reference"
)
@click.option("--model", type=_FILE, help="A GGUF file for the llama engine.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), default=8081, show_default=True)
def init(
    directory: Path, engine: str, model: Path | None, host: str, port: int
) -> None:
    """Make the state directory DIR with a first configuration and a token."""
    first = First(host=host, port=port, now=int(time.time()))
    if engine == "llama":
        if model is None:
            raise click.UsageError(
                "--engine llama needs --model FILE; get one: aotx model fetch smollm2"
            )
        first = _for_model(first, model)
    elif model is not None:
        raise click.UsageError("--model needs --engine llama")
    with told(directory):
        make_state_directory(directory, first)
    click.echo(f"made {directory}: gateway.json, runtime.json, grants, token")
    click.echo(f"start it: twistd -n --pidfile= aotx --state {directory}")


@run.command()
@_CONFIG
def check(config: Path) -> None:
    """Load a gateway's configuration as the gateway does; write nothing."""
    settings = _load(config).settings
    with told(config):
        tls_options(settings)
    click.echo(
        f"{config}: good: revision {settings.revision}, "
        f"{len(settings.models)} model(s), {len(settings.principals)} principal(s)"
    )


@run.command()
def token() -> None:
    """Print a new token and its SHA-256; store nothing."""
    for line in new_token():
        click.echo(line)


def _for_model(first: First, path: Path) -> First:
    """*first* for the llama engine with the model *path*, if it can be served."""
    with told(path):
        model = read_model_file(path)
    first = first_for(first, path, model)
    try:
        needed = need(model, LLAMA_CAPACITY, first.sequence_tokens)
        check_memory(needed, available(), str(path))
    except EngineError as error:
        # Where it is to run, or when, there may be more.
        click.echo(f"warning: {error}", err=True)
    verdict = judge_template(model)
    if verdict.is_usable is False:
        click.echo(f"warning: {path}: chat template: {verdict.text}", err=True)
    return first


def _load(config: Path) -> GatewayFile:
    with told(config):
        file = load_gateway(config)
    for notice in file.notices:
        click.echo(f"{config}: warning: {notice}", err=True)
    return file
