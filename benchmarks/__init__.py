"""
What the service costs, measured on one machine in one run (docs/benchmarks.md).
"""
