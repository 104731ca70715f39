"""
The message format of a model, cut out of its own chat template.

A chat template is a program (jinja2) that writes a conversation; the device writes one
from nine fixed spans (`device.md` §5). So the template is run on probe conversations,
the spans are cut out around the probes' texts, and then longer conversations must come
out the same both ways. They all begin with a system message: what a template writes by
itself when there is none, a default system message, is never part of a format [D9].

A template that is not made of spans, such as one that puts the system message into the
user's first, cannot be used; `format_file` is the way out.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from twisted_aotx.engines.llama.chat_template import FormatError, chat_renderer
from twisted_aotx.interfaces import MessageFormat
from twisted_aotx.limits import SPAN_BYTES_MAX

#: Roles of the conversations that a format must write as its template does.
_CHECKED: Final = ("su", "suau", "suauau", "suauauauau")
_ROLES: Final = {"s": "system", "u": "user", "a": "assistant"}
#: Texts of those conversations: what templates like to trim, split or escape. Spaces at
#: the ends are left out: many templates trim them, and a format never does.
_TEXTS: Final = (
    "Answer in one word.",
    "First line\n\n  second, indented\n- third",
    "{{ messages }} {% raw %} </s> <b>&amp;</b> \\n 'quoted' \"twice\"",
    "Grüße, 日本語, 🦊",
    "[INST] role: user",
)


@attrs.frozen
class Derived:
    """
    What a template says.
    """

    message_format: MessageFormat
    #: What the template writes of itself in front of a conversation without a system
    #: message; the device does not [D9]. Empty if it writes nothing.
    default_system: str = ""


_Messages = Sequence[tuple[str, str]]
#: (messages, whether an answer is asked for) → text.
_Render = Callable[[_Messages, bool], str]


def derive_format(template: str, *, bos: str = "", eos: str = "") -> Derived:
    """
    The message format of a chat template.

    Args:
        template: `tokenizer.chat_template`.
        bos, eos: Texts of the begin and end token, which templates may write.

    Raises:
        FormatError: it cannot be run, or is not made of spans.
        ImportError: jinja2 is not installed.
    """
    probe = _Probe(chat_renderer(template, bos, eos), template)
    head, after_system, user_tail = probe.gaps("su")
    asked = probe.gaps("su", asks=True)[-1]
    assistant_tail = probe.gaps("sua")[-1]
    _, _, to_assistant, to_user, _ = probe.gaps("suau")
    user_head = _behind(to_user, assistant_tail, "an assistant message")
    begin = bos if "bos_token" in template else ""
    prefix, default_system = _beginning(probe, head, user_head, user_tail, begin)
    message_format = MessageFormat(
        system_head=head.encode(),
        system_tail=_before(after_system, user_head).encode(),
        user_head=user_head.encode(),
        user_tail=user_tail.encode(),
        assistant_head=_behind(to_assistant, user_tail, "a user message").encode(),
        assistant_tail=assistant_tail.encode(),
        generation_head=_behind(asked, user_tail, "a user message").encode(),
        prefix_bytes=len(prefix.encode()),
    )
    _check_sizes(message_format)
    _check_rendering(message_format, probe.render)
    return Derived(message_format, default_system)


def write(message_format: MessageFormat, messages: _Messages) -> str:
    """(role, text) of a conversation, as the device writes it (`device.md` §5)."""
    spans, prefix = message_format, message_format.prefix_bytes
    around = {
        "system": (spans.system_head[prefix:], spans.system_tail),
        "user": (spans.user_head, spans.user_tail),
        "assistant": (spans.assistant_head, spans.assistant_tail),
    }
    text = spans.system_head[:prefix]
    for role, said in messages:
        head, tail = around[role]
        text += head + said.encode() + tail
    text += spans.generation_head + spans.think_open + spans.think_close
    return text.decode()


@attrs.frozen
class _Probe:
    """
    Runs a template on conversations of marked texts.
    """

    render: _Render
    template: str

    def gaps(self, roles: str, *, asks: bool = False) -> list[str]:
        """What it writes before, between and behind the texts of a conversation."""
        salt = hashlib.sha256(self.template.encode()).hexdigest()[:8]
        names = [_ROLES[role] for role in roles]
        texts = [f"zq{place}x{salt}" for place in range(len(roles))]
        rest = self.render(list(zip(names, texts, strict=True)), asks)
        found = []
        for name, text in zip(names, texts, strict=True):
            before, mark, rest = rest.partition(text)
            if not mark or text in rest:
                conversation = ", ".join(names)
                raise FormatError(
                    f"it does not write a {name} message once, and in its place, in a "
                    f"conversation of {conversation}"
                )
            found.append(before)
        return [*found, rest]


def _behind(text: str, tail: str, what: str) -> str:
    """*text* without the *tail* of the message before."""
    if not text.startswith(tail):
        raise FormatError(f"what it writes behind {what} depends on what follows")
    return text[len(tail) :]


def _before(text: str, head: str) -> str:
    """*text* without the *head* of a user message."""
    if not text.endswith(head):
        raise FormatError("it writes the first user message unlike the others")
    return text[: len(text) - len(head)]


def _beginning(
    probe: _Probe, head: str, user_head: str, user_tail: str, begin: str
) -> tuple[str, str]:
    """
    What stands once at the start of every prompt, and the default system message.

    The first says what a second system message lacks, if a template takes one; else
    what is left of the head without any; else *begin*, the begin token.
    """
    lead = None
    with contextlib.suppress(FormatError):
        first = probe.gaps("u")[0]
        lead = _before(first, user_head)
    prefix = None
    with contextlib.suppress(FormatError):
        second = _behind(probe.gaps("susu")[2], user_tail, "")
        if second and head.endswith(second):
            prefix = head[: len(head) - len(second)]
    if prefix is None and lead is not None and head.startswith(lead) and lead != head:
        prefix = lead
    if prefix is None:
        prefix = begin if head.startswith(begin) else ""
    if lead is None or lead == prefix:
        return prefix, ""
    return prefix, lead.removeprefix(prefix)


def _check_sizes(message_format: MessageFormat) -> None:
    for field in attrs.fields(MessageFormat):
        value = getattr(message_format, field.name)
        if isinstance(value, bytes) and len(value) > SPAN_BYTES_MAX:
            raise FormatError(
                f"its {field.name} has {len(value)} bytes, more than {SPAN_BYTES_MAX}"
            )


def _check_rendering(message_format: MessageFormat, render: _Render) -> None:
    """That conversations come out the same from spans and from the template."""
    for roles in _CHECKED:
        for turn in range(len(_TEXTS)):
            messages = [
                (_ROLES[role], _TEXTS[(place + turn) % len(_TEXTS)])
                for place, role in enumerate(roles)
            ]
            ours, theirs = write(message_format, messages), render(messages, True)
            if ours != theirs:
                pairs = itertools.zip_longest(ours, theirs)
                at = next(place for place, (a, b) in enumerate(pairs) if a != b)
                raise FormatError(
                    f"it writes a conversation of {len(messages)} messages otherwise "
                    f"than spans do: {theirs[at:][:40]!a}, not {ours[at:][:40]!a}"
                )
