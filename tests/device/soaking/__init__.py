"""
The rules of the state machine, drawn from a seed for as long as there is time.
"""
