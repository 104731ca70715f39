"""
Models that `aotx model` knows by name: where they come from, and fetching them.
"""
