"""
The `aotx` command: parse, call, print (`http.md` §10).

Exit codes: 0 done, 1 a configuration or resource failure with one line per error,
2 usage (click's own).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from twisted_aotx.config.files import replace_file
from twisted_aotx.config.gateway import GatewayFile, load_gateway
from twisted_aotx.config.grants import grant_table
from twisted_aotx.config.initial import First, make_state_directory, new_token
from twisted_aotx.errors import ConfigErrors
from twisted_aotx.wiring_gateway import tls_options

_FILE: Final = click.Path(path_type=Path)
_CONFIG = click.option(
    "--config", "config", type=_FILE, required=True, help="A gateway.json."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="twisted-aotx")
def run() -> None:
    """Set up and check what `twistd aotx` runs."""


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
    if engine == "llama":
        _fail("--engine llama: this version has no llama engine yet; use reference")
    if model is not None:
        raise click.UsageError("--model needs --engine llama")
    with _told(directory):
        first = First(host=host, port=port, now=int(time.time()), engine=engine)
        make_state_directory(directory, first)
    click.echo(f"made {directory}: gateway.json, runtime.json, grants, token")
    click.echo(f"start it: twistd -n --pidfile= aotx --state {directory}")


@run.command()
@_CONFIG
def check(config: Path) -> None:
    """Load a gateway's configuration as the gateway does; write nothing."""
    settings = _load(config).settings
    with _told(config):
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


@run.command()
@_CONFIG
@click.option("--output", type=_FILE, required=True, help="The grant table to write.")
def grants(config: Path, output: Path) -> None:
    """Write the grant table of a configuration, at once and durably."""
    table = grant_table(_load(config).settings)
    with _told(output):
        replace_file(output, table.pack())
    click.echo(f"{output}: revision {table.revision}, {len(table.rows)} principal(s)")


def _load(config: Path) -> GatewayFile:
    with _told(config):
        file = load_gateway(config)
    for notice in file.notices:
        click.echo(f"{config}: warning: {notice}", err=True)
    return file


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what is wrong with *path* into one line per error and exit code 1."""
    try:
        yield
    except ConfigErrors as errors:
        _fail(*(f"{path}: {error}" for error in errors.errors))
    except OSError as error:
        _fail(f"{error.filename or path}: {error.strerror}")


def _fail(*lines: str) -> None:
    for line in lines:
        click.echo(line, err=True)
    sys.exit(1)
