"""
Runs a model's chat template the way its makers do, in a sandbox.

Templates are jinja2 programs out of a downloaded file. The sandbox keeps them from
Python; sizes bound what they write. `strftime_now` is left out on purpose: a format is
fixed while the runtime runs, and templates that ask whether it exists then write a date
of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

#: Characters of a chat template; the longest known have some 30,000.
TEMPLATE_LENGTH_MAX: Final = 1 << 20
#: Characters that a template may write for one conversation: a megabyte.
RENDERED_LENGTH_MAX: Final = 1 << 20
#: Characters of a template's own complaint that are passed on.
TOLD_LENGTH: Final = 200


class FormatError(Exception):
    """
    A template cannot be run or is not made of spans; the text says why.
    """


class _RefusalError(Exception):
    """
    The template called `raise_exception`.
    """


def chat_renderer(
    template: str, bos: str, eos: str
) -> Callable[[Sequence[tuple[str, str]], bool], str]:
    """
    A function of (role, text) of messages, and whether an answer is asked for.

    It raises FormatError as this function does.

    Raises:
        FormatError: the template cannot be read.
        ImportError: jinja2 is not installed.
    """
    if len(template) > TEMPLATE_LENGTH_MAX:
        raise FormatError(f"it has more than {TEMPLATE_LENGTH_MAX} characters")
    try:
        program = _environment().from_string(template)
    except ImportError:
        raise
    except Exception as error:
        raise FormatError(f"it cannot be read: {_told(error)}") from None

    def render(messages: Sequence[tuple[str, str]], asks: bool) -> str:
        variables = {
            "messages": [{"role": role, "content": text} for role, text in messages],
            "add_generation_prompt": asks,
            "bos_token": bos,
            "eos_token": eos,
            "tools": None,
            "documents": None,
        }
        pieces, length = [], 0
        try:
            for piece in program.generate(variables):
                pieces.append(piece)
                length += len(piece)
                if length > RENDERED_LENGTH_MAX:
                    break
        except Exception as error:
            roles = ", ".join(role for role, _ in messages)
            raise FormatError(
                f"it refuses a conversation of {roles}: {_told(error)}"
            ) from None
        if length > RENDERED_LENGTH_MAX:
            raise FormatError("it writes more than a megabyte for a few messages")
        return "".join(pieces)

    return render


def _environment() -> ImmutableSandboxedEnvironment:
    """What chat templates are written for."""
    # Only this engine needs it.
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """
        `{% generation %}` marks an answer for training; here it is its contents.
        """

        tags = {"generation"}  # noqa: RUF012 (jinja2 wants a set)

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body).set_lineno(line)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", Generation],
    )
    environment.globals["raise_exception"] = _refuse
    environment.filters["tojson"] = _tojson
    return environment


def _refuse(message: object) -> NoReturn:
    raise _RefusalError(str(message))


def _tojson(value: Any, indent: int | None = None) -> str:
    """Without jinja2's escapes for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _told(error: Exception) -> str:
    own = isinstance(error, _RefusalError)
    return (str(error) if own else f"{type(error).__name__}: {error}")[:TOLD_LENGTH]
