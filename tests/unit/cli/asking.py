"""Commands as a person types them, run beside a server on a real socket."""

from dataclasses import dataclass

import anyio.to_thread
from click.testing import CliRunner, Result

from minikubelet.cli.client import Agent
from minikubelet.cli.main import main


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def run(*arguments: str) -> Said:
    result: Result = CliRunner().invoke(main, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Said(result.exit_code, result.stdout, result.stderr)


async def ask(agent: Agent, *arguments: str) -> Said:
    where = ("--socket", str(agent.socket_path))
    return await anyio.to_thread.run_sync(lambda: run(*arguments, *where))
