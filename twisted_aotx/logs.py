"""
The log of a process: text on a terminal, one JSON object per line elsewhere (layer 5).

twistd chooses where it goes (`--logfile`, `--nodaemon`); with its `--syslog` or
`--logger` all of it is twistd's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import IO, Any, Final, cast

from twisted.logger import (
    FileLogObserver,
    FilteringLogObserver,
    ILogObserver,
    LogEvent,
    LogLevel,
    LogLevelFilterPredicate,
    eventAsText,
    textFileLogObserver,
)
from twisted.python.logfile import LogFile

#: `--log-level`.
LEVELS: Final = ("debug", "info", "warn", "error", "critical")
#: `--log-format`: the first is text on a terminal and JSON elsewhere.
FORMATS: Final = ("auto", "text", "json")
#: Where twistd writes once it is a daemon, unless told otherwise.
_DAEMONS_FILE: Final = "twistd.log"


def log_observer(
    twistd: Mapping[str, Any], *, level: str, style: str
) -> ILogObserver | None:
    """
    What writes the log of a process that *twistd*'s options describe.

    Args:
        level: One of `LEVELS`; what is less is left out.
        style: One of `FORMATS`.

    Returns:
        None where twistd's options leave nothing to decide.
    """
    if twistd["syslog"] or twistd["logger"]:
        return None
    path = twistd["logfile"]
    if path == "-" and not twistd["nodaemon"]:
        return None  # twistd refuses that itself
    if twistd["nodaemon"] and path in (None, "-"):
        file = cast(IO[Any], sys.stdout)
        is_terminal = sys.stdout.isatty()
    else:
        file = cast(IO[Any], LogFile.fromFullPath(path or _DAEMONS_FILE))
        is_terminal = False
    is_json = style == "json" or (style == "auto" and not is_terminal)
    observer = FileLogObserver(file, _line) if is_json else textFileLogObserver(file)
    least = LogLevel.levelWithName(level)
    return FilteringLogObserver(observer, [LogLevelFilterPredicate(least)])


def _line(event: LogEvent) -> str:
    """
    One event as a JSON object: what a text line says, in fields.
    """
    text = eventAsText(event, includeTimestamp=False, includeSystem=False)
    shown = {
        "time": round(float(event["log_time"]), 3),
        "level": event["log_level"].name,
        "logger": event.get("log_namespace"),
        "message": text,
    }
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")) + "\n"
