"""
The state store: what outlives an epoch, in one SQLite file (`device.md` §11, D12).
"""
