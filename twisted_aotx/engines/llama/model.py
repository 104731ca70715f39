"""
A loaded GGUF model and its vocabulary: prompts to tokens, tokens to bytes.

Rules for prompts [D9]:
1. Template spans are tokenised with control tokens, caller spans without.
2. What a caller writes never becomes a token that the message format uses as a mark,
   nor one that begins or ends a sequence, even if the model counts it as a word: such a
   text is cut behind its first byte.
3. A begin token that the vocabulary asks for and the format does not write is added.
4. Vocabularies that put a space before text (SentencePiece) do so at the start and
   behind a mark only, as if the prompt were tokenised in one piece.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable
from typing import Final

from twisted_aotx.engines.llama.binding import Library

#: Class of a span whose bytes are a caller's (`device.md` §5).
CALLER: Final = 1
#: `LLAMA_VOCAB_TYPE_SPM`.
_SENTENCEPIECE: Final = 1
#: `LLAMA_TOKEN_ATTR_CONTROL` and `_USER_DEFINED`.
_MARK: Final = 8 | 16
#: Spans of a format in all their neighbourhoods, a media link's included.
TEMPLATES_KEPT: Final = 64
#: Bytes of most tokens; longer ones are asked for twice.
_PIECE_BYTES: Final = 128


class ModelError(Exception):
    """
    The model cannot be loaded or cannot serve.
    """


class Model:
    """
    A model in memory. Not changed after loading: any thread may tokenise.

    Args:
        library: The checked library.
        path: The GGUF file.
        gpu_layers: Layers on a GPU, −1 for all; without effect in a CPU build.
        stop: What the message format puts behind an answer. If it begins with a mark,
            that token ends an answer, beside those that the vocabulary says.

    Raises:
        ModelError: the file cannot be loaded, or is no model that generates text.
    """

    def __init__(
        self, library: Library, path: bytes, *, gpu_layers: int = -1, stop: bytes = b""
    ) -> None:
        self._library = library
        params = library.model_default_params()
        params.n_gpu_layers = gpu_layers
        library.complaints.clear()
        self.handle = library.model_load_from_file(path, params)
        if not self.handle:
            raise ModelError(
                f"llama.cpp cannot load it: {library.complaint or 'no reason given'}"
            )
        if library.model_has_encoder(self.handle) or library.model_is_diffusion(
            self.handle
        ):
            raise ModelError("it does not write token by token, so it cannot be served")
        self._vocab = library.model_get_vocab(self.handle)
        self._spaced = library.vocab_type(self._vocab) == _SENTENCEPIECE
        self._begin = library.vocab_bos(self._vocab)
        self._adds_begin = library.vocab_get_add_bos(self._vocab)
        count = library.vocab_n_tokens(self._vocab)
        self._ends = {
            token for token in range(count) if library.vocab_is_eog(self._vocab, token)
        }
        first = self._tokenize(stop, marks=True)[:1]
        self._ends.update(filter(self._is_mark, first))
        self._pieces: dict[int, bytes] = {}
        #: A format's spans come again with every prompt.
        self._template = functools.lru_cache(TEMPLATES_KEPT)(self._template_tokens)

    @property
    def can_forget(self) -> bool:
        """Whether a sequence's last rows can be taken back (no recurrent state)."""
        recurrent = self._library.model_is_recurrent(self.handle)
        return not recurrent and not self._library.model_is_hybrid(self.handle)

    def prompt(self, spans: Iterable[tuple[int, bytes]]) -> list[int]:
        """
        The tokens of a prompt from (class, bytes) of its spans, by the rules above.
        """
        texts = list(spans)
        forbidden = set(filter(self._is_mark, (self._begin, *self._ends)))
        for span_class, data in texts:
            if span_class != CALLER:
                forbidden.update(filter(self._is_mark, self._template(data, False)))
        tokens: list[int] = []
        for span_class, data in texts:
            bare = bool(tokens) and not self._is_mark(tokens[-1])
            if span_class == CALLER:
                tokens += self._caller(data, forbidden, bare)
            else:
                tokens += self._template(data, bare)
        if self._adds_begin and tokens[:1] != [self._begin]:
            tokens.insert(0, self._begin)
        return tokens

    def piece(self, token: int) -> bytes:
        """The exact bytes of *token*; none for a control token."""
        found = self._pieces.get(token)
        if found is None:
            found = self._pieces[token] = self._piece(token, marks=False)
        return found

    def is_end(self, token: int) -> bool:
        """Whether *token* ends an answer."""
        return token in self._ends

    def close(self) -> None:
        """Free it; nothing may use it any more."""
        self._library.model_free(self.handle)

    def _is_mark(self, token: int) -> bool:
        """Whether *token* is a control token or its like; −1 is none at all."""
        attributes = (
            0 if token < 0 else self._library.vocab_get_attr(self._vocab, token)
        )
        return bool(attributes & _MARK)

    def _template_tokens(self, data: bytes, bare: bool) -> tuple[int, ...]:
        return tuple(self._tokenize(data, marks=True, bare=bare))

    def _tokenize(self, data: bytes, marks: bool, bare: bool = False) -> list[int]:
        """Tokens of *data*; *bare*: without the space that a vocabulary may add."""
        if bare and self._spaced:
            # A line break is a token of its own, so the space goes before that one.
            lead = self._raw(b"\n", marks)
            tokens = self._raw(b"\n" + data, marks)
            if tokens[: len(lead)] == lead:
                return tokens[len(lead) :]
        return self._raw(data, marks)

    def _raw(self, data: bytes, marks: bool) -> list[int]:
        if not data:
            return []
        # A token has a byte or more, but for an added space and for what is no UTF-8.
        room = len(data) + 2
        while True:
            buffer = (ctypes.c_int32 * room)()
            count = self._library.tokenize(
                self._vocab, data, len(data), buffer, room, False, marks
            )
            if count >= 0:
                return buffer[:count]
            room = -count

    def _caller(self, data: bytes, forbidden: set[int], bare: bool) -> list[int]:
        """Tokens of a caller's *data*, none of which is in *forbidden*."""
        tokens = self._tokenize(data, marks=False, bare=bare)
        if forbidden.isdisjoint(tokens):
            return tokens
        pieces = [data]
        for text in {self._piece(token, marks=True) for token in forbidden} - {b""}:
            pieces = [cut for piece in pieces for cut in _cut(piece, text)]
        tokens = []
        for piece in pieces:
            tokens += self._tokenize(piece, marks=False, bare=bare or bool(tokens))
        # Only a mark of a single byte is left; it has no other spelling.
        return [token for token in tokens if token not in forbidden]

    def _piece(self, token: int, marks: bool) -> bytes:
        room = _PIECE_BYTES
        while True:
            buffer = ctypes.create_string_buffer(room)
            size = self._library.token_to_piece(
                self._vocab, token, buffer, room, 0, marks
            )
            if size >= 0:
                return buffer.raw[:size]
            room = -size


def _cut(data: bytes, text: bytes) -> list[bytes]:
    """*data* cut behind the first byte of each *text* in it."""
    first, *others = data.split(text)
    pieces = []
    for other in others:
        pieces.append(first + text[:1])
        first = text[1:] + other
    return [*pieces, first]
