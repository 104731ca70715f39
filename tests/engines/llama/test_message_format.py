"""
Message formats cut out of chat templates (`device.md` §5, D9).
"""

from __future__ import annotations

import re

import attrs
import pytest

from twisted_aotx.engines.formats import CHATML, LLAMA3
from twisted_aotx.engines.llama.chat_template import (
    RENDERED_LENGTH_MAX,
    TEMPLATE_LENGTH_MAX,
    FormatError,
    chat_renderer,
)
from twisted_aotx.engines.llama.message_format import derive_format, write
from twisted_aotx.interfaces import MessageFormat
from twisted_aotx.limits import SPAN_BYTES_MAX

CHATML_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PLAIN_CHATML = attrs.evolve(CHATML, think_open=b"", think_close=b"")

#: Trims, and writes the begin token before the first message, whatever that is.
LLAMA3_TEMPLATE = (
    "{% for message in messages %}"
    "{% set text = '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' "
    "+ message.content | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set text = bos_token + text %}{% endif %}"
    "{{ text }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)

#: A default system message when there is none.
DEFAULT_TEMPLATE = (
    "{%- if messages[0].role == 'system' %}"
    "{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}"
    "{%- else %}{{- '<|im_start|>system\nYou are useful.<|im_end|>\n' }}{%- endif %}"
    "{%- for message in messages %}{%- if message.role != 'system' or not loop.first %}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)

#: A preamble in the first system message, which a second one would not have.
PREAMBLE_TEMPLATE = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}"
    "{% set said = messages[0].content %}{% set messages = messages[1:] %}"
    "{% else %}{% set said = '' %}{% endif %}"
    "{{ '<|h|>system<|/h|>\n\nToday: ' }}"
    "{% if strftime_now is defined %}{{ strftime_now('%d') }}{% else %}once{% endif %}"
    "{{ '\n\n' + said + '<|e|>' }}"
    "{% for m in messages %}{{ '<|h|>' + m.role + '<|/h|>\n\n' + m.content + '<|e|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|h|>assistant<|/h|>\n\n' }}{% endif %}"
)

#: Lines between blocks, an end token from outside, and a head without a system message.
LINES_TEMPLATE = """\
{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{% generation %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endgeneration %}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% if not loop.last %}{% continue %}{% endif %}
{% endfor %}"""

#: The system message inside the user's first.
INST_TEMPLATE = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}"
    "{% set system = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}"
    "{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}"
    "{% for message in messages %}{% if message.role == 'user' %}"
    "{{ '[INST] ' + (system if loop.first else '') + message.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + message.content + eos_token }}{% endif %}{% endfor %}"
)

NO_SYSTEM_TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{{ '<' + m.role + '>' + m.content }}{% endfor %}"
)


def test_chatml() -> None:
    derived = derive_format(CHATML_TEMPLATE, bos="<|im_start|>", eos="<|im_end|>")

    assert derived.message_format == PLAIN_CHATML
    assert derived.default_system == ""


def test_llama3() -> None:
    """The begin token stands once at the start of every prompt."""
    derived = derive_format(LLAMA3_TEMPLATE, bos="<|begin_of_text|>", eos="<|eot_id|>")

    assert derived.message_format == LLAMA3
    assert derived.default_system == ""


def test_a_default_system_message_is_no_part_of_a_format() -> None:
    """It is told, for the log, and never written [D9]."""
    derived = derive_format(DEFAULT_TEMPLATE, bos="<|im_start|>", eos="<|im_end|>")

    assert derived.message_format == PLAIN_CHATML
    assert derived.default_system == "<|im_start|>system\nYou are useful.<|im_end|>\n"
    assert "useful" not in write(derived.message_format, [("user", "hi")])


def test_a_preamble_belongs_to_the_system_head() -> None:
    """And a date in it does not move while the runtime runs."""
    derived = derive_format(PREAMBLE_TEMPLATE, bos="<s>", eos="<|e|>")

    head = derived.message_format.system_head
    assert head == b"<s><|h|>system<|/h|>\n\nToday: once\n\n"
    assert derived.message_format.prefix_bytes == len("<s>")
    assert derived.default_system == "<|h|>system<|/h|>\n\nToday: once\n\n<|e|>"


def test_lines_between_blocks_and_tags_of_training() -> None:
    """As in the environment that templates are written for."""
    derived = derive_format(LINES_TEMPLATE, bos="<s>", eos="</s>").message_format

    assert derived.system_head == b"<|system|>\n"
    assert derived.system_tail == derived.user_tail == b"</s>\n"
    assert derived.assistant_head == b"<|assistant|>\n"
    assert derived.generation_head == b"<|assistant|>\n"
    assert derived.prefix_bytes == 0


def test_what_is_written_equals_the_template() -> None:
    derived = derive_format(LLAMA3_TEMPLATE, bos="<|begin_of_text|>", eos="<|eot_id|>")
    messages = [("system", "rule"), ("user", "x"), ("assistant", "y"), ("user", "z")]

    expected = chat_renderer(LLAMA3_TEMPLATE, "<|begin_of_text|>", "")(messages, True)

    assert write(derived.message_format, messages) == expected


def test_the_order_and_spans_of_the_contract() -> None:
    """`device.md` §5: with prefix P, system S s, and so on."""
    spans = MessageFormat(
        system_head=b"PS",
        system_tail=b"s",
        user_head=b"U",
        user_tail=b"u",
        assistant_head=b"A",
        assistant_tail=b"a",
        generation_head=b"G",
        think_open=b"(",
        think_close=b")",
        prefix_bytes=1,
    )
    messages = [
        ("system", "rule"),
        ("user", "x"),
        ("assistant", "answer"),
        ("user", "question"),
    ]

    assert write(spans, messages) == "PSrulesUxuAansweraUquestionuG()"
    assert write(spans, messages[1:2]) == "PUxuG()"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (INST_TEMPLATE, "first user message unlike the others"),
        (NO_SYSTEM_TEMPLATE, "system, user: System role not supported"),
        ("{% for m in messages %}{{ m.content }}", "cannot be read: TemplateSyntaxErr"),
        ("{{ messages[0].content.__class__.__mro__ }}", "SecurityError"),
        ("{{ messages[9].content }}", "UndefinedError"),
        ("{{ strftime_now('%d') }}", "'strftime_now' is undefined"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("nothing", "does not write a system message once"),
        (
            CHATML_TEMPLATE.replace("message['content']", "message['content'] * 2"),
            "does not write a system message once",
        ),
        (
            CHATML_TEMPLATE.replace("message['content']", "message['content'] | upper"),
            "does not write a system message once",
        ),
        (
            # Ends every conversation with what asks for an answer.
            CHATML_TEMPLATE.replace("{% if add_generation_prompt %}", "{% if true %}"),
            "what it writes behind an assistant message depends on what follows",
        ),
        (
            # Counts the turns: nobody sees it in short conversations.
            CHATML_TEMPLATE.replace(
                "{% for message in messages %}",
                "{% for message in messages %}{% if loop.index > 4 %}!{% endif %}",
            ),
            r"writes a conversation of 6 messages otherwise than spans do: '!<\|im",
        ),
        (
            # Takes markup out of what was said.
            CHATML_TEMPLATE.replace("message['content']", "message['content']|escape"),
            "otherwise than spans do",
        ),
        (
            CHATML_TEMPLATE.replace("<|im_start|>", "x" * (SPAN_BYTES_MAX + 1)),
            f"its system_head has {SPAN_BYTES_MAX + 8} bytes, more than",
        ),
    ],
)
def test_what_is_not_made_of_spans_is_refused(template: str, reason: str) -> None:
    with pytest.raises(FormatError) as caught:
        derive_format(template, bos="<s>", eos="</s>")
    assert re.search(reason, str(caught.value)), caught.value


def test_a_span_of_the_most_bytes_is_taken() -> None:
    fill = "x" * (SPAN_BYTES_MAX - len("assistant\n"))
    template = CHATML_TEMPLATE.replace("<|im_start|>", fill)

    assert len(derive_format(template).message_format.assistant_head) == SPAN_BYTES_MAX


def test_a_template_of_the_most_characters_is_read_and_no_longer_one() -> None:
    fill = "{#" + "x" * (TEMPLATE_LENGTH_MAX - len(CHATML_TEMPLATE) - 4) + "#}"

    assert derive_format(CHATML_TEMPLATE + fill).message_format == PLAIN_CHATML
    with pytest.raises(FormatError, match="more than"):
        derive_format(CHATML_TEMPLATE + fill + " ")


def test_what_a_template_writes_is_bounded() -> None:
    """A loop that fills the memory ends early."""
    loop = "{% for each in range(99999) %}"
    ends = "{% endfor %}"

    with pytest.raises(FormatError, match="more than a megabyte"):
        chat_renderer(loop + loop + "x" + ends + ends, "", "")([], False)
    exact = chat_renderer(f"{{{{ 'x' * {RENDERED_LENGTH_MAX} }}}}", "", "")
    assert len(exact([], False)) == RENDERED_LENGTH_MAX
    with pytest.raises(FormatError, match="more than a megabyte"):
        chat_renderer(f"{{{{ 'x' * {RENDERED_LENGTH_MAX + 1} }}}}", "", "")([], False)


def test_json_is_written_as_it_is() -> None:
    """Without the escapes for HTML that jinja2 would make."""
    render = chat_renderer("{{ messages[0].content | tojson }}", "", "")

    assert render([("user", "<ä>")], False) == '"<ä>"'
