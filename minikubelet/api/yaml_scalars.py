"""What a YAML scalar means: the rules of go-yaml v2 with the numbers as JSON would show them.

Source: go.yaml.in/yaml/v2 resolve.go, sigs.k8s.io/yaml. Differences to other YAML readers: 0o17,
0x1f, 0b1 and a leading 0 are integers in that base, underscores inside numbers are dropped,
`12:30:45` and dates are strings, a float without fraction turns into an integer (JSON shows it so).
"""

import base64
import binascii
import math
import re
from typing import Any

PLAIN = "!plain"
"""Our tag of a scalar that is neither quoted nor tagged."""

_TAG = "tag:yaml.org,2002:"
_TRUE = frozenset(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
_FALSE = frozenset(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"])
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_NOT_JSON = frozenset(
    sign + name
    for sign in ("", "+", "-")
    for name in (".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN")
) - {f"{sign}{name}" for sign in "+-" for name in (".nan", ".NaN", ".NAN")}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)")
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
_MAX_DIGITS = 100
"""No 64-bit integer has more in any base; Python refuses to read thousands."""
_EXPONENT_FROM = 1e21
"""From here on JSON encoders write an exponent, and the number is no integer any more."""


class ScalarError(ValueError):
    """A scalar contradicts its tag or has no JSON form."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def scalar(text: str, tag: str, line: int) -> Any:
    """Return the value of a scalar with this tag; raises ScalarError."""
    if tag == PLAIN or tag.startswith(_TAG + "timestamp") or tag == _TAG + "null":
        return _plain(text, line)
    kind = tag.removeprefix(_TAG) if tag.startswith(_TAG) else ""
    if kind == "binary":
        try:
            return base64.b64decode(text, validate=False).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise ScalarError(
                "cannot read YAML: !!binary value isn't base64 of a text", line
            ) from error
    if kind in {"bool", "int", "float"}:
        value = _plain(text, line)
        expected: Any = {"bool": bool, "int": int, "float": (int, float)}[kind]
        if not isinstance(value, expected) or (kind != "bool" and isinstance(value, bool)):
            raise ScalarError(f"cannot read YAML: {text!r} is no !!{kind}", line)
        return value
    return text


def _plain(text: str, line: int) -> Any:
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text in _NOT_JSON:
        raise ScalarError(f"cannot read YAML: {text} has no JSON form", line)
    if text[0] in "+-.0123456789":
        return _number(text)
    return text


def _number(text: str) -> str | int | float:
    digits = text if text[0] == "." else text.replace("_", "")
    if len(digits) <= _MAX_DIGITS and (match := _INTEGER.fullmatch(digits)):
        sign, body = match.groups()
        if len(body) > 1 and body[0] == "0" and body[1] not in "xXoObB":
            body = "0o" + body[1:]
        number = int(sign + body, 0)
        if _MIN_INT <= number <= _MAX_INT:
            return number
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        if math.isinf(value):
            return text
        return int(value) if value.is_integer() and abs(value) < _EXPONENT_FROM else value
    return text


def json_key(key: Any) -> str:
    """Return a mapping key as the string that JSON needs (sigs.k8s.io/yaml)."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)
