"""
Chat templates that would run for ever, or take all memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.llama.test_message_format import CHATML_TEMPLATE, DEFAULT_TEMPLATE
from twisted_aotx.engines.llama import template_run
from twisted_aotx.engines.llama.chat_template import FormatError
from twisted_aotx.engines.llama.message_format import derive_format
from twisted_aotx.engines.llama.template_run import run_template

#: Ten thousand million turns.
LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
#: No loop of jinja2's at all: a filter that fills a list of lists.
FILTER = "{{ [1] | slice(10 ** 9) | list | length }}"
#: A macro that calls itself twice, fifty deep.
MACRO = (
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
    "{{ f(50) }}"
)


@pytest.mark.parametrize("template", [CHATML_TEMPLATE, DEFAULT_TEMPLATE])
def test_a_format_is_the_same_from_the_other_process(template: str) -> None:
    marks = {"bos": "<s>", "eos": "</s>"}

    assert run_template(template, **marks) == derive_format(template, **marks)


def test_a_refusal_is_the_same_from_the_other_process() -> None:
    with pytest.raises(FormatError) as caught:
        run_template("{{ raise_exception('not today') }}")

    assert str(caught.value) == "it refuses a conversation of system, user: not today"


@pytest.mark.parametrize("template", [LOOPS, FILTER, MACRO])
def test_a_template_without_an_end_is_ended(template: str) -> None:
    with pytest.raises(FormatError, match=r"^it takes more than 0\.01 s to run$"):
        run_template(template + CHATML_TEMPLATE, seconds=0.01)


def test_a_template_gets_no_more_memory_than_its_share() -> None:
    with pytest.raises(FormatError, match="MemoryError"):
        run_template(f"{{{{ 'x' * {template_run.TEMPLATE_MEMORY_BYTES} }}}}")


def test_a_process_that_dies_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dies.py").write_text("import os\nos.abort()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(template_run, "PROGRAM", "dies")

    with pytest.raises(FormatError, match="the process that runs it ended with -6"):
        run_template("not remembered")


def test_a_process_that_does_not_get_on_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(template_run, "WAIT_SECONDS", 0)

    with pytest.raises(FormatError, match="did not come to an end in 0 s"):
        run_template("not remembered either")
