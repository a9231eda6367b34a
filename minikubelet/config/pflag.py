"""The command line read as the kubelet reads it (pflag), all faults at once.

`--flag=value`, `--flag value`, `--bool`, `--bool=false`, `-v4`, `-v 4`; underscores in names count
as dashes; a repeated scalar is overwritten, a repeated list or map grows. A value that looks like a
flag is still the value of a flag that needs one. Source: spf13/pflag flag.go, component-base
cli/flag.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from minikubelet.api.shape import nearest
from minikubelet.config.flag_values import Value, read
from minikubelet.config.flags import FLAGS, Flag, Kind

_SHORT = {"v": "v", "h": "help"}
_BARE = frozenset({"help", "version"})
"""Switches that only the command line knows."""


@dataclass(slots=True)
class Parsed:
    """Values by flag name, switches such as `help`, and every fault found."""

    values: dict[str, Value] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)


def parse(arguments: Sequence[str]) -> Parsed:
    """Return what the arguments (without the command itself) say."""
    parsed = Parsed()
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            parsed.faults += [_positional(word) for word in rest]
            break
        if argument.startswith("--"):
            name, equals, text = argument[2:].partition("=")
            _long(parsed, name, text if equals else None, rest)
        elif argument.startswith("-") and argument != "-":
            _short(parsed, argument, rest)
        else:
            parsed.faults.append(_positional(argument))
    return parsed


def _positional(word: str) -> str:
    return f"unexpected argument {word!r}: every setting is a flag"


def _long(parsed: Parsed, written: str, text: str | None, rest: list[str]) -> None:
    name = written.replace("_", "-")
    if name in _BARE:
        parsed.switches.add(name)
        return
    flag = FLAGS.get(name)
    if flag is None:
        near = nearest(name, FLAGS)
        hint = f", did you mean --{near}?" if near else ""
        parsed.faults.append(f"unknown flag: --{written}{hint}")
        if text is None and rest and not rest[0].startswith("-"):
            rest.pop(0)  # probably its value; a second fault would only confuse
        return
    _set(parsed, flag, text, rest)


def _short(parsed: Parsed, argument: str, rest: list[str]) -> None:
    name = _SHORT.get(argument[1])
    if name is None or (name == "help" and len(argument) > 2):  # noqa: PLR2004  # "-h" and nothing more
        near = nearest(argument.lstrip("-").partition("=")[0], FLAGS)
        hint = f", did you mean --{near}?" if near else ""
        parsed.faults.append(f"unknown flag: {argument}{hint}")
    elif name == "help":
        parsed.switches.add(name)
    else:
        text = argument[2:].removeprefix("=") if len(argument) > 2 else None  # noqa: PLR2004  # "-v" alone
        _set(parsed, FLAGS[name], text, rest)


def _set(parsed: Parsed, flag: Flag, text: str | None, rest: list[str]) -> None:
    if text is None and flag.kind is Kind.BOOL:
        text = "true"
    elif text is None:
        if not rest:
            parsed.faults.append(f"--{flag.name}: a value is missing, expected {flag.kind.value}")
            return
        text = rest.pop(0)
    try:
        parsed.values[flag.name] = read(flag.kind, text, parsed.values.get(flag.name))
    except ValueError as error:
        parsed.faults.append(f"--{flag.name}: invalid value {text!r}: {error}")
