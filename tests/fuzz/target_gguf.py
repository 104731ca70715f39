"""
GGUF files, and the message formats that chat templates in them make: a file is read or
refused on one line; a format writes conversations as its template does, and a device
renders prompts so.
"""

from __future__ import annotations

import io
import random
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from tests.device.capacities import SMALL
from tests.device.making import message, payload_of, played_engine
from tests.engines.gguf_files import CHATML_TEMPLATE, MODEL, Array, Typed, gguf, model
from tests.engines.llama import test_message_format as templates
from tests.fuzz.devices import GRANTS, make_device
from tests.fuzz.harness import Features, Target, demand
from tests.fuzz.mutations import changed, number
from tests.fuzz.packets import submit
from twisted_aotx.engines.gguf import GGUF, ModelFileError, read_gguf
from twisted_aotx.engines.llama.chat_template import FormatError, chat_renderer
from twisted_aotx.engines.llama.message_format import Derived, derive_format, write
from twisted_aotx.engines.memory import need
from twisted_aotx.engines.model_file import ModelFile, describe
from twisted_aotx.interfaces import MessageFormat
from twisted_aotx.orders import OpenOrder

_TEMPLATES: Final = (
    CHATML_TEMPLATE,
    templates.LLAMA3_TEMPLATE,
    templates.DEFAULT_TEMPLATE,
    templates.PREAMBLE_TEMPLATE,
    templates.LINES_TEMPLATE,
    templates.INST_TEMPLATE,
)
_PIECES: Final = sorted(
    {piece for each in _TEMPLATES for piece in re.split(r"(\{[{%].*?[%}]\})|\b", each)}
    - {None, ""}
)
#: What lets a template write for ever or fill the memory. Such templates run in a
#: process with limits (`template_run`); here they would run in this one.
_ENDLESS: Final = re.compile(r"\*|range|\d{3}|center|indent|just|format|replicate|join")
_ROLES: Final = ("system", "user", "assistant")
_TEXTS: Final = ("hi", "a\n b", "<|im_end|>", "é", "x</s>y", "{{ m }}", "[INST]")
#: Value types, and some that are none.
_KINDS: Final = (*range(8), 10, 11, 12)


class GGUFTarget(Target):
    """
    Args:
        read: reads the head of a file.
        derive: derives a message format.
    """

    name: ClassVar[str] = "gguf"
    count: ClassVar[int] = 500

    def __init__(
        self,
        read: Callable[[io.BytesIO, int], GGUF] = read_gguf,
        derive: Callable[..., Derived] = derive_format,
    ) -> None:
        self._read = read
        self._derive = derive

    def seeds(self) -> Sequence[bytes]:
        files = [model(tokenizer__chat_template=each) for each in _TEMPLATES]
        arrays = model(numbers=Array(5, [1, -2]), words=["a", "b"], f=Typed(12, 0.5))
        return [*files, arrays, gguf({}), gguf({"a": 1}, version=2)]

    def draw(self, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
        drawn = rng.random()
        if drawn < 0.35:
            return model(tokenizer__chat_template=_template(rng))
        if drawn < 0.6:
            return _values(rng)
        words = [b"llama", b"general.", *(key.encode() for key in MODEL)]
        return changed(rng, rng.choice(corpus), corpus, words)

    def judge(self, data: bytes) -> Features:
        try:
            found = describe(self._read(io.BytesIO(data), len(data)), len(data))
        except ModelFileError as error:
            said = str(error)
            demand(said.isprintable() and len(said) < 70_000, f"said {said[:200]!r}")
            return frozenset({re.sub(r"[\d,]+|['\"].*['\"]", "#", said)[:60]})
        _check_model(found, data)
        if found.chat_template is None:
            return frozenset({"no template"})
        if _ENDLESS.search(found.chat_template):
            return frozenset({"left to a process of its own"})
        return frozenset({self._template(found)})

    def _template(self, found: ModelFile) -> str:
        assert found.chat_template is not None
        texts = {"bos": found.bos, "eos": found.eos}
        try:
            made = self._derive(found.chat_template, **texts).message_format
        except FormatError as error:
            return f"no format: {str(error)[:40]}"
        rng = random.Random(zlib.crc32(found.chat_template.encode()))
        said = [(role, rng.choice(_TEXTS)) for role in (*_ROLES, "user")]
        written = write(made, said)
        theirs = chat_renderer(found.chat_template, found.bos, found.eos)(said, True)
        demand(written == theirs, f"{written!r}, and the template writes {theirs!r}")
        if len(written.encode()) <= SMALL.prompt_bytes and "[image:" not in written:
            rendered = _rendered(made, said)
            demand(rendered == written.encode(), f"the device renders {rendered!r}")
        return f"format {made.prefix_bytes > 0} {len(made.think_open) > 0}"


def _check_model(found: ModelFile, data: bytes) -> None:
    demand(found.size == len(data), "another size")
    demand(found.context_tokens >= 1 and found.vocabulary >= 1, "a model of nothing")
    demand(found.kv_bytes_per_token >= 0, "a KV cache below zero")
    memory = need(found, 4, found.context_tokens)
    demand(memory.total >= found.size and str(memory).isprintable(), f"needs {memory}")
    for text in (found.architecture, found.name, found.quantisation):
        text.encode()


def _rendered(made: MessageFormat, said: Sequence[tuple[str, str]]) -> bytes:
    """What a device makes of a conversation in the format."""
    tokens = SMALL.sequence_tokens
    engine = played_engine(
        4, capacity=2, sequence_tokens=tokens, message_format=made, modalities=1
    )
    device = make_device(engines=(engine,))
    try:
        device.publish(0, GRANTS)
        device.tick(1)
        payload = payload_of(
            *(message(_ROLES.index(role), text.encode()) for role, text in said)
        )
        device.publish(1, submit(payload, role=4))
        device.tick(2)
        (order,) = device.orders()
        assert isinstance(order, OpenOrder)
        return order.rendered
    finally:
        device.close()
        device.free()


def _template(rng: random.Random) -> str:
    """One of the known templates with pieces of others in it."""
    pieces = [p for p in re.split(r"(\{[{%].*?[%}]\})|\b", rng.choice(_TEMPLATES)) if p]
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5))):
        at = rng.randrange(len(pieces) + 1)
        drawn = rng.random()
        if drawn < 0.4 or at == len(pieces):
            pieces.insert(at, rng.choice(_PIECES))
        elif drawn < 0.7:
            pieces[at] = rng.choice(_PIECES)
        else:
            del pieces[at]
    return "".join(pieces)


def _values(rng: random.Random) -> bytes:
    """A file with other values, or with values of other types."""
    values: dict[str, Any] = dict(MODEL)
    for _ in range(rng.choice((1, 1, 2, 3))):
        key = rng.choice([*values, "general.alignment", "general.type", "split.count"])
        drawn = rng.random()
        if drawn < 0.2:
            values.pop(key, None)
        elif drawn < 0.6:
            values[key] = _scalar(rng)
        elif drawn < 0.8:
            kind = rng.choice((0, 4, 5, 7))
            items = [rng.randrange(2) for _ in range(rng.choice((0, 1, 2, 3, 5000)))]
            values[key] = Array(kind, items)
        else:
            values[key] = rng.choice(("", "llama", "\0", "x" * 300, "é\n", "model"))
    size = number(rng, rng.choice((1, 4, 8)))
    kind = rng.choice((0, 1, 2, 3, 8, 999))
    tensors = [("t", (rng.choice((0, 1, 64, size)),) * rng.randint(0, 4), kind, size)]
    return gguf(values, tensors[: rng.randrange(2)], data=bytes(64))


def _scalar(rng: random.Random) -> Typed:
    kind = rng.choice(_KINDS)
    if kind in (6, 12):
        return Typed(kind, rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e30)))
    if kind == 7:
        return Typed(kind, rng.random() < 0.5)
    width = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 10: 8, 11: 8}[kind]
    value = number(rng, width)
    signed = kind in (1, 3, 5, 11)
    return Typed(kind, value - (1 << 8 * width >> 1) if signed else value)
