"""
Compiles the kernels of the small and the default set into the cache that tests share:
`python -m tests.device.warm`. The tests would do so themselves, one after the other.
"""

from __future__ import annotations

from tests.device.capacities import DEFAULT, SMALL
from tests.device.making import new_device, played_engine


def main() -> None:
    for capacities in (SMALL, DEFAULT):
        engine = played_engine(
            2, capacity=1, sequence_tokens=capacities.sequence_tokens
        )
        device = new_device(capacities, [engine])
        device.warm_up()
        device.tick(1)
        device.close()
        device.free()


if __name__ == "__main__":
    main()
