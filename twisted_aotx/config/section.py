"""
A JSON object seen through its rules: every fault is noted, none ends the reading.

A `Section` is one object at one key path. Its readers return the value, or a stand-in
of the right type after noting an error; `Faults.raise_if_any` ends a parse, so that
nobody sees a stand-in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import attrs

from twisted_aotx.errors import ConfigError, ConfigErrors

#: A key that an error names as it is; others are quoted and escaped.
_PLAIN = re.compile(r"[A-Za-z0-9._/-]{1,256}")


@attrs.define
class Faults:
    """
    The errors of one file, in the order they were found, and what to warn about.
    """

    _errors: list[ConfigError] = attrs.field(factory=list, init=False)
    _notices: list[str] = attrs.field(factory=list, init=False)

    def note(self, path: str, reason: str) -> None:
        """Note that the value at key *path* is wrong."""
        self._errors.append(ConfigError(path, reason))

    def warn(self, path: str, sentence: str) -> None:
        """Note what the operator should be told about a value that is accepted."""
        self._notices.append(f"{path}: {sentence}")

    @property
    def notices(self) -> tuple[str, ...]:
        """The warnings, in the order found."""
        return tuple(self._notices)

    def raise_if_any(self) -> None:
        """
        Raises:
            ConfigErrors: every error noted.
        """
        if self._errors:
            raise ConfigErrors(tuple(self._errors))


@attrs.frozen
class Section:
    """
    The object at *path* ("" is the whole file); readers take a key of it.

    A reader without *default* is for a required key.
    """

    faults: Faults
    path: str
    value: dict[str, Any]

    @classmethod
    def of(cls, faults: Faults, path: str, value: object) -> Section:
        """A section of *value*, empty after noting that it is no object."""
        if isinstance(value, dict):
            return cls(faults, path, value)
        faults.note(path, f"must be an object, not {kind_of(value)}")
        return cls(faults, path, {})

    def key_path(self, key: str) -> str:
        """The key path of *key* in this section, on one line whatever *key* is."""
        name = key if _PLAIN.fullmatch(key) else shown(key)
        return f"{self.path}.{name}" if self.path else name

    def fail(self, key: str, reason: str) -> None:
        """Note that the value of *key* is wrong."""
        self.faults.note(self.key_path(key), reason)

    def warn(self, key: str, sentence: str) -> None:
        """Note what the operator should be told about *key*."""
        self.faults.warn(self.key_path(key), sentence)

    def only(self, keys: Collection[str]) -> None:
        """Refuse every key outside *keys*."""
        for key in self.value:
            if key not in keys:
                self.fail(key, "unknown key; known: " + ", ".join(keys))

    def has(self, key: str) -> bool:
        """Whether *key* is there, whatever its value."""
        return key in self.value

    def integer(
        self, key: str, *, low: int, high: int, default: int | None = None
    ) -> int:
        """An integer in *low* .. *high*; a boolean or a float is none."""
        value = self._get(key, default)
        if value is None:
            return low
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(key, f"must be an integer, not {kind_of(value)}")
        elif not low <= value <= high:
            self.fail(key, f"must be {low} .. {high}, not {shown(value)}")
        else:
            return value
        return low

    def boolean(self, key: str, *, default: bool | None = None) -> bool:
        """True or false."""
        value = self._get(key, default)
        if value is not None and not isinstance(value, bool):
            self.fail(key, f"must be true or false, not {kind_of(value)}")
        return value is True

    def text(self, key: str, *, default: str | None = None) -> str:
        """A string, possibly empty."""
        value = self._get(key, default)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.fail(key, f"must be a string, not {kind_of(value)}")
            return ""
        return value

    def choice(
        self, key: str, choices: Collection[str], *, default: str | None = None
    ) -> str:
        """One of *choices*; the first of them after an error."""
        value = self._get(key, default)
        if isinstance(value, str) and value in choices:
            return value
        if value is not None:
            self.fail(key, f"must be one of {', '.join(choices)}; not {shown(value)}")
        return next(iter(choices))

    def optional_text(self, key: str) -> str | None:
        """A string that is not empty and holds no NUL; null or absent is None."""
        value = self.value.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.fail(key, f"must be a string or null, not {kind_of(value)}")
        elif not value or "\0" in value:
            self.fail(key, "must not be empty or hold a NUL")
        else:
            return value
        return None

    def file(self, key: str, folder: Path) -> str | None:
        """An absolute path, relative to *folder* if need be; null or absent is None."""
        text = self.optional_text(key)
        return None if text is None else str(folder / text)

    def section(self, key: str, keys: Collection[str]) -> Section:
        """The object of *key* with *keys* only; empty when it is absent."""
        part = Section.of(self.faults, self.key_path(key), self.value.get(key, {}))
        part.only(keys)
        return part

    def sections(self, key: str) -> Iterator[tuple[str, Section]]:
        """(name, object) of every member of the object *key*; empty if absent."""
        parent = Section.of(self.faults, self.key_path(key), self.value.get(key, {}))
        for name, value in parent.value.items():
            yield name, Section.of(self.faults, parent.key_path(name), value)

    def items(self, key: str, *, required: bool = True) -> list[tuple[str, Any]]:
        """(key path, item) of the list *key*."""
        value = self._get(key, None if required else [])
        if value is None:
            return []
        if not isinstance(value, list):
            self.fail(key, f"must be a list, not {kind_of(value)}")
            return []
        path = self.key_path(key)
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]

    def _get(self, key: str, default: Any) -> Any:
        """The value; None only after noting that it is missing or null."""
        if key not in self.value:
            if default is None:
                self.fail(key, "is required")
            return default
        if self.value[key] is None:
            self.fail(key, "must not be null")
        return self.value[key]


def kind_of(value: object) -> str:
    """The JSON name of a value's type, for an error."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names = {int: "an integer", float: "a float", str: "a string", list: "a list"}
    return names.get(type(value), "an object")


def shown(value: object) -> str:
    """A value as an error may show it: short, on one line."""
    text = ascii(value)
    return text if len(text) <= 40 else text[:40] + "…"
