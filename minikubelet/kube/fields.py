"""Typed look-ups in a kubeconfig: a value of the right type, or a problem with the field's path.

A look-up never raises: it notes the problem and returns an empty value, so that one reading finds
all problems. `kubeconfig` asks; nobody else has to know.
"""

import base64
import binascii
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Fields:
    """The fields of one object of a document.

    `where` is its path for messages, `folder` what relative paths start from, `problems` the list
    that all objects of a document share.
    """

    def __init__(
        self, values: dict[str, Any], where: str, folder: Path, problems: list[str]
    ) -> None:
        self._values = values
        self._where = where
        self._folder = folder
        self._problems = problems

    def problem(self, name: str, text: str) -> None:
        """Note a problem of a field."""
        self._problems.append(f"{self._path(name)}: {text}")

    def has(self, name: str) -> bool:
        """Return whether the field is there with a value other than an empty one."""
        return bool(self._values.get(name))

    def text(self, name: str) -> str:
        """Return a string, empty when absent."""
        value = self._values.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        self.problem(name, f"must be a string, not {value!r}")
        return ""

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings, empty when absent."""
        value = self._values.get(name) or []
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self.problem(name, "must be a list of strings")
        return ()

    def truth(self, name: str) -> bool:
        """Return a boolean, false when absent."""
        value = self._values.get(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.problem(name, f"must be true or false, not {value!r}")
        return False

    def path(self, name: str) -> str:
        """Return an absolute path, empty when absent."""
        text = self.text(name)
        return str(self._folder / text) if text else ""

    def url(self, name: str, *, required: bool = False) -> str:
        """Return an http or https URL, empty when absent."""
        text = self.text(name)
        if not text:
            if required:
                self.problem(name, "required: the apiserver's URL")
            return ""
        try:
            parts = urlsplit(text)
            good = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port
        except ValueError:
            good = False
        if not good:
            self.problem(name, f"must be a URL such as https://192.0.2.1:6443, not {text!r}")
            return ""
        return text

    def base64(self, name: str) -> bytes:
        """Return decoded bytes, empty when absent."""
        text = self.text(name)
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            self.problem(name, f"must be base64: {error}")
            return b""

    def child(self, name: str) -> "Fields | None":
        """Return an object in a field, None when absent."""
        value = self._values.get(name)
        if value is None:
            return None
        return self._fields(value, self._path(name))

    def children(self, name: str) -> "list[Fields]":
        """Return the objects of a list, empty when absent."""
        value = self._values.get(name) or []
        if not isinstance(value, list):
            self.problem(name, "must be a list")
            return []
        found = (
            self._fields(item, f"{self._path(name)}[{number}]") for number, item in enumerate(value)
        )
        return [fields for fields in found if fields is not None]

    def named(self, plural: str, name: str, kind: str) -> "Fields | None":
        """Return what the list's entry of that name holds under `kind`; noted when there is none.

        An entry's path shows its name: `clusters[home].cluster`.
        """
        entries = [entry for entry in self.children(plural) if entry.text("name") == name]
        if not entries:
            self.problem(plural, f"there is none with the name {name!r}")
            return None
        if len(entries) > 1:
            self.problem(plural, f"more than one has the name {name!r}")
        value = entries[0]._values.get(kind)  # noqa: SLF001  its own class
        return self._fields(value or {}, f"{self._path(plural)}[{name}].{kind}")

    def _fields(self, value: Any, where: str) -> "Fields | None":
        if isinstance(value, dict):
            return Fields(value, where, self._folder, self._problems)
        self._problems.append(f"{where}: must be an object with fields")
        return None

    def _path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name
