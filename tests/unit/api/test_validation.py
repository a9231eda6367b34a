"""Each rule of the apiserver as a line: what is set, and what is said about it."""

from typing import Any

import pytest

from minikubelet.api.codec import decode_pod
from minikubelet.api.defaults import with_defaults
from minikubelet.api.validation import validate_pod

BASE = {"name": "c", "image": "b:1"}


def problems(
    spec: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None, **container: Any
) -> list[str]:
    """Validate a pod with one container that has these fields."""
    document = {
        "metadata": {"name": "a", "namespace": "default", **(metadata or {})},
        "spec": {"containers": [{**BASE, **container}], **(spec or {})},
    }
    return [str(problem) for problem in validate_pod(decode_pod(with_defaults(document)))]


def test_a_plain_pod_has_no_problem() -> None:
    assert problems() == []


def test_a_rich_pod_has_no_problem() -> None:
    spec = {
        "volumes": [{"name": "v"}, {"name": "h", "hostPath": {"path": "/x", "type": "Directory"}}],
        "initContainers": [
            {**BASE, "name": "i"},
            {
                **BASE,
                "name": "s",
                "restartPolicy": "Always",
                "livenessProbe": {"grpc": {"port": 1}},
            },
        ],
        "tolerations": [
            {"operator": "Exists"},
            {"key": "a.b/c", "value": "d", "effect": "NoExecute"},
        ],
        "hostAliases": [{"ip": "::1", "hostnames": ["a.b"]}],
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": [".", "a_b.c."]},
        "securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]},
        "activeDeadlineSeconds": 5,
    }
    fields: dict[str, Any] = {
        "env": [
            {"name": "1 A", "value": "x"},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
            {
                "name": "C",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}},
            },
        ],
        "volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": "a/$(B)"}],
        "resources": {"limits": {"cpu": "1", "example.com/gpu": 1}, "requests": {"cpu": "1"}},
        "ports": [
            {"containerPort": 1, "hostPort": 1},
            {"containerPort": 1, "hostPort": 1, "protocol": "UDP"},
        ],
        "restartPolicy": "Never",
        "restartPolicyRules": [
            {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}}
        ],
    }
    assert problems(spec, **fields) == []


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        (
            {"name": "A_b"},
            'metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must',
        ),
        ({"name": "a" * 254}, "must be no more than 253 bytes"),
        ({"namespace": "a.b"}, 'metadata.namespace: Invalid value: "a.b": must not contain dots'),
        ({"labels": {"a": "b c"}}, 'metadata.labels: Invalid value: "b c": a valid label must be'),
        ({"labels": {"x/y/z": ""}}, 'metadata.labels: Invalid value: "x/y/z": a qualified name'),
        ({"labels": {"/a": ""}}, "prefix part must be non-empty"),
        ({"labels": {"a/": ""}}, "name part must be non-empty"),
        ({"labels": {"a" * 64: ""}}, "name part must be no more than 63 bytes"),
        ({"annotations": {"a": "b" * 262145}}, "Too long: may not be more than 262144 bytes"),
        ({"finalizers": [" "]}, "metadata.finalizers[0]: Invalid value"),
    ],
)
def test_metadata(metadata: dict[str, Any], problem: str) -> None:
    assert any(problem in text for text in problems(metadata=metadata))


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        (
            {"restartPolicy": "Sometimes"},
            (
                'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", '
                '"OnFailure", "Never"'
            ),
        ),
        (
            {"activeDeadlineSeconds": 0},
            (
                "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and "
                "2147483647, inclusive"
            ),
        ),
        ({"dnsPolicy": "Foo"}, "spec.dnsPolicy: Unsupported value"),
        ({"dnsPolicy": "None"}, "must provide `dnsConfig` when `dnsPolicy` is None"),
        (
            {"dnsPolicy": "None", "dnsConfig": {}},
            "must provide at least one DNS nameserver when `dnsPolicy` is None",
        ),
        (
            {"dnsConfig": {"nameservers": ["1.1.1.1"] * 4}},
            'Invalid value: ["1.1.1.1","1.1.1.1","1.1.1.1","1.1.1.1"]: must not have more than 3',
        ),
        ({"dnsConfig": {"nameservers": ["a"]}}, "spec.dnsConfig.nameservers[0]: Invalid value"),
        ({"dnsConfig": {"searches": ["a"] * 33}}, "must not have more than 32 search paths"),
        ({"dnsConfig": {"searches": ["a" * 2049]}}, "2048 characters (including spaces)"),
        ({"dnsConfig": {"options": [{"value": "1"}]}}, "spec.dnsConfig.options[0]: Required value"),
        ({"hostname": "a.b"}, 'spec.hostname: Invalid value: "a.b": must not contain dots'),
        ({"subdomain": "A"}, "spec.subdomain: Invalid value"),
        (
            {"hostnameOverride": "a", "hostNetwork": True},
            "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
        ),
        (
            {"hostnameOverride": "a" * 65},
            "spec.hostnameOverride: Too long: may not be more than 64",
        ),
        ({"hostAliases": [{"ip": "x"}]}, "spec.hostAliases[0].ip: Invalid value"),
        (
            {"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["A"]}]},
            "spec.hostAliases[0].hostnames[0]: Invalid value",
        ),
        ({"tolerations": [{}]}, "spec.tolerations[0].operator: Invalid value"),
        (
            {"tolerations": [{"key": "a", "tolerationSeconds": 1}]},
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        ),
        (
            {"tolerations": [{"operator": "Exists", "value": "a"}]},
            "value must be empty when `operator` is 'Exists'",
        ),
        ({"tolerations": [{"key": "a", "effect": "X"}]}, "spec.tolerations[0].effect: Unsupported"),
        ({"tolerations": [{"key": "a", "operator": "X"}]}, "spec.tolerations[0].operator: Unsupp"),
        ({"nodeSelector": {"a": "b c"}}, "spec.nodeSelector: Invalid value"),
        ({"runtimeClassName": "A"}, "spec.runtimeClassName: Invalid value"),
        ({"priorityClassName": "A"}, "spec.priorityClassName: Invalid value"),
        ({"preemptionPolicy": "X"}, "spec.preemptionPolicy: Unsupported value"),
        (
            {"readinessGates": [{"conditionType": "a b"}]},
            "spec.readinessGates[0].conditionType: Inv",
        ),
        ({"os": {"name": "plan9"}}, "spec.os: Unsupported value"),
        ({"ephemeralContainers": [{"name": "e"}]}, "spec.ephemeralContainers: Forbidden"),
        ({"overhead": {"cpu": "-1"}}, "spec.overhead[cpu]: Invalid value"),
        (
            {"hostPID": True, "shareProcessNamespace": True},
            "spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID",
        ),
        (
            {"hostUsers": False, "hostIPC": True},
            "spec.hostIPC: Forbidden: when `hostUsers` is false",
        ),
        ({"securityContext": {"fsGroup": -1}}, "spec.securityContext.fsGroup: Invalid value: -1"),
        (
            {"securityContext": {"supplementalGroups": [2**31]}},
            "spec.securityContext.supplementalGroups[0]: Invalid value",
        ),
        (
            {"securityContext": {"sysctls": [{"name": "a b"}]}},
            "spec.securityContext.sysctls[0].name: Invalid value",
        ),
        (
            {"securityContext": {"sysctls": [{"name": "a"}, {"name": "a"}]}},
            'spec.securityContext.sysctls[1].name: Duplicate value: "a"',
        ),
        ({"securityContext": {"sysctls": [{}]}}, "spec.securityContext.sysctls[0].name: Required"),
        (
            {"securityContext": {"fsGroupChangePolicy": "X"}},
            "spec.securityContext.fsGroupChangePolicy: Unsupported value",
        ),
        (
            {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
            "must be set when seccomp type is Localhost",
        ),
        (
            {"securityContext": {"appArmorProfile": {"type": "X"}}},
            "spec.securityContext.appArmorProfile.type: Unsupported value",
        ),
        (
            {"resources": {"limits": {"cpu": "1", "ephemeral-storage": 1}}},
            "must be a standard resource for pods",
        ),
    ],
)
def test_spec(spec: dict[str, Any], problem: str) -> None:
    assert any(problem in text for text in problems(spec))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": ""}, "spec.containers[0].name: Required value"),
        ({"name": "a.b"}, 'spec.containers[0].name: Invalid value: "a.b": must not contain dots'),
        ({"name": "a" * 64}, "must be no more than 63 bytes"),
        ({"image": ""}, "spec.containers[0].image: Required value"),
        ({"image": " b"}, "must not have leading or trailing whitespace"),
        ({"imagePullPolicy": "X"}, "spec.containers[0].imagePullPolicy: Unsupported value"),
        (
            {"terminationMessagePolicy": "X"},
            "spec.containers[0].terminationMessagePolicy: Unsupported value",
        ),
        ({"ports": [{}]}, "spec.containers[0].ports[0].containerPort: Required value"),
        ({"ports": [{"containerPort": 65536}]}, "ports[0].containerPort: Invalid value: 65536"),
        ({"ports": [{"containerPort": 1, "hostPort": -1}]}, "ports[0].hostPort: Invalid value: -1"),
        (
            {"ports": [{"containerPort": 1, "protocol": "X"}]},
            'supported values: "SCTP", "TCP", "UDP"',
        ),
        (
            {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
            'ports[1].name: Duplicate value: "a"',
        ),
        ({"ports": [{"containerPort": 1, "name": "a--b"}]}, "must not contain consecutive hyphens"),
        ({"ports": [{"containerPort": 1, "name": "1"}]}, "must contain at least one letter (a-z)"),
        ({"ports": [{"containerPort": 1, "name": "-a"}]}, "must not begin or end with a hyphen"),
        ({"ports": [{"containerPort": 1, "name": "A"}]}, "must contain only alpha-numeric"),
        ({"ports": [{"containerPort": 1, "name": "a" * 16}]}, "must be no more than 15 bytes"),
        (
            {"ports": [{"containerPort": 1, "hostPort": 1}, {"containerPort": 2, "hostPort": 1}]},
            'ports[1].hostPort: Duplicate value: "TCP//1"',
        ),
        ({"env": [{"value": "x"}]}, "env[0].name: Required value"),
        ({"env": [{"name": "a=b"}]}, "printable ASCII characters other than '='"),
        (
            {"env": [{"name": "a", "valueFrom": {}}]},
            'env[0].valueFrom: Invalid value: "": must spec',
        ),
        (
            {"env": [{"name": "a", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
            "may not be specified when `value` is not empty",
        ),
        (
            {"env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "status.foo"}}}]},
            "error converting fieldPath: field label not supported: status.foo",
        ),
        (
            {"env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]},
            'env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels"',
        ),
        (
            {"env": [{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.foo"}}}]},
            "resourceFieldRef.resource: Unsupported value",
        ),
        (
            {
                "env": [
                    {
                        "name": "a",
                        "valueFrom": {
                            "resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}
                        },
                    }
                ]
            },
            "only divisor's values 1m and 1 are supported with the cpu resource",
        ),
        ({"envFrom": [{}]}, "must specify one of: `configMapRef` or `secretRef`"),
        (
            {"env": [{"name": "a", "valueFrom": {"fileKeyRef": {"key": "k", "path": "p"}}}]},
            "fileKeyRef.volumeName: Required value",
        ),
        ({"volumeMounts": [{"name": "q", "mountPath": "/a"}]}, 'name: Not found: "q"'),
        ({"volumeMounts": [{"name": "v"}]}, "volumeMounts[0].mountPath: Required value"),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]},
            'volumeMounts[1].mountPath: Invalid value: "/a": must be unique',
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "/x"}]},
            "must be a relative path",
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "a/../x"}]},
            "must not contain '..'",
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/", "subPath": "a", "subPathExpr": "b"}]},
            "subPathExpr and subPath are mutually exclusive",
        ),
        (
            {
                "volumeMounts": [
                    {"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}
                ]
            },
            "Bidirectional mount propagation is available only to privileged containers",
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled"}]},
            "may only be specified when readOnly is true",
        ),
        (
            {"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]},
            "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
        ),
        (
            {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}},
            (
                'spec.containers[0].resources.requests: Invalid value: "2": must be less than or '
                "equal to cpu limit of 1"
            ),
        ),
        ({"resources": {"limits": {"foo": 1}}}, "must be a standard resource for containers"),
        ({"resources": {"limits": {"cpu": "1x"}}}, "quantities must match the regular expression"),
        ({"resources": {"limits": {"cpu": -1}}}, "must be greater than or equal to 0"),
        ({"resources": {"limits": {"a.b/c": "500m"}}}, 'Invalid value: "500m": must be an integer'),
        (
            {"resources": {"requests": {"a.b/c": 1}}},
            "limits: Required value: Limit must be set for non overcommitable resources",
        ),
        ({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}}, "HugePages require cpu or memory"),
        ({"livenessProbe": {}}, "livenessProbe: Required value: must specify a handler type"),
        (
            {"livenessProbe": {"exec": {"command": ["a"]}, "grpc": {"port": 1}}},
            "livenessProbe.grpc: Forbidden: may not specify more than 1 handler type",
        ),
        (
            {"livenessProbe": {"grpc": {"port": 1}, "successThreshold": 2}},
            "livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        (
            {"readinessProbe": {"grpc": {"port": 1}, "periodSeconds": -1}},
            "must be greater than or e",
        ),
        (
            {"readinessProbe": {"grpc": {"port": 1}, "terminationGracePeriodSeconds": 1}},
            "must not be set for readinessProbes",
        ),
        ({"startupProbe": {"httpGet": {"port": 0}}}, "httpGet.port: Invalid value: 0"),
        ({"startupProbe": {"httpGet": {"port": "A"}}}, 'httpGet.port: Invalid value: "A"'),
        (
            {"startupProbe": {"httpGet": {"port": 1, "scheme": "X"}}},
            'scheme: Unsupported value: "X": supported values: "HTTP", "HTTPS"',
        ),
        (
            {"startupProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "a b"}]}}},
            "a valid HTTP header must consist of",
        ),
        ({"lifecycle": {"preStop": {"exec": {}}}}, "preStop.exec.command: Required value"),
        (
            {"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}},
            "must be non-negative and less than terminationGracePeriodSeconds (30)",
        ),
        (
            {"lifecycle": {"stopSignal": "SIGTERM"}},
            "may not be set for containers with empty `spec.os.name`",
        ),
        ({"securityContext": {"runAsUser": -1}}, "securityContext.runAsUser: Invalid value: -1"),
        (
            {"securityContext": {"procMount": "Unmasked"}},
            "`hostUsers` must be false to use `Unmasked`",
        ),
        (
            {"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}},
            "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        ),
        (
            {
                "securityContext": {
                    "seccompProfile": {"type": "Localhost", "localhostProfile": "/x"}
                }
            },
            "must be a relative path",
        ),
        ({"restartPolicy": "X"}, "spec.containers[0].restartPolicy: Unsupported value"),
        (
            {"restartPolicyRules": [{"action": "Restart"}]},
            "must specify restartPolicy when restart rules are used",
        ),
        (
            {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}]},
            "restartPolicyRules[0].exitCodes: Required value: must be specified",
        ),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "X", "exitCodes": {"operator": "In"}}],
            },
            'action: Unsupported value: "X": supported values: "Restart", "RestartAllContainers"',
        ),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In"}}] * 21,
            },
            "restartPolicyRules: Too many: 21: must have at most 20 items",
        ),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [
                    {"action": "Restart", "exitCodes": {"operator": "In", "values": [1] * 256}}
                ],
            },
            "values: Too many: 256: must have at most 255 items",
        ),
        (
            {"resizePolicy": [{"resourceName": "x", "restartPolicy": "NotRequired"}]},
            'resizePolicy: Unsupported value: "x": supported values: "cpu", "memory"',
        ),
    ],
)
def test_container(fields: dict[str, Any], problem: str) -> None:
    found = problems({"volumes": [{"name": "v"}]}, **fields)
    assert any(problem in text for text in found), found


def test_names_are_unique_over_init_and_regular_containers() -> None:
    containers = [BASE, BASE]
    assert problems({"containers": containers, "initContainers": [BASE]}) == [
        'spec.containers[1].name: Duplicate value: "c"',
        'spec.initContainers[0].name: Duplicate value: "c"',
    ]


@pytest.mark.parametrize("field", ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"])
@pytest.mark.parametrize("policy", ["Always", None])
def test_only_sidecars_among_init_containers_have_probes_and_hooks(
    field: str, policy: str | None
) -> None:
    probe = {"tcpSocket": {"port": 1}}
    value = {"preStop": probe} if field == "lifecycle" else probe
    init = {**BASE, "name": "i", field: value} | ({"restartPolicy": policy} if policy else {})
    forbidden = [
        (
            f"spec.initContainers[0].{field}: Forbidden: may not be set for init containers "
            "without restartPolicy=Always"
        )
    ]
    assert problems({"initContainers": [init]}) == ([] if policy else forbidden)


def test_init_containers_may_share_a_host_port_as_they_run_one_by_one() -> None:
    ports = [{"containerPort": 1, "hostPort": 1}]
    init = [{**BASE, "name": name, "ports": ports} for name in ("i", "j")]
    assert problems({"initContainers": init}) == []


def test_on_the_host_network_ports_must_agree() -> None:
    ports = [{"containerPort": 80, "hostPort": 81}]
    assert problems({"hostNetwork": True}, ports=ports) == [
        (
            "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` "
            "when `hostNetwork` is true"
        )
    ]


@pytest.mark.parametrize(
    ("volume", "problem"),
    [
        ({"name": ""}, "spec.volumes[0].name: Required value"),
        ({"name": "A"}, "spec.volumes[0].name: Invalid value"),
        (
            {"emptyDir": {}, "hostPath": {"path": "/x"}},
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
        ),
        ({"hostPath": {"path": ""}}, "spec.volumes[0].hostPath.path: Required value"),
        ({"hostPath": {"path": "/x", "type": "X"}}, "spec.volumes[0].hostPath.type: Unsupported"),
        ({"emptyDir": {"sizeLimit": "-1"}}, "SizeLimit field must be a valid resource quantity"),
        ({"emptyDir": {"sizeLimit": "x"}}, "quantities must match the regular expression"),
        (
            {"downwardAPI": {"items": [{"path": "a"}]}},
            "one of fieldRef and resourceFieldRef is req",
        ),
        ({"downwardAPI": {"defaultMode": 0o1000}}, "must be a number between 0 and 0777 (octal)"),
    ],
)
def test_volume(volume: dict[str, Any], problem: str) -> None:
    found = problems({"volumes": [{"name": "v", **volume}]})
    assert any(problem in text for text in found), found


def test_volume_names_are_unique() -> None:
    found = problems({"volumes": [{"name": "v"}, {"name": "v"}]})
    assert found == ['spec.volumes[1].name: Duplicate value: "v"']


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("./html", 'Invalid value: "./html": must be an absolute path'),
        ("html", 'Invalid value: "html": must be an absolute path'),
        ("/a/../etc", "Invalid value: \"/a/../etc\": must not contain '..'"),
    ],
)
def test_B47_a_host_path_is_absolute_and_has_no_backsteps(path: str, problem: str) -> None:
    found = problems({"volumes": [{"name": "v", "hostPath": {"path": path}}]})
    assert found == [f"spec.volumes[0].hostPath.path: {problem}"]


def test_pod_level_resources_hold_those_of_the_containers() -> None:
    found = problems(
        {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}},
        resources={"limits": {"cpu": "2"}, "requests": {"cpu": "2"}},
    )
    assert found == [
        (
            'spec.containers[0].resources.limits[cpu]: Invalid value: "2": must be less than or '
            "equal to pod limits of 1"
        ),
        (
            'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to '
            "aggregate container requests of 2"
        ),
    ]
