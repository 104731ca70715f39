"""
The pages, samples and units say what the code does.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import click
import pytest
from twisted.python import usage

from tests.sources import ROOT, files
from twisted_aotx import cli, limits, tap_aotx, tap_gateway, tap_runtime
from twisted_aotx.config.gateway import parse_gateway
from twisted_aotx.config.principals import ACTIONS
from twisted_aotx.config.runtime import STORE_BYTES_DEFAULT, load_runtime
from twisted_aotx.gateway.problems import PROBLEMS, STATUS_OF_CAUSE, ProblemCode
from twisted_aotx.gateway.routes import ROUTES
from twisted_aotx.gateway.settings import GatewaySettings, Limits, Principal
from twisted_aotx.limits import Capacities

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]

_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def rows_of(page: str) -> dict[str, list[str]]:
    """What stands in backticks in the first cell, to the row's cells."""
    rows = {}
    for line in (DOCS / page).read_text().splitlines():
        if line.startswith("|"):
            first, *rest = [cell.strip() for cell in line.strip("|").split(" | ")]
            for name in re.findall(r"`([^`]+)`", first):
                rows[name] = [first, *rest]
    return rows


def blocks_of(path: Path, language: str) -> list[str]:
    return [
        re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)
        for indent, found, text in _BLOCK.findall(path.read_text())
        if found == language
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [link for link in _LINK.findall(page.read_text()) if "://" not in link]

    assert [link for link in targets if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_is_reached_from_the_readme(page: Path) -> None:
    linked = {
        (start.parent / link).resolve()
        for start in PAGES
        for link in _LINK.findall(start.read_text())
        if "://" not in link
    }

    assert page == ROOT / "README.md" or page in linked


# --- configuration -----------------------------------------------------------


def gateway_keys() -> Iterator[tuple[str, Any]]:
    """Every key of gateway.json with its default; required ones have NOTHING."""
    moved = {
        "disconnect": "completions.disconnect",
        "idle_seconds": "http.idle_seconds",
        "ping_seconds": "http.ping_seconds",
        "access_log": "http.access_log",
        "metric_labels": "metrics.labels",
        "urls": "urls.public",
        "limits": "limits.connections",
    }
    for field in attrs.fields(GatewaySettings):
        yield moved.get(field.name, field.name), field.default
    for field in attrs.fields(Limits):
        yield f"limits.{field.name}", field.default
    for field in attrs.fields(Principal):
        yield f"principals[].{field.name}", field.default
    yield "models.ALIAS.role", attrs.NOTHING
    yield "models.ALIAS.published_at", attrs.NOTHING
    yield "urls.private", attrs.NOTHING
    yield "urls.ca_file", None


@pytest.mark.parametrize(("key", "default"), list(gateway_keys()))
def test_config_md_has_every_key_of_the_gateway(key: str, default: Any) -> None:
    row = rows_of("config.md")[key]

    if isinstance(default, int | str) and not isinstance(default, bool):
        assert row[-1].strip("`") == str(default)
    elif default is None:
        assert row[-1] == "null"


def test_config_md_has_every_capacity_with_its_default() -> None:
    rows = rows_of("config.md")
    for field in attrs.fields(Capacities):
        assert rows[f"device.{field.name}"][-1] == str(field.default)


def test_config_md_has_every_key_of_the_runtime_and_every_action() -> None:
    rows = rows_of("config.md")

    assert {"state", "socket", "grants", "metrics", "models"} <= set(rows)
    assert {"device.backend", "models.ROLE.engine"} <= set(rows)
    assert rows["store_bytes"][-1] == str(STORE_BYTES_DEFAULT)
    assert set(ACTIONS) <= set(rows)


def test_the_gateway_sample_is_complete_and_holds_the_defaults() -> None:
    sample = json.loads((ROOT / "etc/gateway.json").read_text())
    settings = parse_gateway(sample, Path("/etc/aotx")).settings
    plain = {key: sample[key] for key in ("socket", "revision", "models", "principals")}
    for key in ("pages", "tokens", "requests", "media", "media_bytes"):
        del plain["principals"][0][key]

    assert settings == parse_gateway(plain, Path("/etc/aotx")).settings
    sample = json.loads((ROOT / "etc/gateway.json").read_text())
    have = {"principals[]." + key for key in sample["principals"][0]}
    for key, value in sample.items():
        have.add(key)
        if isinstance(value, dict):
            have |= {f"{key}.{inner}" for inner in value}
    have |= {"models.ALIAS.role", "models.ALIAS.published_at"}
    assert {key for key, _ in gateway_keys()} <= have


def test_the_runtime_sample_is_complete_and_holds_the_defaults() -> None:
    sample = json.loads((ROOT / "etc/runtime.json").read_text())
    settings = load_runtime(ROOT / "etc/runtime.json")

    assert settings.capacities == Capacities()
    assert settings.store_bytes == STORE_BYTES_DEFAULT
    assert settings.socket == settings.state / "service.sock"
    assert settings.grants == settings.state / "grants"
    names = {field.name for field in attrs.fields(Capacities)}
    assert set(sample["device"]) == {"backend"} | names
    keys = {"socket", "state", "grants", "metrics", "store_bytes", "device", "models"}
    assert set(sample) == keys


@pytest.mark.parametrize("name", ["gateway.json", "runtime.json"])
def test_samples_can_be_trusted_where_they_lie(name: str) -> None:
    assert (ROOT / "etc" / name).stat().st_mode & 0o022 == 0


# --- errors, routes, limits --------------------------------------------------


#: Of control selection and events; told once they are served.
UNSERVED = "control_selection event_limit"


def test_errors_md_has_every_code_with_its_status() -> None:
    text = (DOCS / "errors.md").read_text()
    unserved = set(UNSERVED.split())
    for code in ProblemCode:
        if code in unserved:
            continue
        lines = [line for line in text.splitlines() if f"`{code}`" in line]
        assert lines, f"{code} is not on the page"
        if code not in STATUS_OF_CAUSE:
            assert any(line.startswith(f"| {PROBLEMS[code][0]} |") for line in lines)


def test_http_md_shows_every_route_that_is_served() -> None:
    text = (DOCS / "http.md").read_text()
    for route in ROUTES:
        path = route.path
        if "/shared" in path:
            continue
        stem = path.split("{")[0]
        assert f"$B{stem}" in text, path


def test_architecture_md_has_every_limit_with_its_value() -> None:
    rows = rows_of("architecture.md")
    for name, value in vars(limits).items():
        if name.isupper() and isinstance(value, int):
            assert rows[name][1] == str(value), name


#: A variable as Python, a shell or node reads it.
_READ = re.compile(
    r"(?:environ(?:\.get)?[(\[]\W*|(?<=\W)\"(?=\w+\" in os\.environ)|\$\{?|env\.)"
    r"(AOTX_\w+)"
)
#: Set by tests for processes that they start.
_BETWEEN_TESTS = "AOTX_ODD_CHILD AOTX_LINES AOTX_OBSERVED AOTX_ORDER"


def test_testing_md_has_every_variable_that_tests_read() -> None:
    """And no other."""
    read = {
        name
        for path in files("bin", "tests")
        if path.suffix != ".pyc"
        for name in _READ.findall(path.read_text(errors="replace"))
    }

    told = {name for name in rows_of("testing.md") if name.startswith("AOTX_")}
    assert told == read - set(_BETWEEN_TESTS.split())


# --- commands ----------------------------------------------------------------


_COMMAND = re.compile(r"(?:^|-- )(?:\S+/)?((?:aotx|twistd) [^&]*)", re.MULTILINE)


def commands_of(page: Path) -> Iterator[list[str]]:
    """The words of every aotx and twistd command in a page's shell blocks."""
    for block in blocks_of(page, "sh"):
        for command in _COMMAND.findall(block):
            yield shlex.split(command.splitlines()[0])


COMMANDS = [command for page in PAGES for command in commands_of(page)]


def check_aotx(words: list[str]) -> None:
    verb, *rest = words
    command = cli.run.commands[verb]
    with click.Context(command) as context:
        command.parse_args(context, list(rest))


def check_twistd(words: list[str]) -> None:
    assert words[:2] == ["-n", "--pidfile="]
    taps = {
        "aotx": tap_aotx.Options,
        "aotx-runtime": tap_runtime.Options,
        "aotx-gateway": tap_gateway.Options,
    }
    options: usage.Options = taps[words[2]]()
    options.parseOptions(words[3:])


def test_the_pages_show_commands() -> None:
    assert len(COMMANDS) >= 8


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_of_the_pages_exist_with_their_options(words: list[str]) -> None:
    check = check_aotx if words[0] == "aotx" else check_twistd

    check(words[1:])


@pytest.mark.parametrize(
    "name", ["aotx.service", "aotx-runtime.service", "aotx-gateway.service"]
)
def test_units_start_what_exists(name: str) -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(ROOT / "etc" / name)

    program, *words = shlex.split(unit["Service"]["ExecStart"])

    assert program == "/opt/aotx/bin/twistd"
    assert words[2] == name.removesuffix(".service")
    check_twistd(words)
    assert unit["Service"]["User"] == "aotx"


def test_scripts_named_in_the_readme_exist_and_can_be_run() -> None:
    for name in re.findall(r"^(bin/\w+)", (ROOT / "README.md").read_text(), re.M):
        assert (ROOT / name).stat().st_mode & 0o111, name
