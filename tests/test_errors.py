"""
Errors carry fields; their text is a sentence without what was secret.
"""

from __future__ import annotations

import inspect
import pickle

import pytest

from twisted_aotx import errors
from twisted_aotx.errors import (
    ChannelBusy,
    ConfigError,
    ConfigErrors,
    DeviceRefused,
    ExchangeTimeout,
    InvalidReply,
    LocalWireError,
    Problem,
    RemoteWireError,
    UnknownEngine,
)


def test_every_error_is_one_of_ours() -> None:
    found = [
        member
        for _, member in inspect.getmembers(errors, inspect.isclass)
        if member.__module__ == errors.__name__
    ]

    assert len(found) > 15
    assert all(issubclass(each, errors.AOTXError) for each in found)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            RemoteWireError("GrantRow", "tokens", 164, "zero"),
            "GrantRow.tokens at byte 164: zero",
        ),
        (DeviceRefused(4, 404), "operation 4 was refused with status 404"),
        (ExchangeTimeout(), "ExchangeTimeout"),
        (ExchangeTimeout("15 s are over"), "15 s are over"),
        (InvalidReply("bad magic"), "invalid device response: bad magic"),
        (Problem(404, "model_not_found", "model"), "404 model_not_found"),
        (ConfigError("limits.work", "zero"), "limits.work: zero"),
        (ConfigError("", "not a file"), "not a file"),
        (
            ConfigErrors((ConfigError("a", "x"), ConfigError("b", "y"))),
            "a: x\nb: y",
        ),
        (
            UnknownEngine("gpt", ("llama", "reference")),
            "there is no engine 'gpt'; known engines: llama, reference",
        ),
        (UnknownEngine("gpt", ()), "there is no engine 'gpt'; known engines: none"),
        (ChannelBusy(3), "channel 3 is busy"),
    ],
)
def test_the_sentence_of_an_error(error: Exception, text: str) -> None:
    assert str(error) == text


def test_the_two_blames_are_told_apart() -> None:
    local = LocalWireError("A", "b", 0, "c")

    assert not isinstance(local, RemoteWireError)
    assert isinstance(local, errors.WireError)


def test_a_refusal_hides_its_payload() -> None:
    error = DeviceRefused(6, 413, b"secret")

    assert error.payload == b"secret"
    assert "secret" not in repr(error) + str(error)


def test_errors_can_be_raised_logged_and_sent_on() -> None:
    with pytest.raises(ConfigError) as caught:
        raise ConfigError("a", "b")
    again = pickle.loads(pickle.dumps(caught.value))

    assert (again.path, again.reason) == ("a", "b")
