"""
What a soak must have seen, from the tables of `device.md` and `wire.md`: every
transition of a request, and every status that an operation may be answered.
"""

from __future__ import annotations

from typing import Final

#: `device.md` §9, Request states: from, event, to, status. 0 stands for any status
#: that an engine may name.
TRANSITIONS: Final = (
    ("–", "admitted", "queued", 0),
    ("queued", "leased", "preparing", 0),
    ("queued", "lease check fails", "failed", 503),
    ("queued", "cancel", "cancelled", 409),
    ("queued", "revoked", "cancelled", 403),
    ("queued", "deadline", "cancelled", 504),
    ("preparing", "opened, tokens fit", "running", 0),
    ("preparing", "opened, tokens do not fit", "failed", 400),
    ("preparing", "refused markers", "failed", 400),
    ("preparing", "refused", "failed", 0),
    ("preparing", "fault", "failed", 503),
    ("preparing", "engine lost", "failed", 503),
    ("preparing", "cancel", "cancelled", 409),
    ("preparing", "revoked", "cancelled", 403),
    ("preparing", "deadline", "cancelled", 504),
    ("running", "done(1)", "completed", 0),
    ("running", "done(2)", "completed", 0),
    ("running", "failed", "failed", 0),
    ("running", "fault", "failed", 503),
    ("running", "engine lost", "cancelled", 503),
    ("running", "cancel", "cancelled", 409),
    ("running", "revoked", "cancelled", 403),
    ("running", "deadline", "cancelled", 504),
    ("running", "overflow", "cancelled", 413),
    ("completed", "cancel", "completed", 0),
    ("failed", "cancel", "failed", 0),
    ("cancelled", "cancel", "cancelled", 0),
)

#: Operation to statuses. A plus: with metadata (`wire.md` §10).
_STATUSES: Final = {
    "mailbox length": "400",
    "header": "400",
    "channel 0, not GRANTS": "403",
    "GRANTS": "200 400",
    "INFO": "200 400 403",
    "METRICS": "200 400 403",
    "SUBMIT": "202 400 403 404 409 410 413 429 503",
    "READ": "200 400 403 404 409 410",
    "CANCEL": "200 400 403 404 409 410 429",
    "MEDIA odd": "400 403 429 503",
    "MEDIA BEGIN": "200+ 400 403 409 413 413+ 429 429+ 503",
    "MEDIA CHUNK": "200+ 400 400+ 403 404 409+ 429 503",
    "MEDIA END": "200+ 400 400+ 403 404 429 503",
    "MEDIA CANCEL": "200+ 400 400+ 403 404 409+ 429 429+ 503",
    "MEDIA_READ": "200+ 400 400+ 403 404 503",
    "MEDIA_LIST": "200 200+ 400 403 409 503",
    "shared write": "400 403 429 503",
    "shared read": "400 403 503",
    "POLICY read": "200+ 400 403",
    "POLICY write": "200+ 400 403 409 410 429",
    "unknown": "400 403",
}
PAIRS: Final = tuple(
    (operation, status)
    for operation, statuses in _STATUSES.items()
    for status in statuses.split()
)


def row_of(transition: tuple[str, str, str, int]) -> tuple[str, str, str, int]:
    """The row of the table that *transition* belongs to; itself if there is none."""
    before, event, after, _ = transition
    anything = before, event, after, 0
    return anything if anything in TRANSITIONS else transition
