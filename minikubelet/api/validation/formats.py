"""Formats of names and values: each check yields what is wrong, in apimachinery's words.

Source: apimachinery pkg/util/validation/validation.go, pkg/api/validate/content.
"""

import ipaddress
import re
from collections.abc import Iterator

from minikubelet.api.problems import Problem, invalid

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORE_LABEL = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_SUBDOMAIN = rf"{_UNDERSCORE_LABEL}(\.{_UNDERSCORE_LABEL})*"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_HEADER = "[-A-Za-z0-9]+"
_SYSCTL_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
SYSCTL = rf"^({_SYSCTL_SEGMENT}[\./])*{_SYSCTL_SEGMENT}$"
_MAX_LABEL, _MAX_SUBDOMAIN, _MAX_PORT_NAME = 63, 253, 15
_FIRST_PRINTABLE, _LAST_PRINTABLE = " ", "~"
MAX_PORT = 65535
MAX_INT32 = 2**31 - 1


def _regex(message: str, expression: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)  # two blanks, as in Go
    hint = f"e.g. {shown}" if examples else ""
    return f"{message} ({hint}regex used for validation is '{expression}')"


def _max_length(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def between(low: int, high: int) -> str:
    """Return the words for a number outside of its range."""
    return f"must be between {low} and {high}, inclusive"


def dns_label(value: str) -> Iterator[str]:
    """Check a name such as a container's (RFC 1123 label)."""
    if len(value) > _MAX_LABEL:
        yield _max_length(_MAX_LABEL)
    if re.fullmatch(_LABEL, value):
        return
    if re.fullmatch(_SUBDOMAIN, value):
        yield "must not contain dots"
        return
    message = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
        "must start and end with an alphanumeric character"
    )
    yield _regex(message, _LABEL, "my-name", "123-abc")


def dns_subdomain(value: str) -> Iterator[str]:
    """Check a name such as a pod's (RFC 1123 subdomain)."""
    if len(value) > _MAX_SUBDOMAIN:
        yield _max_length(_MAX_SUBDOMAIN)
    if not re.fullmatch(_SUBDOMAIN, value):
        message = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character"
        )
        yield _regex(message, _SUBDOMAIN, "example.com")


def dns_search(value: str) -> Iterator[str]:
    """Check a DNS search domain, which may have underscores."""
    if len(value) > _MAX_SUBDOMAIN:
        yield _max_length(_MAX_SUBDOMAIN)
    if not re.fullmatch(_UNDERSCORE_SUBDOMAIN, value):
        message = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-', '_' or '.', and must start and end with an alphanumeric character"
        )
        yield _regex(message, _UNDERSCORE_SUBDOMAIN, "example.com")


def qualified_name(value: str) -> Iterator[str]:
    """Check a label key, resource name or condition type: `name` or `domain/name`."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        message = (
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character"
        )
        example = _regex(message, _KEY, "MyName", "my.name", "123-abc")
        yield f"{example} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {fault}" for fault in dns_subdomain(prefix))
    if not name:
        yield "name part must be non-empty"
    elif len(name) > _MAX_LABEL:
        yield f"name part {_max_length(_MAX_LABEL)}"
    if not re.fullmatch(_KEY, name):
        message = (
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
            "an alphanumeric character"
        )
        yield f"name part {_regex(message, _KEY, 'MyName', 'my.name', '123-abc')}"


def label_value(value: str) -> Iterator[str]:
    """Check the value of a label."""
    if len(value) > _MAX_LABEL:
        yield _max_length(_MAX_LABEL)
    if not re.fullmatch(_VALUE, value):
        message = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' "
            "or '.', and must start and end with an alphanumeric character"
        )
        yield _regex(message, _VALUE, "MyValue", "my_value", "12345")


def port_name(value: str) -> Iterator[str]:
    """Check the name of a port (RFC 6335)."""
    if len(value) > _MAX_PORT_NAME:
        yield _max_length(_MAX_PORT_NAME)
    if not re.fullmatch("[-a-z0-9]+", value):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search("[a-z]", value):
        yield "must contain at least one letter (a-z)"
    if "--" in value:
        yield "must not contain consecutive hyphens"
    if value.startswith("-") or value.endswith("-"):
        yield "must not begin or end with a hyphen"


def port_number(value: int) -> Iterator[str]:
    """Check a TCP or UDP port."""
    if not 1 <= value <= MAX_PORT:
        yield between(1, MAX_PORT)


def user_id(value: int) -> Iterator[str]:
    """Check a user or group id."""
    if not 0 <= value <= MAX_INT32:
        yield between(0, MAX_INT32)


def env_name(value: str) -> Iterator[str]:
    """Check the name of an environment variable by the relaxed rule (on since 1.34)."""
    if any(
        not _FIRST_PRINTABLE <= character <= _LAST_PRINTABLE or character == "="
        for character in value
    ):
        yield (
            "a valid environment variable name must consist only of printable ASCII characters "
            "other than '='"
        )


def header_name(value: str) -> Iterator[str]:
    """Check the name of an HTTP header."""
    if not re.fullmatch(_HEADER, value):
        message = "a valid HTTP header must consist of alphanumeric characters or '-'"
        yield _regex(message, _HEADER, "X-Header-Name")


def ip_address(value: str) -> Iterator[str]:
    """Check an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        yield "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def no_backsteps(path: str, value: str) -> Iterator[Problem]:
    """Check that a file path has no `..` element."""
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")


def descending(path: str, value: str) -> Iterator[Problem]:
    """Check that a file path is relative and stays below its start."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    yield from no_backsteps(path, value)
