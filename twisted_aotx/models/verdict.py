"""
Whether a model's chat template gives a message format (docs/models.md).
"""

from __future__ import annotations

import attrs

from twisted_aotx.engines.llama.chat_template import FormatError
from twisted_aotx.engines.llama.template_run import run_template
from twisted_aotx.engines.model_file import ModelFile

_WAY_OUT = "name a message format file with the option format (docs/models.md)"
#: Characters of a default system message that are shown.
_SHOWN = 60


@attrs.frozen
class Verdict:
    """
    What became of a template.
    """

    #: None if it could not be tried.
    is_usable: bool | None
    #: One line for people.
    text: str


def judge_template(model: ModelFile) -> Verdict:
    """
    Try the template of *model* as the llama engine will at its start.
    """
    if model.chat_template is None:
        return Verdict(False, f"none; {_WAY_OUT}")
    try:
        derived = run_template(model.chat_template, bos=model.bos, eos=model.eos)
    except FormatError as error:
        return Verdict(False, f"cannot be used: {error}; {_WAY_OUT}")
    except ImportError:
        return Verdict(None, "not tried: pip install 'twisted-aotx[llama]'")
    text = "usable"
    if derived.default_system:
        shown = ascii(derived.default_system)
        if len(shown) > _SHOWN:
            shown = shown[:_SHOWN] + "…"
        text = f"usable, without its default system message {shown}"
    return Verdict(True, text)
