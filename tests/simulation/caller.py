"""
Calls of one principal over HTTP, as its client sees them.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from tests.simulation.http_client import Answer, Cut, Gone, HTTPConnection, packet
from tests.simulation.people import Person
from tests.simulation.scene import Known, Scene

STATES: Final = (
    *("queued", "preparing", "running", "completed", "failed", "cancelled"),
)
TERMINAL: Final = STATES[3:]
#: Parts in which a request is sent at most.
_PARTS_MAX: Final = 3


class Caller:
    """
    *person*, at any gateway.
    """

    def __init__(self, scene: Scene, person: Person) -> None:
        self.scene = scene
        self.person = person
        self._connection: HTTPConnection | None = None

    async def open(
        self,
        method: str,
        path: str,
        content: bytes = b"",
        **how: Any,
    ) -> tuple[int, HTTPConnection, Answer]:
        """
        Send a request; when it began, the connection, and the answer's head.

        Raises:
            Gone: no connection, or it ended before.
        """
        scene = self.scene
        random = scene.world.random
        began = len(scene.world.history.events)
        connection, self._connection = self._connection, None
        if connection is None:
            gateways = scene.running_gateways()
            stream = None
            if gateways:
                port = random.choice(gateways).port
                stream = scene.world.streams.connect(port)
            if stream is None:
                raise Gone
            connection = HTTPConnection(scene.process, stream, scene.patience(path))
        data = packet(method, path, self.person.token, content, **how)
        cuts = sorted(
            random.randrange(len(data)) for _ in range(random.randrange(_PARTS_MAX))
        )
        for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            await connection.send(data[begin:end])
            if end < len(data) and random.random() < 0.3:
                await scene.process.sleep(random.random() * 0.5)
        return began, connection, await connection.head()

    async def call(
        self, method: str, path: str, body: Any = None, **how: Any
    ) -> tuple[int, Answer]:
        """A request and its whole answer, and when it began."""
        content = b"" if body is None else json.dumps(body).encode()
        content = how.pop("content", content)
        began, connection, head = await self.open(method, path, content, **how)
        parts = [part async for part in connection.parts(head)]
        answer = Answer(head.status, head.headers, b"".join(parts))
        if connection.is_kept and self.scene.world.chance(0.5):
            self._connection = connection
        else:
            connection.close()
        if answer.status >= 400:
            self.scene.world.history.count("refusal", f"{answer.status} {answer.code}")
        return began, answer

    async def patient(
        self, method: str, path: str, body: Any = None, tries: int = 40, **how: Any
    ) -> tuple[int, Answer] | None:
        """
        The same, again and again until there is an answer that is not for now; None if
        there is none, or this client has left.
        """
        for _ in range(tries):
            try:
                began, answer = await self.call(method, path, body, **how)
            except Cut:
                self.forget()
                if self.scene.world.chance(0.5):
                    return None
            except Gone:
                self.forget()
            else:
                if answer.status not in (429, 503, 403):
                    return began, answer
            await self.scene.process.sleep(0.05 + self.scene.world.random.random())
        return None

    def forget(self) -> None:
        """Keep no connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # --- what is seen -----------------------------------------------------------------

    def refused(self, what: str, began: int, answer: Answer, **of: Any) -> None:
        """Note a refusal."""
        self.scene.world.record(
            "refused",
            what=what,
            began=began,
            principal=self.person.id,
            status=answer.status,
            code=answer.code,
            **of,
        )

    def saw(self, began: int, known: Known, status: dict[str, Any], via: str) -> str:
        """Note a STATUS; its state."""
        output = status.get("output")
        fields: dict[str, Any] = {}
        if output is not None:
            data = base64.b64decode(output["bytes"], validate=True)
            fields = {
                "cursor": int(output["cursor"]),
                "next": int(output["next_cursor"]),
                "total": int(output["total_bytes"]),
                "data": data,
            }
        usage = status["usage"]
        self.scene.world.record(
            "status",
            via=via,
            began=began,
            principal=self.person.id,
            handle=status["id"],
            epoch=known.epoch,
            id=known.id,
            phase=STATES.index(status["state"]) + 1,
            cancel=int(status["cancel_requested"]),
            failure=status["status"],
            prompt=usage["prompt_tokens"],
            sampled=usage["completion_tokens"],
            tokens=usage["total_tokens"],
            finish={None: 0, "stop": 1, "length": 2}[status["finish_reason"]],
            **fields,
        )
        return str(status["state"])
