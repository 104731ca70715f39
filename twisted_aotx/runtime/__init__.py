"""
The runtime: device thread, doorbells, and the bridge between device and engines.

Imports nothing: the process that decodes images is in here too, and loads no more than
it needs.
"""
