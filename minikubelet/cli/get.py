"""`minikubelet get`: pods and manifests of the running agent, for people and for scripts.

On a terminal tables are coloured and wrapped; in a pipe they are plain text, one line a row, with
the notes on standard error. `-o json|yaml` is the agent's own document.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from minikubelet.cli.client import Agent, AgentError
from minikubelet.cli.options import with_agent
from minikubelet.cli.table import Table, plain
from minikubelet.cli.tables import manifests_table, notes, pods_table, select

_REFRESH_SECONDS = 1.0
View = tuple[Table, Sequence[str]]

_output = click.option(
    "-o",
    "--output",
    type=click.Choice(["wide", "json", "yaml"]),
    help="More columns, or the document itself.",
)
_watch = click.option("-w", "--watch", is_flag=True, help="Show it again each second.")


@click.group("get")
def command() -> None:
    """Show what runs on this node."""


@command.command("pods")
@click.argument("name", default="")
@click.option("-n", "--namespace", default="", help="Only this namespace.  [default: all]")
@_output
@_watch
@with_agent
def pods(agent: Agent, name: str, namespace: str, output: str | None, *, watch: bool) -> None:
    """Show the pods (or the one of a NAME, with or without the node's suffix)."""
    _check_watch(output, watch=watch)
    narrowed = bool(name or namespace)

    def look() -> View:
        found = select(agent.get("/pods").get("items", []), namespace, name)
        manifests = agent.get("/manifests")
        table = pods_table(found, manifests, time.time(), wide=output == "wide", narrowed=narrowed)
        return table, notes(manifests, hides_invalid=narrowed)

    if output in ("json", "yaml"):
        document = agent.get("/pods")
        items = select(document.get("items", []), namespace, name)
        _fail_if_missing(name, items)
        _print_document({**document, "items": items}, output)
    elif watch:
        _watch_view(look)
    else:
        table, lines = look()
        _fail_if_missing(name, table.rows)
        _print_view(table, lines)
        if not table.rows:
            where = f" in namespace {namespace}" if namespace else ""
            click.echo(f"No pods{where}.", err=True)


@command.command("manifests")
@_output
@_watch
@with_agent
def manifests(agent: Agent, output: str | None, *, watch: bool) -> None:
    """Show what each manifest file and URL holds, and what is wrong with it."""
    _check_watch(output, watch=watch)

    def look() -> View:
        document = agent.get("/manifests")
        return manifests_table(document), notes(document)

    if output in ("json", "yaml"):
        _print_document(agent.get("/manifests"), output)
    elif watch:
        _watch_view(look)
    else:
        table, lines = look()
        _print_view(table, lines)
        if not table.rows:
            click.echo("No manifests.", err=True)


def _fail_if_missing(name: str, found: Sequence[Any]) -> None:
    if name and not found:
        raise AgentError(f'pod "{name}" not found; `minikubelet get pods` lists all')


def _print_document(document: Mapping[str, Any], output: str) -> None:
    if output == "json":
        click.echo(json.dumps(document, indent=4, ensure_ascii=False))
        return
    from minikubelet.cli.yaml_text import yaml_text  # noqa: PLC0415  only who asks for it waits

    click.echo(yaml_text(document), nl=False)


def _print_view(table: Table, lines: Sequence[str]) -> None:
    if sys.stdout.isatty():
        from minikubelet.cli.render import show  # noqa: PLC0415  pipes don't wait for colours

        show(table, lines)
        return
    for line in lines:
        click.echo(line, err=True)
    if table.rows:
        click.echo(plain(table), nl=False)


def _watch_view(look: Callable[[], View]) -> None:
    """Show it again and again until Ctrl-C; an agent that is away is waited for."""
    from rich.live import Live  # noqa: PLC0415  pipes don't wait for colours

    from minikubelet.cli.render import renderable  # noqa: PLC0415  as above

    table = Table((), ())
    lines: Sequence[str] = ()
    with suppress(KeyboardInterrupt), Live(auto_refresh=False, transient=True) as live:
        while True:
            try:
                table, lines = look()
            except AgentError as error:
                lines = [str(error)]
            live.update(renderable(table, lines, live.console.width), refresh=True)
            time.sleep(_REFRESH_SECONDS)
    _print_view(table, lines)


def _check_watch(output: str | None, *, watch: bool) -> None:
    if watch and output in ("json", "yaml"):
        raise click.UsageError(f"--watch shows a table, not {output}")
    if watch and not sys.stdout.isatty():
        raise click.UsageError("--watch needs a terminal; scripts ask again when they want to know")
