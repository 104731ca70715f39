"""
The machine: device tables and the kernels that own them.
"""
