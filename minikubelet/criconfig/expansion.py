"""`$(NAME)` in env values, command, args and subPathExpr.

One pass, no recursion: `$(NAME)` becomes the value or stays as written when the name is unknown,
`$$` becomes `$`, anything else after `$` is kept. Source: third_party/forked/golang/expansion.
"""

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")


def expand(text: str, *scopes: Mapping[str, str]) -> str:
    """Return `text` with each known reference replaced; earlier scopes win."""
    return expand_and_list_unknown(text, *scopes)[0]


def expand_and_list_unknown(text: str, *scopes: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the expanded text and the names that no scope defines, for who must refuse."""
    unknown: list[str] = []

    def replace(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        for scope in scopes:
            if match[2] in scope:
                return scope[match[2]]
        unknown.append(match[2])
        return match[0]

    return _REFERENCE.sub(replace, text), tuple(unknown)
