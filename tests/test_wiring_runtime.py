"""
What a runtime does before it has a device.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from tests.runtime.doubles import ThreadedReactor
from twisted_aotx import wiring_runtime
from twisted_aotx.config.runtime import load_runtime
from twisted_aotx.errors import ConfigError
from twisted_aotx.wiring_runtime import RuntimePart


def test_engines_are_made_beside_the_reactor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hashes for minutes keeps nothing waiting; its fault is the start's."""
    (tmp_path / "runtime.json").write_text(
        json.dumps({"models": {"language": {"engine": "mine", "path": "x"}}})
    )
    reactor, may_go_on = ThreadedReactor(), threading.Event()
    seen: list[Any] = []

    def make_engine(*arguments: Any) -> None:
        seen.append((threading.current_thread().name, arguments[-1]))
        assert may_go_on.wait(20)
        raise ConfigError("path", "is gone")

    monkeypatch.setattr(wiring_runtime, "make_engine", make_engine)
    part = RuntimePart(reactor, load_runtime(tmp_path / "runtime.json"))
    ended: list[Any] = []
    started = Deferred.fromCoroutine(part.start(lambda _: None))
    started.addBoth(ended.append)
    reactor.until(lambda: seen)
    assert not ended

    may_go_on.set()
    reactor.until(lambda: ended)

    assert seen == [("aotx engines", tmp_path)]
    (failure,) = ended
    assert isinstance(failure, Failure)
    assert str(failure.value) == "runtime.json: models.language.path: is gone"
    Deferred.fromCoroutine(part.stop())
