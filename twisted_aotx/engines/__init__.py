"""
Models that serve leases: plugins, what finds them, and their bridge to the device.
"""
