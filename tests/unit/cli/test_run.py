import re
import subprocess
import sys

import pytest

from minikubelet.cli.main import COMMANDS
from minikubelet.cli.run_help import help_text
from minikubelet.config.flags import FLAGS


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "minikubelet", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_faults_are_listed_all_at_once_and_the_exit_code_is_2() -> None:
    done = run("run", "--pod-manifest-pth=/x", "--max-pods=x")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "cannot start: the configuration has these faults:",
        "  unknown flag: --pod-manifest-pth, did you mean --pod-manifest-path?",
        "  --max-pods: invalid value 'x': expected an integer",
        "`minikubelet run --help` lists all flags",
    ]


def test_help_lists_every_flag_with_its_default_and_group() -> None:
    text = help_text()
    for flag in FLAGS.values():
        assert (f"--{flag.name} " in text or f"--{flag.name}\n" in text) is not flag.gone
        assert f"{flag.group}:\n" in text
    assert "(default /var/lib/kubelet)" in text.replace("\n        ", " ")


@pytest.mark.parametrize("arguments", [["run", "--help"], ["run", "-h"], ["--help"], ["--version"]])
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from minikubelet.cli.main import main\n"
        f"sys.argv = ['minikubelet', *{arguments!r}]\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'grpc', 'aiohttp', 'structlog', 'anyio', 'rich', 'typer'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_commands_are_listed() -> None:
    text = run("--help").stdout
    assert all(name in text for name in COMMANDS)


def test_an_unknown_command_is_a_wrong_call() -> None:
    done = run("rum")
    assert done.returncode == 2
    assert "No such command 'rum'" in done.stderr


def test_run_tells_its_version_as_kubeadm_reads_it() -> None:
    assert re.fullmatch(r"Kubernetes v1\.36\.\d+\S*\n", run("run", "--version").stdout)
