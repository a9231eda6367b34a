"""Probes and hooks: exactly one action each. Source: validation.go validateHandler."""

from collections.abc import Iterator

from minikubelet.api.pod import (
    Container,
    HTTPGetAction,
    IntOrString,
    LifecycleHandler,
    PodSpec,
    Probe,
)
from minikubelet.api.problems import Problem, forbidden, invalid, join, required, unsupported
from minikubelet.api.validation.formats import header_name, port_name, port_number

_SCHEMES = ("HTTP", "HTTPS")
_ACTIONS = (
    ("exec", "exec"),
    ("http_get", "httpGet"),
    ("tcp_socket", "tcpSocket"),
    ("grpc", "grpc"),
    ("sleep", "sleep"),
)
_COUNTS = (
    ("initial_delay_seconds", "initialDelaySeconds"),
    ("timeout_seconds", "timeoutSeconds"),
    ("period_seconds", "periodSeconds"),
    ("success_threshold", "successThreshold"),
    ("failure_threshold", "failureThreshold"),
)


def check_probes_and_hooks(path: str, container: Container, spec: PodSpec) -> Iterator[Problem]:
    """Check the probes and the lifecycle of a container that may have them."""
    grace = spec.termination_grace_period_seconds
    if container.lifecycle is not None:
        hooks = container.lifecycle
        if hooks.post_start is not None:
            yield from _handler(join(path, "lifecycle", "postStart"), hooks.post_start, grace)
        if hooks.pre_stop is not None:
            yield from _handler(join(path, "lifecycle", "preStop"), hooks.pre_stop, grace)
        if hooks.stop_signal is not None and spec.os is None:
            yield forbidden(
                join(path, "lifecycle", "stopSignal"),
                "may not be set for containers with empty `spec.os.name`",
            )
    for name, probe in (
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if probe is not None:
            yield from _probe(join(path, name), probe, readiness=name == "readinessProbe")


def _probe(path: str, probe: Probe, *, readiness: bool) -> Iterator[Problem]:
    yield from _handler(path, probe, None)
    for name, json_name in _COUNTS:
        if (value := getattr(probe, name)) < 0:
            yield invalid(join(path, json_name), value, "must be greater than or equal to 0")
    where, grace = (
        join(path, "terminationGracePeriodSeconds"),
        probe.termination_grace_period_seconds,
    )
    if grace is not None and grace <= 0:
        yield invalid(where, grace, "must be greater than 0")
    if readiness and grace is not None:
        yield invalid(where, grace, "must not be set for readinessProbes")
    if not readiness and probe.success_threshold != 1:
        yield invalid(join(path, "successThreshold"), probe.success_threshold, "must be 1")


def _handler(path: str, handler: Probe | LifecycleHandler, grace: int | None) -> Iterator[Problem]:
    present = [(n, j) for n, j in _ACTIONS if getattr(handler, n, None) is not None]
    if not present:
        yield required(path, "must specify a handler type")
        return
    for _, json_name in present[1:]:
        yield forbidden(join(path, json_name), "may not specify more than 1 handler type")
    name, json_name = present[0]
    where, action = join(path, json_name), getattr(handler, name)
    if name == "exec" and not action.command:
        yield required(join(where, "command"))
    elif name == "http_get":
        yield from _http_get(where, action)
    elif name in {"tcp_socket", "grpc"}:
        yield from _port(join(where, "port"), action.port)
    elif name == "sleep" and grace is not None and not 0 <= action.seconds <= grace:
        yield invalid(
            where,
            action.seconds,
            f"must be non-negative and less than terminationGracePeriodSeconds ({grace})",
        )


def _http_get(path: str, action: HTTPGetAction) -> Iterator[Problem]:
    if not action.path:
        yield required(join(path, "path"))
    yield from _port(join(path, "port"), action.port)
    if action.scheme not in _SCHEMES:
        yield unsupported(join(path, "scheme"), action.scheme, _SCHEMES)
    for index, header in enumerate(action.http_headers):
        for fault in header_name(header.name):
            yield invalid(join(path, "httpHeaders", index, "name"), header.name, fault)


def _port(path: str, port: IntOrString) -> Iterator[Problem]:
    faults = port_number(port) if isinstance(port, int) else port_name(port)
    yield from (invalid(path, port, fault) for fault in faults)
