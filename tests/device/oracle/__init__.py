"""
The device in plain Python, written from its specification alone.
"""
