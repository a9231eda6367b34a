"""The text of `minikubelet run --help`: every flag by group, its default, whether it works."""

import json
import shutil
import textwrap

from minikubelet.config.defaults import DEFAULTS
from minikubelet.config.effects import reason_of
from minikubelet.config.flags import FLAG_DEFAULTS, FLAGS, Flag, Kind

_HEAD = """\
Usage: minikubelet run [FLAG...]

Run the node agent. Flags and their rules are the kubelet's; they win over the --config file.
Flags marked * are taken, but have no effect here yet.
"""
_INDENT = 8
_MAX_WIDTH = 110


def help_text() -> str:
    """Return the whole text."""
    width = min(shutil.get_terminal_size().columns, _MAX_WIDTH)
    lines = [_HEAD]
    group = ""
    for flag in FLAGS.values():
        if flag.gone:
            continue
        if flag.group != group:
            group = flag.group
            lines.append(f"{group}:")
        lines += _entry(flag, width)
    lines.append(
        "  -h, --help\n        print this text\n      --version\n        print the version\n"
    )
    return "\n".join(lines)


def _entry(flag: Flag, width: int) -> list[str]:
    mark = "*" if reason_of(flag.effect_key) else " "
    dashes = "-v, --v" if flag.name == "v" else f"    --{flag.name}"
    kind = "" if flag.kind is Kind.BOOL else f" {flag.kind.value}"
    default = DEFAULTS.get(flag.target) if flag.target else FLAG_DEFAULTS.get(flag.name)
    shown = default if isinstance(default, str) else json.dumps(default)
    text = flag.help + (f" (default {shown})" if default not in (None, "", False) else "")
    wrapped = textwrap.wrap(text, max(width - _INDENT, 40))
    return [f" {mark}{dashes}{kind}", *(" " * _INDENT + line for line in wrapped)]
