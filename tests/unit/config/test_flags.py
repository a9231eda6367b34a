# ruff: noqa: E501  # tables: one command line a line

from typing import Any

import pytest

from minikubelet.config.defaults import DEFAULTS, get
from minikubelet.config.duration import seconds
from minikubelet.config.effects import NO_EFFECT, reason_of
from minikubelet.config.flag_values import read
from minikubelet.config.flags import FLAGS, Kind
from minikubelet.config.pflag import parse
from minikubelet.config.schema import KubeletConfiguration

MUST_WORK = (
    "config", "container-runtime-endpoint", "image-service-endpoint", "pod-manifest-path",
    "manifest-url", "manifest-url-header", "hostname-override", "root-dir", "node-ip",
    "cgroup-driver", "cgroup-root", "max-pods", "cluster-dns", "cluster-domain", "resolv-conf", "v",
    "healthz-port", "healthz-bind-address", "strict-config",
)  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (["--max-pods=5"], {"max-pods": 5}),
        (["--max-pods", "5"], {"max-pods": 5}),
        (["--max_pods", "0x10"], {"max-pods": 16}),
        (["--node-ip", "--max-pods=5"], {"node-ip": "--max-pods=5"}),
        (["--seccomp-default"], {"seccomp-default": True}),
        (["--seccomp-default=false"], {"seccomp-default": False}),
        (["--seccomp-default=F"], {"seccomp-default": False}),
        (["-v=4"], {"v": 4}),
        (["-v4"], {"v": 4}),
        (["-v", "4"], {"v": 4}),
        (["--v=4"], {"v": 4}),
        (["--node-labels="], {"node-labels": {}}),
        (["--node-labels=a=b,c=d", "--node-labels=e="], {"node-labels": {"a": "b", "c": "d", "e": ""}}),
        (["--cluster-dns=1.1.1.1,2.2.2.2", "--cluster-dns=3.3.3.3"],
         {"cluster-dns": ["1.1.1.1", "2.2.2.2", "3.3.3.3"]}),
        (["--manifest-url-header=a:1,b:2", "--manifest-url-header", "a:3:4"],
         {"manifest-url-header": {"a": ["1", "3:4"], "b": ["2"]}}),
        (["--feature-gates", "A=true,B=false", "--feature-gates=C=1"],
         {"feature-gates": {"A": True, "B": False, "C": True}}),
        (["--max-pods=5", "--max-pods=6"], {"max-pods": 6}),
        (["--hostname-override="], {"hostname-override": ""}),
    ],
)  # fmt: skip
def test_flags_are_read_as_the_kubelet_reads_them(
    arguments: list[str], values: dict[str, Any]
) -> None:
    parsed = parse(arguments)
    assert parsed.faults == []
    assert parsed.values == values


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--pod-manifest-pth", "/x"], "unknown flag: --pod-manifest-pth, did you mean --pod-manifest-path?"),
        (["--zzz"], "unknown flag: --zzz"),
        (["-config=x"], "unknown flag: -config=x, did you mean --config?"),
        (["run"], "unexpected argument 'run': every setting is a flag"),
        (["--seccomp-default", "false"], "unexpected argument 'false': every setting is a flag"),
        (["--", "x"], "unexpected argument 'x': every setting is a flag"),
        (["--max-pods"], "--max-pods: a value is missing, expected int"),
        (["--max-pods=x"], "--max-pods: invalid value 'x': expected an integer"),
        (["--seccomp-default=maybe"], "--seccomp-default: invalid value 'maybe': expected true or false"),
        (["--address=x"], "--address: invalid value 'x': expected an IP address"),
        (["--sync-frequency=5"], "--sync-frequency: invalid value '5': '5' is no duration such as 20s or 1m30s"),
        (["--node-labels=a"], "--node-labels: invalid value 'a': expected key=value, got 'a'"),
        (["--register-with-taints=a"], "--register-with-taints: invalid value 'a': expected key=value:effect, got 'a'"),
    ],
)  # fmt: skip
def test_a_fault_says_what_was_expected(arguments: list[str], fault: str) -> None:
    assert parse(arguments).faults == [fault]


def test_all_faults_are_told_at_once() -> None:
    assert len(parse(["--foo", "--max-pods=x", "bar"]).faults) == 3


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.MAP_LESS, "memory.available<1Gi", {"memory.available": "1Gi"}),
        (Kind.MAP_WHOLE, "a=b,c", {"a": "b,c"}),
        (Kind.TAINTS, "k=v:NoSchedule,q:NoExecute", [
            {"key": "k", "value": "v", "effect": "NoSchedule"},
            {"key": "q", "value": "", "effect": "NoExecute"},
        ]),
        (Kind.RESERVED_MEMORY, "0:memory=1Gi", [{"numaNode": 0, "limits": {"memory": "1Gi"}}]),
        (Kind.PATTERNS, "a=1", [{"filePattern": "a", "verbosity": 1}]),
        (Kind.INT, "010", 8),
        (Kind.INT, "-5", -5),
        (Kind.LIST, "", []),
        (Kind.IP, "::", "::"),
    ],
)  # fmt: skip
def test_values(kind: Kind, text: str, value: Any) -> None:
    assert read(kind, text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("20s", 20), ("1m30s", 90), ("1h", 3600), ("300ms", 0.3), (".5s", 0.5), ("-1s", -1), ("0", 0)],
)
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "1x", "1s2", "9999999999h"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds(text)


def test_every_table_speaks_of_real_fields() -> None:
    fields = set(KubeletConfiguration.__struct_encode_fields__)
    targets = {flag.target for flag in FLAGS.values() if flag.target}
    keys = {key for key in NO_EFFECT if not key.startswith("--")}
    assert {path.partition(".")[0] for path in targets | keys | set(DEFAULTS)} <= fields
    assert {key[2:] for key in NO_EFFECT if key.startswith("--")} <= set(FLAGS)


@pytest.mark.parametrize("name", MUST_WORK)
def test_what_a_node_alone_needs_works(name: str) -> None:
    assert reason_of(FLAGS[name].effect_key) == ""


def test_a_dotted_path_leads_into_a_document() -> None:
    assert get({"a": {"b": 1}}, "a.b") == 1
    assert get({"a": 5}, "a.b") is None
