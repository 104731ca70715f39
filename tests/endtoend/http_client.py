"""
An HTTP client on the reactor, for many callers at once.
"""

from __future__ import annotations

import json
from typing import Any

import treq
from twisted.internet import reactor
from twisted.web.client import Agent, HTTPConnectionPool
from twisted.web.http_headers import Headers


class Http:
    """
    An HTTP client with connections of its own.
    """

    def __init__(self) -> None:
        self.pool = HTTPConnectionPool(reactor)
        self._client = treq.client.HTTPClient(Agent(reactor, pool=self.pool))

    async def open(self, url: str, token: str, body: Any = None) -> Any:
        """GET, or POST with a JSON body; the answer's own is still to be read."""
        headers = _headers(token)
        if body is None:
            return await self._client.get(url, headers=headers, unbuffered=True)
        return await self._client.post(url, headers=headers, json=body, unbuffered=True)

    async def ask(self, url: str, token: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON body."""
        answer = await self.open(url, token, body)
        return answer.code, json.loads(await treq.content(answer))

    async def upload(self, url: str, token: str, wav: bytes) -> tuple[int, Any]:
        """POST a WAV; status and JSON body."""
        headers = _headers(token)
        headers.addRawHeader("Content-Type", "audio/wav")
        answer = await self._client.post(url, headers=headers, data=wav)
        return answer.code, json.loads(await treq.content(answer))

    async def delete(self, url: str, token: str) -> int:
        """DELETE it; the status."""
        answer = await self._client.delete(url, headers=_headers(token))
        await treq.content(answer)
        return int(answer.code)


def _headers(token: str) -> Headers:
    return Headers({"Authorization": [f"Bearer {token}"]})
