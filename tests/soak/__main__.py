"""
`bin/soak PART ...`: what runs for hours, one module a part.

Each module has a `main(arguments)`, which reads its own options.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def parts() -> dict[str, str]:
    """Names of the parts, with the first sentence of each."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
        text = import_module(f"tests.soak.{path.stem}").__doc__ or ""
        found[path.stem] = " ".join(text.split("\n\n")[0].split())
    return found


def main() -> None:
    known = parts()
    name, *arguments = sys.argv[1:] or [""]
    if name in known:
        import_module(f"tests.soak.{name}").main(arguments)
        return
    width = max(map(len, known), default=0)
    listed = [f"  {part:<{width}}  {text}" for part, text in known.items()]
    sys.stderr.write("\n".join(["usage: bin/soak PART ...", *listed, ""]))
    raise SystemExit(2)


if __name__ == "__main__":
    main()
