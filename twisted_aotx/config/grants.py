"""
The grant table of a gateway file (`wire.md` §6, `http.md` §10).
"""

from __future__ import annotations

from collections.abc import Iterable

from twisted_aotx.gateway.settings import GatewaySettings
from twisted_aotx.wire.grants import GrantRow, GrantTable


def grant_table(settings: GatewaySettings) -> GrantTable:
    """
    One row for each principal, in the order of the file.

    A row's model mask holds the roles behind the principal's aliases. Quotas are the
    file's: the device refuses the whole table if one of them is beyond a capacity.
    """
    roles = {model.alias: model.role for model in settings.models}
    return GrantTable(
        settings.revision,
        tuple(
            GrantRow(
                principal=principal.id,
                revision=settings.revision,
                actions=principal.actions,
                models=_mask(roles[alias] for alias in principal.models),
                pages=principal.pages,
                tokens=principal.tokens,
                requests=principal.requests,
                media=principal.media,
                media_bytes=principal.media_bytes,
            )
            for principal in settings.principals
        ),
    )


def _mask(roles: Iterable[int]) -> int:
    mask = 0
    for role in roles:
        mask |= 1 << role
    return mask
