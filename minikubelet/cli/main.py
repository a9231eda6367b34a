"""`minikubelet`: the commands a person types. Each is loaded only when it is called.

Exit codes: 0 done, 1 failed, 2 wrongly called.
"""

import importlib
from typing import TYPE_CHECKING

import click

from minikubelet import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMANDS: "Mapping[str, tuple[str, str]]" = {
    "run": ("minikubelet.cli.run:command", "Run the node agent."),
    "get": ("minikubelet.cli.get:command", "Show what runs on this node."),
    "logs": ("minikubelet.cli.logs:command", "Print the logs of a container."),
}
"""Name to (module:attribute, one line of help); the attribute is a click command."""


class LazyGroup(click.Group):
    """A group that imports a command when it is needed: `run` never pays for tables and colours."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None when there is none of that name."""
        del ctx
        target, _ = COMMANDS.get(cmd_name, ("", ""))
        module, _, attribute = target.partition(":")
        if not module:
            return None
        command = getattr(importlib.import_module(module), attribute)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="minikubelet")
def main() -> None:
    """A kubelet in Python."""
