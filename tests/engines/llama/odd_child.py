"""
A child that does what a real one should not: `AOTX_ODD_CHILD` says what.

    nonsense   print text instead of frames
    garbled    answer a lease with a frame that is only for a child
    mute       read, and never get ready
    stuck      get ready and answer pings, but never move
    broken     complain on standard error, and exit with 3
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from twisted_aotx.engines.llama.frames import FrameReader
from twisted_aotx.engines.llama.messages import Load, Message, Open, Ping, Pong, Ready


def send(message: Message) -> None:
    os.write(1, message.pack())


def main() -> NoReturn:
    oddity = os.environ["AOTX_ODD_CHILD"]
    reader = FrameReader()
    while data := os.read(0, 65536):
        for message in reader.feed(data):
            match message, oddity:
                case Load(), "nonsense":
                    os.write(1, b"Hello, I am a child.")
                case Load(), "broken":
                    os.write(2, b"first line\nggml: cannot go on\n")
                    sys.exit(3)
                case Load(), "stuck" | "garbled":
                    send(Ready(4096, 1))
                case Open(), "garbled":
                    send(Ping(1))
                case Ping(number), "stuck":
                    send(Pong(number, 7))
    sys.exit(0)


if __name__ == "__main__":
    main()
