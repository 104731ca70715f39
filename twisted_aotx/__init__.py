"""
Serve language models through device-owned requests.
"""
