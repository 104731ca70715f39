"""
Hypothesis strategies for everything that reaches a device.

What depends on the state of the run (epoch, revision, live leases) is drawn as an
intent: a small record that the machine turns into a frame or a report.
"""
