"""
Bytes ⇄ records: every layout of `wire.md`. Layer 1, sans-IO, stdlib and attrs only.
"""
