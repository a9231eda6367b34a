"""What a container of a manifest is on the real runtime: command, environment, user, powers, end.

Most tests run one pod to its end and read what its containers saw.
"""

from pathlib import Path
from typing import Any

import anyio
import pytest

from minikubelet.host.cgroups import detect
from tests.containerds import BUSYBOX
from tests.e2e.agent import FOREVER, Agent, a_manifest, a_shell

pytestmark = pytest.mark.anyio

IMAGES = BUSYBOX.removesuffix(":1")
STATUS = "grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status"
DEFAULT_CAPABILITIES = 0x00000000A80425FB
NET_ADMIN, SYS_ADMIN = 1 << 12, 1 << 21


def a_command(name: str, *command: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": BUSYBOX, "command": list(command), **fields}


def proc_status(output: str) -> dict[str, int]:
    """Return the fields of /proc/self/status, all of them hexadecimal."""
    pairs = (line.split(":") for line in output.splitlines() if ":" in line)
    return {name: int(value, 16) for name, value in pairs}


async def test_B43_command_and_args_beside_the_image_s_own(node: Agent) -> None:
    image = f"{IMAGES}:entrypoint"
    said = await node.outputs(
        "entrypoint",
        {"name": "none", "image": image},
        {"name": "args", "image": image, "args": ["mine"]},
        {"name": "command", "image": image, "command": ["/bin/echo", "other"]},
        {"name": "both", "image": image, "command": ["/bin/echo", "other"], "args": ["mine"]},
    )
    assert said == {
        "none": "entrypoint cmd\n",
        "args": "entrypoint mine\n",
        "command": "other\n",
        "both": "other mine\n",
    }


async def test_B41_variables_in_the_order_of_the_list(node: Agent) -> None:
    def show(name: str, *env: tuple[str, str]) -> dict[str, Any]:
        listed = [{"name": key, "value": value} for key, value in env]
        return a_shell(name, 'echo "$X"', env=listed)

    said = await node.outputs(
        "variables",
        show("later", ("X", "$(Y).x"), ("Y", "1")),
        show("earlier", ("Y", "1"), ("X", "$(Y).x")),
        show("twice", ("X", "1"), ("X", "2")),
        show("twice-between", ("Y", "1"), ("X", "$(Y)"), ("Y", "2")),
        show("escaped", ("Y", "1"), ("X", "$$(Y)")),
    )
    assert said == {
        "later": "$(Y).x\n",
        "earlier": "1.x\n",
        "twice": "2\n",
        "twice-between": "1\n",
        "escaped": "$(Y)\n",
    }


async def test_B42_variables_in_command_and_args(node: Agent) -> None:
    env = [{"name": "FOO", "value": "BAR"}, {"name": "PROGRAM", "value": "/bin/echo"}]
    said = await node.outputs(
        "expanded", a_command("main", "$(PROGRAM)", args=["$(FOO) $(NOPE) $$(FOO)"], env=env)
    )
    assert said == {"main": "BAR $(NOPE) $(FOO)\n"}


async def test_B26_an_image_without_path_in_init_and_regular_containers(node: Agent) -> None:
    listing = {"image": f"{IMAGES}:nopath", "command": ["ls", "/bin/busybox"]}
    said = await node.outputs(
        "nopath", {"name": "main", **listing}, initContainers=[{"name": "init", **listing}]
    )
    assert said["main"] == await node.output("nopath", "init") == "/bin/busybox\n"


async def test_B44_host_network_pods_know_the_node_s_address(node: Agent) -> None:
    env = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in (("POD", "status.podIP"), ("HOST", "status.hostIP"))
    ]
    said = await node.outputs(
        "hostnet", a_shell("main", "echo $POD $HOST", env=env), hostNetwork=True
    )
    pod, host = said["main"].split()
    assert pod == host == (await node.status("hostnet"))["hostIP"]


async def test_fields_and_resources_as_variables(node: Agent) -> None:
    fields = {
        "NAME": "metadata.name",
        "NAMESPACE": "metadata.namespace",
        "UID": "metadata.uid",
        "LABEL": "metadata.labels['app']",
        "SOURCE": "metadata.annotations['kubernetes.io/config.source']",
        "NODE": "spec.nodeName",
        "IP": "status.podIP",
    }
    resources = {"CPU": ("limits.cpu", "1m"), "MEMORY": ("requests.memory", "1Mi")}
    env: list[dict[str, Any]] = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in fields.items()
    ]
    env += [
        {"name": name, "valueFrom": {"resourceFieldRef": {"resource": path, "divisor": divisor}}}
        for name, (path, divisor) in resources.items()
    ]
    limits = {"limits": {"cpu": "250m", "memory": "64Mi"}, "requests": {"memory": "32Mi"}}
    names = " ".join(f"{name}=${name}" for name in (*fields, *resources))
    await node.run("fields", a_shell("main", f"echo {names}; {FOREVER}", env=env, resources=limits))
    said = dict(word.split("=") for word in (await node.said("fields", "main")).split())
    pod = (await node.pods())["fields"]
    assert said == {
        "NAME": "fields-shared",
        "NAMESPACE": "default",
        "UID": pod["metadata"]["uid"],
        "LABEL": "fields",
        "SOURCE": "file",
        "NODE": "shared",
        "IP": pod["status"]["podIP"],
        "CPU": "250",
        "MEMORY": "32",
    }


async def test_users_groups_and_the_working_directory(node: Agent) -> None:
    context = {
        "runAsUser": 1234,
        "runAsGroup": 2345,
        "fsGroup": 3456,
        "supplementalGroups": [4567],
    }
    own = {"runAsUser": 4321, "runAsGroup": 5432}
    show = "echo $(id -u) $(id -g) $(id -G | tr ' ' '\\n' | sort | tr '\\n' ' '); pwd"
    volume = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    said = await node.outputs(
        "users",
        a_shell("pod", show),
        a_shell("own", show, securityContext=own, workingDir="/usr/bin"),
        a_shell("volume", "touch /data/x && stat -c '%g %a' /data && stat -c %g /data/x", **volume),
        securityContext=context,
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    assert said == {
        "pod": "1234 2345 2345 3456 4567\n/\n",
        "own": "4321 5432 3456 4567 5432\n/usr/bin\n",
        "volume": "3456 2777\n3456\n",
    }


async def test_B49_the_image_s_user_and_run_as_non_root(node: Agent) -> None:
    def who(name: str, tag: str, **context: Any) -> dict[str, Any]:
        script = f"echo $(id -u); {FOREVER}"
        return a_shell(name, script) | {"image": f"{IMAGES}:{tag}", "securityContext": context}

    pod = a_manifest(
        "nonroot",
        who("named", "nobody"),
        who("named-nonroot", "nobody", runAsNonRoot=True),
        who("number-nonroot", "uid", runAsNonRoot=True),
        who("root-nonroot", "1", runAsNonRoot=True),
        who("overridden", "nobody", runAsNonRoot=True, runAsUser=77),
    )
    node.write("nonroot.yaml", pod)
    names = ("named", "number-nonroot", "overridden")

    async def written() -> bool:
        return all([await node.output("nonroot", name) for name in names])

    await node.wait_until("the good ones run", written)
    said = [await node.output("nonroot", name) for name in names]
    assert said == ["65534\n", "1000\n", "77\n"]
    expected = {
        "named-nonroot": "container has runAsNonRoot and image has non-numeric user (nobody)",
        "root-nonroot": "container has runAsNonRoot and image will run as root",
    }
    for name, message in expected.items():
        waiting = (await node.container_status("nonroot", name))["state"]["waiting"]
        assert waiting["reason"] == "CreateContainerConfigError"
        assert waiting["message"].startswith(message)


async def test_capabilities_and_privileges(node: Agent) -> None:
    def powers(name: str, **context: Any) -> dict[str, Any]:
        return a_shell(name, STATUS, securityContext=context)

    said = await node.outputs(
        "powers",
        powers("default"),
        powers("added", capabilities={"add": ["NET_ADMIN"]}),
        powers("dropped", capabilities={"drop": ["ALL"], "add": ["NET_ADMIN"]}),
        powers("privileged", privileged=True),
        powers("no-escalation", allowPrivilegeEscalation=False),
        powers("seccomp", seccompProfile={"type": "RuntimeDefault"}),
    )
    seen = {name: proc_status(output) for name, output in said.items()}
    assert seen["default"]["CapEff"] == DEFAULT_CAPABILITIES
    assert seen["added"]["CapEff"] == DEFAULT_CAPABILITIES | NET_ADMIN
    assert seen["dropped"]["CapEff"] == NET_ADMIN
    assert seen["privileged"]["CapEff"] & SYS_ADMIN
    assert [seen[name]["NoNewPrivs"] for name in ("default", "no-escalation")] == [0, 1]
    assert [seen[name]["Seccomp"] for name in ("default", "seccomp", "privileged")] == [0, 2, 0]


async def test_a_seccomp_profile_of_the_node(node: Agent) -> None:
    profile = node.root / "seccomp" / "profiles" / "no-mkdir.json"
    profile.parent.mkdir(parents=True)
    profile.write_text(
        '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls":'
        ' [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}'
    )
    context = {"type": "Localhost", "localhostProfile": "profiles/no-mkdir.json"}
    said = await node.outputs(
        "seccomp",
        a_shell("plain", "mkdir /x && echo made"),
        a_shell("profile", "mkdir /x || echo refused", securityContext={"seccompProfile": context}),
    )
    assert said["plain"] == "made\n"
    assert "refused\n" in said["profile"]


async def test_what_of_the_file_system_is_read_only_or_hidden(node: Agent) -> None:
    show = (
        "touch /x 2>/dev/null && echo root; "
        "echo pod 2>/dev/null >/proc/sys/kernel/domainname && echo sys; "
        "test -c /proc/timer_list && echo masked; true"
    )
    said = await node.outputs(
        "readonly",
        a_shell("default", show),
        a_shell("readonly", show, securityContext={"readOnlyRootFilesystem": True}),
        a_shell("privileged", show, securityContext={"privileged": True}),
    )
    masked = "masked\n" if Path("/proc/timer_list").exists() else ""
    assert said == {"default": f"root\n{masked}", "readonly": masked, "privileged": "root\nsys\n"}


async def test_sysctls_of_the_pod(node: Agent) -> None:
    sysctls = [{"name": "net.ipv4.ip_local_port_range", "value": "20000 30000"}]
    said = await node.outputs(
        "sysctls",
        a_shell("main", "cat /proc/sys/net/ipv4/ip_local_port_range"),
        securityContext={"sysctls": sysctls},
    )
    assert said["main"].split() == ["20000", "30000"]


async def test_namespaces_of_the_node(node: Agent) -> None:
    show = "for each in net pid ipc; do readlink /proc/self/ns/$each; done"
    own = [str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("net", "pid", "ipc")]
    pods: dict[str, dict[str, bool]] = {
        "ns-default": {},
        "ns-net": {"hostNetwork": True},
        "ns-pid-ipc": {"hostPID": True, "hostIPC": True},
    }
    said: dict[str, list[str]] = {}

    async def run(name: str) -> None:
        said[name] = (await node.outputs(name, a_shell("main", show), **pods[name]))["main"].split()

    async with anyio.create_task_group() as group:
        for name in pods:
            group.start_soon(run, name)
    shared = {
        name: [mine == theirs for mine, theirs in zip(own, seen, strict=True)]
        for name, seen in said.items()
    }
    assert shared == {
        "ns-default": [False, False, False],
        "ns-net": [True, False, False],
        "ns-pid-ipc": [False, True, True],
    }


async def test_a_process_namespace_shared_by_the_pod_s_containers(node: Agent) -> None:
    show = f"readlink /proc/self/ns/pid; cat /proc/1/comm; {FOREVER}"
    containers = [a_shell(name, show) for name in ("a", "b")]
    await node.run("sharedpid", *containers, shareProcessNamespace=True)
    await node.run("ownpid", *containers)
    pids = [await node.said("sharedpid", name, 2) for name in ("a", "b")]
    assert pids[0] == pids[1]
    assert pids[0].endswith("\npause\n")
    own = [await node.said("ownpid", name, 2) for name in ("a", "b")]
    assert own[0] != own[1]


async def test_standard_input_and_terminals(node: Agent) -> None:
    await node.run(
        "terminal",
        a_shell("tty", f"test -t 0 && test -t 1 && echo terminal; {FOREVER}", stdin=True, tty=True),
        a_shell("plain", f"test -t 1 || echo none; cat; echo end of input; {FOREVER}"),
        a_shell("stdin", f"{{ cat; echo end of input; }} & {FOREVER}", stdin=True),
    )
    await node.wait_until("plain input ends", lambda: plain_ended(node))
    assert (await node.said("terminal", "tty")).strip() == "terminal"
    assert await node.output("terminal", "plain") == "none\nend of input\n"


async def plain_ended(node: Agent) -> bool:
    return (await node.output("terminal", "plain")).endswith("end of input\n")


async def test_termination_messages(node: Agent) -> None:
    fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    await node.outputs(
        "messages",
        a_shell("file", "echo log; printf told > /dev/termination-log; exit 3"),
        a_shell("path", "printf here > /var/end", terminationMessagePath="/var/end"),
        a_shell("none", "echo log; exit 3"),
        a_shell("logs", "echo first; sleep 0.1; echo last >&2; exit 3", **fallback),
        a_shell("logs-success", "echo log", **fallback),
    )
    statuses = (await node.status("messages"))["containerStatuses"]
    ends = {each["name"]: each["state"]["terminated"] for each in statuses}
    found = {name: (end["exitCode"], end.get("message", "")) for name, end in ends.items()}
    assert found == {
        "file": (3, "told"),
        "path": (0, "here"),
        "none": (3, ""),
        "logs": (3, "first\nlast\n"),
        "logs-success": (0, ""),
    }
    assert {end["reason"] for end in ends.values()} == {"Error", "Completed"}


async def test_a_container_that_takes_too_much_memory_is_oom_killed(node: Agent) -> None:
    limit = {"limits": {"memory": "32Mi"}}
    await node.outputs("oom", a_command("main", "/bin/tail", "/dev/zero", resources=limit))
    ended = (await node.container_status("oom", "main"))["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
    assert (await node.status("oom"))["phase"] == "Failed"


async def test_cgroups_of_pods_and_containers(node: Agent) -> None:
    hierarchies = detect()
    if hierarchies.version != 1:
        pytest.skip("needs cgroup v1")
    amounts: dict[str, dict[str, Any]] = {
        "besteffort": {},
        "burstable": {
            "requests": {"cpu": "250m"},
            "limits": {"cpu": "500m", "memory": "64Mi"},
        },
        "guaranteed": {"limits": {"cpu": "100m", "memory": "32Mi"}},
    }
    async with anyio.create_task_group() as group:
        for name, resources in amounts.items():
            group.start_soon(node.run, name, a_shell("main", FOREVER, resources=resources))
    uids = {name: (await node.pods())[name]["metadata"]["uid"] for name in amounts}
    paths = {
        "besteffort": f"kubepods/besteffort/pod{uids['besteffort']}",
        "burstable": f"kubepods/burstable/pod{uids['burstable']}",
        "guaranteed": f"kubepods/pod{uids['guaranteed']}",
    }
    cpu, memory = (hierarchies.v1[name] / node.cgroup for name in ("cpu", "memory"))

    def values(path: str) -> tuple[int, int, int]:
        return (
            int((cpu / path / "cpu.shares").read_text()),
            int((cpu / path / "cpu.cfs_quota_us").read_text()),
            int((memory / path / "memory.limit_in_bytes").read_text()),
        )

    container = (await node.containers("burstable", "main"))[0].id
    unlimited = int((hierarchies.v1["memory"] / "memory.limit_in_bytes").read_text())
    assert values(paths["besteffort"]) == (2, -1, unlimited)
    assert values(paths["burstable"]) == (256, 50000, 64 << 20)
    assert values(f"{paths['burstable']}/{container}") == (256, 50000, 64 << 20)
    assert values(paths["guaranteed"]) == (102, 10000, 32 << 20)
    for name in amounts:
        node.remove(f"{name}.yaml")
        await node.wait_gone(name)
    left = [path for path in paths.values() for root in (cpu, memory) if (root / path).exists()]
    assert left == []
