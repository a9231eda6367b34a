"""Flags and files to a `Config`: defaults < --config < --config-dir < flags.

Reads the files named on the command line, the host's name and its number of CPUs, once. Nothing
else of the environment is read, here or later.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minikubelet.api.codec import without_nulls
from minikubelet.api.problems import Problem
from minikubelet.api.shape import compare
from minikubelet.api.yaml import Document, YAMLError, load_all
from minikubelet.config.checks import check, check_node_name
from minikubelet.config.config import Config, build
from minikubelet.config.defaults import DEFAULTS, get, is_zero, put, with_defaults
from minikubelet.config.effects import NO_EFFECT, key_of, reason_of
from minikubelet.config.flags import FLAG_DEFAULTS, FLAGS, Kind
from minikubelet.config.node_flags import check_node_labels, read_node_ips
from minikubelet.config.pflag import Parsed, parse
from minikubelet.config.schema import KubeletConfiguration
from minikubelet.config.server import check_server, is_authentication_asked_for

API_VERSION = "kubelet.config.k8s.io/v1beta1"
_PATHS = (
    "staticPodPath", "authentication.x509.clientCAFile", "tlsCertFile", "tlsPrivateKeyFile",
    "resolvConf", "volumePluginDir", "podLogsDir",
)  # fmt: skip
"""Fields that are relative to their file (kubelet config/helpers.go KubeletConfigurationPathRefs).
"""

_FLAG_PATHS = ("root-dir", "cert-dir", "kubeconfig", "bootstrap-kubeconfig")
_ZERO = {Kind.BOOL: False, Kind.INT: 0, Kind.MAP: {}}


class ConfigError(ValueError):
    """The configuration can't be used; `problems` are complete sentences."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(slots=True)
class _Reading:
    """What was gathered on the way."""

    strict: bool = False
    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def load(arguments: Sequence[str]) -> Config:
    """Return the configuration of a command line. Raises ConfigError."""
    return load_parsed(parse(arguments))


def load_parsed(parsed: Parsed) -> Config:
    """Return the configuration of a parsed command line. Raises ConfigError."""
    reading = _Reading(strict=bool(parsed.values.get("strict-config")), faults=list(parsed.faults))
    from_files = _files(parsed, reading)
    document = with_defaults(from_files, from_file="config" in parsed.values)
    flags = _apply_flags(document, parsed, reading)
    node_name = _node_name(flags)
    asked_for_port = _asks_for_port(from_files, parsed)
    if not reading.faults:
        reading.faults += [_told(problem) for problem in check(document)]
        port_faults = check_server(
            document, kubeconfig=flags["kubeconfig"], asked_for=asked_for_port
        )
        reading.faults += [_told(problem) for problem in port_faults]
        reading.faults += check_node_name(node_name)
        if not flags["root-dir"]:
            reading.faults.append("--root-dir: must name a folder")
        reading.faults += check_node_labels(flags["node-labels"])
        _take_node_ips(flags, reading)
    if reading.faults:
        raise ConfigError(reading.faults)
    return build(
        document,
        flags,
        node_name=node_name,
        cpus=os.cpu_count() or 1,
        asked_for_port=asked_for_port,
        warnings=tuple(reading.warnings),
    )


def _take_node_ips(flags: dict[str, Any], reading: _Reading) -> None:
    flags["node-ip"], faults, warnings = read_node_ips(flags["node-ip"])
    reading.faults += faults
    reading.warnings += warnings
    if flags["bootstrap-kubeconfig"] and not flags["kubeconfig"]:
        reading.warnings.append(
            "--bootstrap-kubeconfig has no effect here: without --kubeconfig the node stands alone"
        )


def _told(problem: Problem) -> str:
    """Name the flag beside the field."""
    flag = next(
        (f.name for f in FLAGS.values() if f.target and problem.path.startswith(f.target)), ""
    )
    return f"{problem.path}{f' (--{flag})' if flag else ''}: {problem.message}"


def _files(parsed: Parsed, reading: _Reading) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if main := parsed.values.get("config"):
        document = _file(Path(main), reading)
    if folder := parsed.values.get("config-dir"):
        try:
            drop_ins = sorted(path for path in Path(folder).rglob("*.conf") if path.is_file())
            if not Path(folder).is_dir():
                raise NotADirectoryError(2, "no such folder")
        except OSError as error:
            reading.faults.append(f"--config-dir: cannot read {folder}: {error.strerror}")
            drop_ins = []
        for path in drop_ins:
            document = _merged(document, _file(path, reading))
    return document


def _file(path: Path, reading: _Reading) -> dict[str, Any]:
    """Return one file's document with its relative paths resolved, empty when it has faults."""
    try:
        documents = load_all(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        reading.faults.append(f"cannot read configuration {path}: {error.strerror}")
        return {}
    except UnicodeDecodeError:
        reading.faults.append(f"cannot read configuration {path}: not UTF-8")
        return {}
    except YAMLError as error:
        reading.faults.append(f"{path}:{error.line}: {error}")
        return {}
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        reading.faults.append(
            f"cannot read configuration {path}: expected one KubeletConfiguration"
        )
        return {}
    return _resolved(_checked(documents[0], path, reading), path.absolute().parent)


def _checked(source: Document, path: Path, reading: _Reading) -> dict[str, Any]:
    document: dict[str, Any] = without_nulls(source.value)
    shape = compare(document, KubeletConfiguration)
    faults = list(shape.wrong_types)
    if (document.get("apiVersion"), document.get("kind")) != (API_VERSION, "KubeletConfiguration"):
        faults.append(
            Problem("kind", f"expected kind KubeletConfiguration of apiVersion {API_VERSION}")
        )
    unknown = [f"{path}:{source.line_of(p.path)}: {p}" for p in shape.unknown]
    (reading.faults if reading.strict else reading.warnings).extend(unknown)
    reading.faults += [f"{path}:{source.line_of(p.path)}: {p}" for p in faults]
    if faults:
        return {}
    reading.warnings += _without_effect(document)
    return document


def _without_effect(document: Mapping[str, Any]) -> list[str]:
    """Warn of each field that is set to something else than its default and does nothing."""
    told: dict[str, str] = {}
    for path, value in _leaves(document):
        key = key_of(path)
        if key and not _is_empty(value) and value != DEFAULTS.get(path):
            told[key] = NO_EFFECT[key]
    return [f"{path} has no effect here: {reason}" for path, reason in told.items()]


def _is_empty(value: Any) -> bool:
    """Configurations are often written out with every zero, nested ones too."""
    if isinstance(value, Mapping):
        return all(_is_empty(item) for item in value.values())
    return is_zero(value)


def _leaves(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for name, value in document.items():
        path = f"{prefix}{name}"
        nested = isinstance(value, Mapping) and any(key.startswith(f"{path}.") for key in DEFAULTS)
        leaves += _leaves(value, f"{path}.") if nested else [(path, value)]
    return leaves


def _resolved(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    for path in _PATHS:
        if value := get(document, path):
            put(document, path, os.path.normpath(folder / value))
    return document


def _merged(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for name, value in above.items():
        old = result.get(name)
        both = isinstance(old, dict) and isinstance(value, Mapping)
        result[name] = _merged(old, value) if both else value  # type: ignore[arg-type]  # mypy misses `both`
    return result


def _apply_flags(document: dict[str, Any], parsed: Parsed, reading: _Reading) -> dict[str, Any]:
    """Put flags over the document; return the values that only flags have."""
    only: dict[str, Any] = {
        flag.name: FLAG_DEFAULTS.get(flag.name, _ZERO.get(flag.kind, ""))
        for flag in FLAGS.values()
        if not flag.target
    }
    for name, value in parsed.values.items():
        flag = FLAGS[name]
        reason = reason_of(flag.effect_key)
        default = DEFAULTS.get(flag.target) if flag.target else FLAG_DEFAULTS.get(name)
        if reason and not is_zero(value) and value != default:
            gone = "is no flag of Kubernetes 1.36 any more and " if flag.gone else ""
            reading.warnings.append(f"--{name} {gone}has no effect here: {reason}")
        if not flag.target:
            only[name] = value
        elif name == "feature-gates":
            put(document, flag.target, {**(get(document, flag.target) or {}), **value})
        else:
            put(document, flag.target, value)
    if path := document.get("staticPodPath"):
        document["staticPodPath"] = str(Path(path).absolute())
    for name in _FLAG_PATHS:
        if only[name]:
            only[name] = str(Path(only[name]).absolute())
    return only


def _asks_for_port(from_files: Mapping[str, Any], parsed: Parsed) -> bool:
    """Tell whether a file or a flag names a way to authenticate at the node's own port."""
    asked = dict(from_files)
    for name, value in parsed.values.items():
        if FLAGS[name].target.startswith("authentication."):
            put(asked, FLAGS[name].target, value)
    return is_authentication_asked_for(asked)


def _node_name(flags: Mapping[str, Any]) -> str:
    name: str = flags["hostname-override"].strip() or socket.gethostname()
    return name.lower()
