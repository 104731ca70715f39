"""
Makes `llama` engines: reads the options and the model file, loads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from twisted.logger import Logger

from twisted_aotx.engines.llama.chat_template import FormatError
from twisted_aotx.engines.llama.declared_file import DeclaredFile
from twisted_aotx.engines.llama.engine import LlamaEngine
from twisted_aotx.engines.llama.format_file import OPTION as FORMAT
from twisted_aotx.engines.llama.format_file import read_format
from twisted_aotx.engines.llama.messages import Load
from twisted_aotx.engines.llama.options import LlamaOptions, read_options
from twisted_aotx.engines.llama.template_run import run_template
from twisted_aotx.engines.memory import available, check, need
from twisted_aotx.engines.model_file import ModelFile, read_model_file
from twisted_aotx.errors import ConfigError, EngineError
from twisted_aotx.interfaces import EngineFacts, MessageFormat
from twisted_aotx.wire.numbers import Modality

_log = Logger()

#: Prompt rows in one step. More of them make a step longer, and everybody waits for it;
#: fewer hardly make it shorter, since weights are read once a step.
PREFILL_ROWS: Final = 64


def make(
    role: int, options: Mapping[str, Any], slots: int, sequence_tokens: int
) -> LlamaEngine:
    """
    See `IEngineMaker.make`; `options.LlamaOptions` are its options. Blocks.

    Hashes the model file unless its digest is cached, which takes a second for each
    few hundred megabytes, and runs its chat template in a process.

    Raises:
        ConfigError: an option cannot be used, or the model file that it names.
        EngineError: there is not enough memory, or a package is missing.
    """
    # Importing it installs it.
    from twisted.internet import reactor

    chosen = read_options(options, slots)
    try:
        model = read_model_file(chosen.path)
    except OSError as error:
        raise ConfigError("path", f"{chosen.path}: {error.strerror}") from None
    except EngineError as error:
        raise ConfigError("path", f"{chosen.path} {error}") from None
    context = _context(chosen, model, sequence_tokens)
    message_format = _message_format(chosen, model)
    check(need(model, chosen.capacity, context), available(), str(chosen.path))
    try:
        file = DeclaredFile(chosen.path)
    except EngineError as error:
        raise ConfigError("path", str(error)) from None
    facts = EngineFacts(
        role=role,
        model_sha256=file.digest,
        modalities=Modality.TEXT,
        capacity=chosen.capacity,
        sequence_tokens=context,
        message_format=message_format,
    )
    load = Load(
        capacity=chosen.capacity,
        context=context,
        threads=chosen.threads,
        gpu_layers=chosen.gpu_layers,
        prefill_rows=PREFILL_ROWS,
        stop_bytes=len(message_format.assistant_tail),
        texts=message_format.assistant_tail + bytes(chosen.path),
    )
    return LlamaEngine(reactor, facts, file, load)


def _context(chosen: LlamaOptions, model: ModelFile, sequence_tokens: int) -> int:
    """
    Tokens that a lease can hold: as asked; else the device's, if the model has them.
    """
    most = model.context_tokens
    if chosen.context is None:
        # Too few are refused by whoever compares facts with the device.
        return min(sequence_tokens, most)
    if chosen.context > most:
        raise ConfigError("context", f"the model was made for at most {most} tokens")
    return chosen.context


def _message_format(chosen: LlamaOptions, model: ModelFile) -> MessageFormat:
    """From the option's file, else from the model's chat template."""
    if chosen.format_path is not None:
        return read_format(chosen.format_path)
    advice = f"write its format into a file, and name that in {FORMAT} (docs/models.md)"
    if model.chat_template is None:
        raise ConfigError("path", f"{chosen.path} has no chat template; {advice}")
    try:
        derived = run_template(model.chat_template, bos=model.bos, eos=model.eos)
    except FormatError as error:
        reason = f"the chat template of {chosen.path} cannot be used, {error}"
        raise ConfigError("path", f"{reason}; {advice}") from None
    except ImportError as error:
        raise EngineError(
            f"the llama engine needs {error.name}: pip install 'twisted-aotx[llama]'"
        ) from None
    if derived.default_system:
        _log.info(
            "{path}: its chat template has a default system message of {length} "
            "characters, which is left out: a prompt holds what was sent [D9]",
            path=str(chosen.path),
            length=len(derived.default_system),
        )
    return derived.message_format
