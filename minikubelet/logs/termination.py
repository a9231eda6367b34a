"""Why a container ended, in its own words: its termination message file, or the end of its log.

Source: kubelet kuberuntime_container.go getTerminationMessage, readLastStringFromContainerLogs.
"""

import os
import stat

import anyio.to_thread

from minikubelet.cri import messages as m
from minikubelet.logs.read import read_tail

MAX_FILE, MAX_LOG, MAX_LOG_LINES = 4096, 2048, 80
_PATH = "io.kubernetes.container.terminationMessagePath"
_POLICY = "io.kubernetes.container.terminationMessagePolicy"


async def termination_message(status: m.ContainerStatus) -> str:
    """Return what an exited container left; empty when it left nothing. Never raises OSError."""
    return await anyio.to_thread.run_sync(_message, status)


def _message(status: m.ContainerStatus) -> str:
    path = status.annotations.get(_PATH, "")
    file = next((mount.host_path for mount in status.mounts if mount.container_path == path), "")
    if path and file:
        try:
            text = _end_of_file(file)
        except FileNotFoundError:
            text = ""
        except OSError as error:
            return f"Error on reading termination log {file}: {error}"
        if text:
            return text
    return _end_of_log(status.log_path) if _falls_back(status) else ""


def _falls_back(status: m.ContainerStatus) -> bool:
    """A container that could not even start has written no log."""
    return (
        status.annotations.get(_POLICY) == "FallbackToLogsOnError"
        and status.exit_code != 0
        and status.reason != "ContainerCannotRun"
    )


def _end_of_file(path: str) -> str:
    # Never wait: whatever the container made of its file, only a regular one is read.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return ""
        data = os.pread(fd, MAX_FILE, max(0, info.st_size - MAX_FILE))
    finally:
        os.close(fd)
    return data.decode(errors="replace")


def _end_of_log(path: str) -> str:
    try:
        return read_tail(path, MAX_LOG_LINES, MAX_LOG).decode(errors="replace")
    except OSError as error:
        return f"Error on reading termination message from logs: {error}"
