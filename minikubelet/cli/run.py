"""`minikubelet run`: flags and files to a Config, then the agent until it is told to stop.

The flags are the kubelet's and are read by its rules (`config.pflag`), not by click's.
"""

import sys

import click

from minikubelet import KUBERNETES_VERSION
from minikubelet.cli.run_help import help_text
from minikubelet.config.load import ConfigError, load_parsed
from minikubelet.config.pflag import parse

_WRONGLY_CALLED = 2


@click.command(
    "run",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Run the node agent."""
    parsed = parse(arguments)
    if "help" in parsed.switches:
        click.echo(help_text(), nl=False)
        return
    if "version" in parsed.switches:
        # kubeadm reads it: the release that the node behaves as.
        click.echo(f"Kubernetes {KUBERNETES_VERSION}")
        return
    try:
        config = load_parsed(parsed)
    except ConfigError as error:
        click.echo("cannot start: the configuration has these faults:", err=True)
        for problem in error.problems:
            click.echo(f"  {problem}", err=True)
        click.echo("`minikubelet run --help` lists all flags", err=True)
        sys.exit(_WRONGLY_CALLED)
    for warning in config.warnings:
        click.echo(f"warning: {warning}", err=True)
    # structlog takes rich, where it is, for tracebacks: 14 MiB that the agent would never use.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None: importing it fails
    if not sys.stderr.isatty():
        # structlog loads rich where it can, for coloured traces: 3 MiB that JSON has no use for.
        sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # Python's "can't be found"
    import anyio  # noqa: PLC0415  # faults and help don't wait for the agent to load

    from minikubelet.agent import run_agent  # noqa: PLC0415
    from minikubelet.kube.kubeconfig import KubeconfigError  # noqa: PLC0415
    from minikubelet.server.listen import CannotListen  # noqa: PLC0415

    try:
        anyio.run(run_agent, config, backend="asyncio")
    except BaseExceptionGroup as group:
        known, unknown = group.split((SystemExit, CannotListen, KubeconfigError))
        if known is None or unknown is not None:
            raise
        click.echo(_first(known), err=True)
        sys.exit(1)


def _first(group: BaseExceptionGroup) -> BaseException:
    """Return the first error of a group of groups: its text is for people."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
