from pathlib import Path
from typing import Any

import pytest
import yaml

from minikubelet.config.config import Config
from minikubelet.config.effective import configz
from minikubelet.config.load import ConfigError, load

HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}

KUBEADM = [
    "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
    "--kubeconfig=/etc/kubernetes/kubelet.conf",
    "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
    "--node-ip=172.18.0.2",
    "--node-labels=",
    "--pod-infra-container-image=example.test/pause:3.9",
    "--provider-id=kind://docker/kind/kind-control-plane",
    "--runtime-cgroups=/system.slice/containerd.service",
    "--hostname-override=Node-1",
]

KIND_FILE: dict[str, Any] = {
    **HEAD,
    "address": "::",
    "authentication": {
        "anonymous": {"enabled": False},
        "webhook": {"cacheTTL": "0s", "enabled": True},
        "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
    },
    "authorization": {"mode": "Webhook", "webhook": {"cacheAuthorizedTTL": "0s"}},
    "cgroupDriver": "systemd",
    "cgroupRoot": "/kubelet",
    "clusterDNS": ["10.96.0.10"],
    "clusterDomain": "cluster.local",
    "containerRuntimeEndpoint": "",
    "cpuManagerReconcilePeriod": "0s",
    "crashLoopBackOff": {},
    "evictionHard": {"nodefs.available": "0%"},
    "failSwapOn": False,
    "fileCheckFrequency": "0s",
    "healthzBindAddress": "127.0.0.1",
    "healthzPort": 10248,
    "imageGCHighThresholdPercent": 100,
    "logging": {"flushFrequency": 0, "options": {"json": {"infoBufferSize": "0"}}, "verbosity": 0},
    "memorySwap": {},
    "rotateCertificates": True,
    "staticPodPath": "/etc/kubernetes/manifests",
    "syncFrequency": "0s",
}


def file_of(path: Path, **fields: Any) -> str:
    path.write_text(yaml.safe_dump({**HEAD, **fields}))
    return f"--config={path}"


def faults(*arguments: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load([*arguments, "--hostname-override=n1"])
    return list(caught.value.problems)


def loaded(*arguments: str) -> Config:
    return load([*arguments, "--hostname-override=n1"])


def test_defaults_are_the_kubelet_s() -> None:
    config = loaded()
    assert config.root_dir == "/var/lib/kubelet"
    assert config.container_runtime_endpoint == "unix:///run/containerd/containerd.sock"
    assert config.image_service_endpoint == config.container_runtime_endpoint
    assert (config.max_pods, config.pod_pids_limit) == (110, -1)
    assert (config.file_check_frequency, config.http_check_frequency) == (20, 20)
    assert (config.healthz_bind_address, config.healthz_port) == ("127.0.0.1", 10248)
    assert (config.serialize_image_pulls, config.cpu_cfs_quota_period) == (True, 0.1)
    assert config.max_container_restart_period == 300
    assert config.static_pod_path == ""
    assert config.warnings == ()


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    argument = file_of(tmp_path / "c", maxPods=5, staticPodPath="/a", fileCheckFrequency="5s")
    config = loaded(argument, "--pod-manifest-path=/b")
    assert (config.max_pods, config.static_pod_path, config.file_check_frequency) == (5, "/b", 5)


def test_zero_means_the_default_where_the_kubelet_has_no_pointer(tmp_path: Path) -> None:
    argument = file_of(
        tmp_path / "c",
        maxPods=0,
        syncFrequency="0s",
        healthzPort=0,
        registryPullQPS=0,
        resolvConf="",
    )
    config = loaded(argument)
    assert (config.max_pods, config.sync_frequency) == (110, 60)
    assert (config.healthz_port, config.registry_pull_qps, config.resolv_conf) == (0, 0, "")


@pytest.mark.parametrize(
    ("with_file", "fields", "arguments", "fail"),
    [
        (False, {}, [], False),
        (True, {}, [], True),
        (True, {"failCgroupV1": False}, [], False),
        (False, {}, ["--fail-cgroupv1"], True),
    ],
)
def test_with_flags_alone_it_starts_on_cgroup_v1(
    tmp_path: Path, with_file: bool, fields: dict[str, Any], arguments: list[str], fail: bool
) -> None:
    given = [file_of(tmp_path / "c", **fields)] if with_file else []
    assert loaded(*given, *arguments).fail_cgroup_v1 is fail


def test_the_command_line_of_kubeadm_and_kind_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(KIND_FILE))
    config = load([f"--config={path}", *KUBEADM])
    assert config.node_name == "node-1"
    assert config.node_ips == ("172.18.0.2",)
    assert config.static_pod_path == "/etc/kubernetes/manifests"
    assert (config.cgroup_driver, config.cgroup_root) == ("systemd", "/kubelet")
    assert config.kubeconfig == "/etc/kubernetes/kubelet.conf"
    assert config.bootstrap_kubeconfig == "/etc/kubernetes/bootstrap-kubelet.conf"
    assert (config.rotate_certificates, config.server_tls_bootstrap) == (True, False)
    assert config.provider_id == "kind://docker/kind/kind-control-plane"
    assert config.node_labels == {}
    names = {warning.partition(" ")[0] for warning in config.warnings}
    assert names == {
        "--pod-infra-container-image",
        "--runtime-cgroups",
        "evictionHard",
        "imageGCHighThresholdPercent",
    }
    assert all("has no effect here: " in warning for warning in config.warnings)


def test_relative_paths_of_a_file_are_relative_to_it(tmp_path: Path) -> None:
    config = loaded(file_of(tmp_path / "c", staticPodPath="manifests/"))
    assert config.static_pod_path == f"{tmp_path}/manifests"


def test_drop_ins_are_merged_in_order_of_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    (folder / "sub").mkdir(parents=True)
    main = file_of(tmp_path / "c", maxPods=1, clusterDNS=["1.1.1.1"], logging={"verbosity": 1})
    file_of(folder / "20.conf", maxPods=3, logging={"format": "json"})
    file_of(folder / "10.conf", maxPods=2, clusterDNS=["2.2.2.2"])
    file_of(folder / "sub" / "x.yaml", maxPods=9)
    config = loaded(main, f"--config-dir={folder}")
    assert (config.max_pods, config.cluster_dns) == (3, ("2.2.2.2",))
    assert (config.log_verbosity, config.log_format) == (1, "json")


def test_headers_of_the_file_and_of_flags(tmp_path: Path) -> None:
    argument = file_of(tmp_path / "c", staticPodURLHeader={"A": ["1", "2"]})
    assert loaded(argument).static_pod_url_headers == (("A", "1"), ("A", "2"))
    flags = loaded(argument, "--manifest-url-header=B:3")
    assert flags.static_pod_url_headers == (("B", "3"),)


def test_feature_gates_of_flags_are_added_to_those_of_the_file(tmp_path: Path) -> None:
    config = loaded(file_of(tmp_path / "c", featureGates={"A": True}), "--feature-gates=B=false")
    assert config.document["featureGates"] == {"A": True, "B": False}


@pytest.mark.parametrize(("per_core", "limit"), [(0, 7), (1000, 7)])
def test_pods_per_core_only_lowers_the_limit(per_core: int, limit: int) -> None:
    assert loaded("--max-pods=7", f"--pods-per-core={per_core}").max_pods == limit


def test_a_bare_path_is_a_socket() -> None:
    assert loaded("--container-runtime-endpoint=/x").container_runtime_endpoint == "unix:///x"


def test_parallel_pulls_end_serial_ones(tmp_path: Path) -> None:
    config = loaded(file_of(tmp_path / "c", maxParallelImagePulls=3))
    assert (config.serialize_image_pulls, config.max_parallel_image_pulls) == (False, 3)


class TestFaults:
    def test_all_are_told_at_once_with_place_and_path(self, tmp_path: Path) -> None:
        argument = file_of(tmp_path / "c", maxPods="5", clusterDNS="1.1.1.1")
        assert faults(argument, "--foo", "--healthz-port=x") == [
            "unknown flag: --foo",
            "--healthz-port: invalid value 'x': expected an integer",
            f'{tmp_path}/c:2: clusterDNS: expected list, got string "1.1.1.1"',
            f'{tmp_path}/c:4: maxPods: expected integer, got string "5"',
        ]

    @pytest.mark.parametrize(
        ("arguments", "fault"),
        [
            (["--max-pods=-1"], "maxPods (--max-pods): Invalid value: -1: must be between 0 and"),
            (["--healthz-port=65536"], "healthzPort (--healthz-port): Invalid value: 65536"),
            (["--cgroup-driver=x"], "cgroupDriver (--cgroup-driver): Unsupported value"),
            (["--cluster-dns=x"], "clusterDNS[0] (--cluster-dns): Invalid value"),
            (["--container-runtime-endpoint=tcp://x"], "must be a unix socket"),
            (["--container-runtime-endpoint="], "must be a unix socket"),
            (["--manifest-url=http://[::1"], "staticPodURL (--manifest-url): Invalid value"),
            (["--manifest-url=ftp://host/x"], "staticPodURL (--manifest-url): Invalid value"),
            (["--cgroup-root=/../.."], "cgroupRoot (--cgroup-root): Invalid value"),
            (["--root-dir="], "--root-dir: must name a folder"),
            (["--system-reserved=foo=1"], "systemReserved[foo] (--system-reserved): Unsupported"),
            (["--system-reserved=cpu=x"], "systemReserved[cpu] (--system-reserved): Invalid value"),
            (["--kube-reserved=cpu=-1"], "must be greater than or equal to 0"),
            (["--file-check-frequency=0s"], "must be greater than zero"),
            (["--cpu-cfs-quota-period=2s"], "must be between 1ms and 1sec, inclusive"),
            (["--image-gc-low-threshold=90"], "must be less than imageGCHighThresholdPercent 85"),
            (["--logging-format=xml"], "logging.format (--logging-format): Unsupported value"),
            (
                ["--config=/does/not/exist"],
                "cannot read configuration /does/not/exist: No such file",
            ),
            (["--config-dir=/does/not/exist"], "--config-dir: cannot read /does/not/exist"),
        ],
    )
    def test_values(self, arguments: list[str], fault: str) -> None:
        (told,) = faults(*arguments)
        assert fault in told

    @pytest.mark.parametrize(
        ("fields", "fault"),
        [
            (
                {"podLogsDir": "/a/../b", "maxParallelImagePulls": 0},
                "maxParallelImagePulls: Invalid",
            ),
            (
                {"serializeImagePulls": True, "maxParallelImagePulls": 2},
                "cannot be larger than 1 unless serializeImagePulls is false",
            ),
            (
                {"crashLoopBackOff": {"maxContainerRestartPeriod": "10m"}},
                "must be set between 1s and 300s",
            ),
            ({"syncFrequency": "1 minute"}, "is no duration such as 20s or 1m30s"),
            ({"kind": "Pod"}, "expected kind KubeletConfiguration of apiVersion kubelet.config"),
        ],
    )
    def test_fields(self, tmp_path: Path, fields: dict[str, Any], fault: str) -> None:
        (told,) = faults(file_of(tmp_path / "c", **fields))
        assert fault in told

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("a: [", "cannot read YAML"),
            ("", "expected one KubeletConfiguration"),
            ("5", "expected one"),
        ],
    )
    def test_files(self, tmp_path: Path, text: str, fault: str) -> None:
        (tmp_path / "c").write_text(text)
        (told,) = faults(f"--config={tmp_path}/c")
        assert fault in told

    def test_the_node_needs_a_name_that_pods_can_carry(self) -> None:
        with pytest.raises(ConfigError, match="'a_b' is no valid node name"):
            load(["--hostname-override=A_b"])


@pytest.mark.parametrize("strict", [False, True])
def test_an_unknown_field_is_a_warning_and_strictly_a_fault(tmp_path: Path, strict: bool) -> None:
    argument = file_of(tmp_path / "c", maxPod=5)
    expected = f"{tmp_path}/c:3: maxPod: unknown field, did you mean maxPods?"
    if strict:
        assert faults(argument, "--strict-config") == [expected]
    else:
        assert loaded(argument).warnings == (expected,)


def test_a_field_at_its_default_is_no_warning(tmp_path: Path) -> None:
    assert loaded(file_of(tmp_path / "c", enableServer=True, port=10250)).warnings == ()


def test_configz_shows_everything_but_credentials(tmp_path: Path) -> None:
    argument = file_of(tmp_path / "c", staticPodURLHeader={"Authorization": ["secret"]}, maxPods=3)
    shown = configz(loaded(argument))["kubeletconfig"]
    assert shown["staticPodURLHeader"] == {"Authorization": ["<masked>"]}
    assert (shown["maxPods"], shown["syncFrequency"]) == (3, "1m0s")
    assert shown["kind"] == "KubeletConfiguration"
    assert shown["apiVersion"] == "kubelet.config.k8s.io/v1beta1"
