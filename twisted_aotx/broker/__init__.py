"""
Traffic between peers' connections and mailboxes (`wire.md` §1, §12; `device.md` §16).

Layer 3. Knows lengths and channels and no noun: a new operation does not touch it.
Keeps no grant, token or request.
"""
