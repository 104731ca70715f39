"""
The two configuration files, `gateway.json` and `runtime.json`: read, checked, typed.

Layer 5. Nothing but `wiring`, `tap_*` and `cli` imports this package; lower layers get
the settings records or plain arguments.
"""
