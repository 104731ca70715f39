"""
One scenario for every target: what it does to device memory must not depend on how
kernels run. It takes every row of the state table (`device.md` §9) and nearly every
line of the kernels; `test_targets` counts both.
"""
