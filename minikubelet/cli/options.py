"""What the commands have in common: where the agent is, how its refusals are shown."""

import functools
from collections.abc import Callable
from typing import Any

import click

from minikubelet.cli.client import DEFAULT_ROOT_DIR, Agent, AgentError, socket_path


def with_agent(command: Callable[..., None]) -> Callable[..., None]:
    """Add --socket and --root-dir; the command gets an `agent`, its errors end with exit code 1."""

    @click.option(
        "--socket", "socket_option", metavar="PATH", default="", help="Socket of the agent."
    )
    @click.option(
        "--root-dir",
        metavar="FOLDER",
        default=DEFAULT_ROOT_DIR,
        show_default=True,
        help="Root folder of the agent, where its socket is.",
    )
    @functools.wraps(command)
    def wrapped(socket_option: str, root_dir: str, **rest: Any) -> None:
        try:
            command(agent=Agent(socket_path(socket_option, root_dir)), **rest)
        except AgentError as error:
            raise click.ClickException(str(error)) from error

    return wrapped
