"""
`watch.sock`: who waits for a request's progress is told of it (docs/wire/watch.md).

Layer 3, beside the broker. A notice decides nothing, so nothing is checked here but the
peer's user; whoever gets one reads over `service.sock`, where the device judges.
"""
