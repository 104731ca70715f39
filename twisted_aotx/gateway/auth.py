"""
Who calls: a bearer token to its principal (`http.md` §1, D27). Nothing else.

The digest of what was sent is compared with every configured digest, each in constant
time and without stopping at a match, so that the time says nothing of the token.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from twisted_aotx.gateway.settings import Principal

#: Characters of a token.
TOKEN_MIN: Final = 32
TOKEN_MAX: Final = 256
#: The scheme, compared without case, and one space; the rest is the token, exactly.
_SCHEME: Final = "bearer "


class Authenticator:
    """
    The tokens of one configuration.
    """

    def __init__(self, principals: Iterable[Principal]) -> None:
        self._digests = tuple(
            (digest, principal)
            for principal in principals
            for digest in principal.token_sha256
        )

    def principal(self, authorization: bytes | None) -> Principal | None:
        """
        The principal that the header *authorization* proves, or None.
        """
        token = _token(authorization)
        if token is None:
            return None
        sent = hashlib.sha256(token.encode()).digest()
        found: Principal | None = None
        for digest, principal in self._digests:
            if hmac.compare_digest(sent, digest):
                found = principal
        return found


def _token(authorization: bytes | None) -> str | None:
    try:
        text = (authorization or b"").decode()
    except UnicodeDecodeError:
        return None
    scheme, token = text[: len(_SCHEME)], text[len(_SCHEME) :]
    if scheme.lower() != _SCHEME or not TOKEN_MIN <= len(token) <= TOKEN_MAX:
        return None
    return token
