"""`minikubelet logs`: the log of a container, as it comes."""

import math
import sys

import click

from minikubelet.cli.client import Agent
from minikubelet.cli.log_target import log_target
from minikubelet.cli.options import with_agent

_INTERRUPTED = 130


@click.command("logs")
@click.argument("pod", metavar="POD[/CONTAINER]")
@click.option("-n", "--namespace", default="", help="The pod's namespace.  [default: any]")
@click.option("-c", "--container", default="", help="The container, where there are several.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the container ends.")
@click.option("-p", "--previous", is_flag=True, help="The instance before the last restart.")
@click.option("--tail", type=click.IntRange(min=-1), default=-1, help="Only so many last lines.")
@click.option("--since", metavar="DURATION", default="", help="Only what is newer: 10s, 5m, 1h30m.")
@click.option("--since-time", metavar="TIME", default="", help="Only what is newer (RFC 3339).")
@click.option("--timestamps", is_flag=True, help="Begin each line with its time.")
@click.option("--limit-bytes", type=click.IntRange(min=1), help="At most so many bytes.")
@with_agent
def command(  # noqa: PLR0913  the options of kubectl logs
    agent: Agent,
    pod: str,
    namespace: str,
    container: str,
    *,
    follow: bool,
    previous: bool,
    tail: int,
    since: str,
    since_time: str,
    timestamps: bool,
    limit_bytes: int | None,
) -> None:
    """Print the log of a container.

    The POD's name may lack the node's suffix. Without -c it is the pod's only container, the one of
    its annotation kubectl.kubernetes.io/default-container, or the first.
    """
    query = {
        "follow": "true" if follow else "",
        "previous": "true" if previous else "",
        "timestamps": "true" if timestamps else "",
        "tailLines": str(tail) if tail >= 0 else "",
        "limitBytes": str(limit_bytes or ""),
        "sinceSeconds": _since_seconds(since, since_time),
        "sinceTime": since_time,
    }
    try:
        target = log_target(agent.get("/pods").get("items", []), namespace, pod, container)
        if target.note:
            click.echo(target.note, err=True)
        _copy(agent, target.path, {key: value for key, value in query.items() if value})
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _since_seconds(since: str, since_time: str) -> str:
    """Return the whole seconds of --since, rounded up as kubectl does."""
    if not since:
        return ""
    if since_time:
        raise click.UsageError("--since and --since-time exclude each other")
    from minikubelet.config import duration  # noqa: PLC0415  only who asks for it waits

    try:
        seconds = duration.seconds(since)
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from error
    if seconds <= 0:
        raise click.UsageError(f"--since: {since!r} is not longer than 0s")
    return str(math.ceil(seconds))


def _copy(agent: Agent, path: str, query: dict[str, str]) -> None:
    output = sys.stdout.buffer
    with agent.stream(path, query) as pieces:
        for piece in pieces:
            output.write(piece)
            output.flush()
