"""
HTTP and SSE over twisted.web: a packet client like any other (layer 4).
"""
