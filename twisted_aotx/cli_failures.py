"""
How commands fail: a line for every error on standard error, exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click

from twisted_aotx.errors import AOTXError, ConfigErrors


def fail(*lines: str) -> NoReturn:
    """Print *lines* and end the process."""
    for line in lines:
        click.echo(line, err=True)
    sys.exit(1)


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn what is wrong with *path* into one line per error and exit code 1."""
    try:
        yield
    except ConfigErrors as errors:
        fail(*(f"{path}: {error}" for error in errors.errors))
    except AOTXError as error:
        fail(f"{path}: {error}")
    except OSError as error:
        fail(f"{error.filename or path}: {error.strerror}")
