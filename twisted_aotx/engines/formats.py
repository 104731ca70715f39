"""
The two message formats of `device.md` §5; an engine may declare any other.
"""

from __future__ import annotations

from typing import Final

from twisted_aotx.interfaces import MessageFormat


def _llama3_head(role: bytes) -> bytes:
    return b"<|start_header_id|>" + role + b"<|end_header_id|>\n\n"


_BEGIN_OF_TEXT: Final = b"<|begin_of_text|>"

#: With the empty think block that asks for an answer without visible thinking.
CHATML: Final = MessageFormat(
    system_head=b"<|im_start|>system\n",
    system_tail=b"<|im_end|>\n",
    user_head=b"<|im_start|>user\n",
    user_tail=b"<|im_end|>\n",
    assistant_head=b"<|im_start|>assistant\n",
    assistant_tail=b"<|im_end|>\n",
    generation_head=b"<|im_start|>assistant\n",
    think_open=b"<think>\n\n",
    think_close=b"</think>\n\n",
)

#: Its 17-byte prefix stands once, also without a system message.
LLAMA3: Final = MessageFormat(
    system_head=_BEGIN_OF_TEXT + _llama3_head(b"system"),
    system_tail=b"<|eot_id|>",
    user_head=_llama3_head(b"user"),
    user_tail=b"<|eot_id|>",
    assistant_head=_llama3_head(b"assistant"),
    assistant_tail=b"<|eot_id|>",
    generation_head=_llama3_head(b"assistant"),
    prefix_bytes=len(_BEGIN_OF_TEXT),
)
