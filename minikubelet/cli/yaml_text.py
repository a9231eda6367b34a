"""Documents as YAML that every reader understands alike. Pure.

PyYAML would write `1e3`, `0o17` or `y` bare, as its own rules call them strings; Kubernetes' rules
(api.yaml_scalars) don't. What the two read differently is quoted.
"""

from typing import Any

import yaml

from minikubelet.api.yaml_scalars import PLAIN, ScalarError, scalar


class _Dumper(yaml.SafeDumper):
    """Quotes strings that Kubernetes would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write what occurs twice twice: people read this."""
        del data
        return True


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    if style is None:
        try:
            is_string = isinstance(scalar(text, PLAIN, 0), str)
        except ScalarError:
            is_string = False
        style = None if is_string else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _string)


def yaml_text(document: Any) -> str:
    """Return the document in the order of its keys."""
    return yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=float("inf")
    )
