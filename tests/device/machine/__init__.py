"""
A Hypothesis state machine that compares a device with the oracle.
"""
