"""What this machine is: counted, named and addressed without starting any program.

Parsing is apart from reading, so that other machines' files can be tested. Source of the address
rule: apimachinery pkg/util/net/interface.go ChooseHostInterface.
"""

import fcntl
import ipaddress
import os
import re
import shutil
import socket
import struct
from pathlib import Path

_SIOCGIFADDR = 0x8915
_IFF_UP_ROUTE = 0x1
_NAME_BYTES = 15
_SYSTEM_UUIDS = ("/sys/class/dmi/id/product_uuid", "/proc/device-tree/vm,uuid")
_HUGEPAGES = Path("/sys/kernel/mm/hugepages")
_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")


def cpu_count() -> int:
    """Return the number of CPUs that are online."""
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Return the machine's memory in bytes."""
    return parse_memory(Path("/proc/meminfo").read_text())


def parse_memory(meminfo: str) -> int:
    """Return MemTotal of /proc/meminfo in bytes. Pure."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", meminfo, re.MULTILINE)
    if found is None:
        raise OSError("cannot read the machine's memory: no MemTotal in /proc/meminfo")
    return int(found[1]) * 1024


def boot_id() -> str:
    """Return the id of this boot: another after each reboot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def machine_id() -> str:
    """Return the id of this installation; empty where the system has none."""
    for name in _MACHINE_IDS:
        try:
            return Path(name).read_text().strip()
        except OSError:
            continue
    return ""


def system_uuid() -> str:
    """Return the id that the firmware gives the machine, else the installation's."""
    for name in _SYSTEM_UUIDS:
        try:
            return Path(name).read_text().strip().strip("\0")
        except OSError:
            continue
    return machine_id()


def os_image() -> str:
    """Return the name of the distribution, as people read it; empty where it is unknown."""
    for name in ("/etc/os-release", "/usr/lib/os-release"):
        try:
            return parse_os_release(Path(name).read_text())
        except OSError:
            continue
    return ""


def parse_os_release(text: str) -> str:
    """Return PRETTY_NAME of an os-release file. Pure."""
    found = re.search(r"^PRETTY_NAME=(.*)$", text, re.MULTILINE)
    return found[1].strip().strip("\"'") if found else ""


def architecture() -> str:
    """Return the machine's architecture by Go's name, as in the label kubernetes.io/arch."""
    name = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(name, name)


def has_app_armor() -> bool:
    """Tell whether the kernel enforces AppArmor profiles."""
    try:
        return Path("/sys/module/apparmor/parameters/enabled").read_text().startswith("Y")
    except OSError:
        return False


def swap_bytes() -> int:
    """Return the size of all swap in bytes."""
    found = re.search(r"^SwapTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def disk_bytes(folder: str) -> int:
    """Return the size of the file system that holds a folder, which need not exist yet."""
    path = Path(folder)
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).total


def hugepages() -> dict[int, int]:
    """Return the bytes reserved in huge pages, by page size in bytes."""
    found = {}
    for entry in _HUGEPAGES.glob("hugepages-*kB"):
        size = int(entry.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
        found[size] = int((entry / "nr_hugepages").read_text()) * size
    return found


def kernel_version() -> str:
    """Return the kernel's release as `uname -r` shows it."""
    return os.uname().release


def kernel_numbers(release: str) -> tuple[int, int]:
    """Return the first two numbers of a kernel release; (0, 0) when it has none. Pure."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def hostname() -> str:
    """Return the host's name as a node is called: lower case, trimmed."""
    return socket.gethostname().strip().lower()


def internal_ip(prefer_ipv6: bool = False) -> str | None:  # noqa: FBT001, FBT002  threads take no names
    """Return the node's own address, or None on a machine without any.

    IPv4 of the interface with the default route, else the first global IPv4 of any interface,
    else the first global IPv6; that one first where it is preferred.
    """
    if prefer_ipv6 and (found := _internal_ipv6()):
        return found
    names = [name for _, name in socket.if_nameindex()]
    default = default_interface(Path("/proc/net/route").read_text())
    for name in ([default] if default else []) + names:
        address = _ipv4_of(name)
        if address is not None and _is_global(address):
            return address
    return _internal_ipv6()


def _internal_ipv6() -> str | None:
    try:
        return first_global_ipv6(Path("/proc/net/if_inet6").read_text())
    except OSError:  # a kernel without IPv6
        return None


def is_local(address: str) -> bool:
    """Tell whether an interface of this machine has the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def default_interface(route: str) -> str | None:
    """Return the interface of the default route with the lowest metric in /proc/net/route. Pure."""
    best: tuple[int, str] | None = None
    for line in route.splitlines()[1:]:
        fields = line.split()
        name, destination, flags, metric, mask = (fields[index] for index in (0, 1, 3, 6, 7))
        is_default = int(destination, 16) == 0 and int(mask, 16) == 0
        if is_default and int(flags, 16) & _IFF_UP_ROUTE:
            best = min(best or (int(metric), name), (int(metric), name))
    return best[1] if best else None


def first_global_ipv6(if_inet6: str) -> str | None:
    """Return the first address of global scope in /proc/net/if_inet6. Pure."""
    for line in if_inet6.splitlines():
        digits, _, _, scope, _, _ = line.split()
        address = str(ipaddress.IPv6Address(int(digits, 16)))
        if int(scope, 16) == 0 and _is_global(address):
            return address
    return None


def _is_global(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_multicast)


def _ipv4_of(interface: str) -> str | None:
    request = struct.pack("256s", interface.encode()[:_NAME_BYTES])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            reply = fcntl.ioctl(probe, _SIOCGIFADDR, request)
        except OSError:  # the interface has no IPv4 address
            return None
    return socket.inet_ntoa(reply[20:24])
