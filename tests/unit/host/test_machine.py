"""Reading the kernel's tables, of this and of other machines."""

import ipaddress
import os

import pytest

from minikubelet.host import machine

ROUTE = """\
Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT
wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth1\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth2\t00000000\t0101A8C0\t0000\t0\t0\t0\t00000000\t0\t0\t0
eth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
vpn\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0
"""
INET6 = """\
00000000000000000000000000000001 01 80 10 80       lo
fe8000000000000000fc00fffe000001 02 40 20 80     eth0
20010db8000000000000000000000002 02 40 00 80     eth0
"""


def test_the_default_route_with_the_lowest_metric_that_is_up_counts() -> None:
    assert machine.default_interface(ROUTE) == "eth1"
    assert machine.default_interface(ROUTE.splitlines()[0]) is None


def test_link_local_addresses_are_passed_over() -> None:
    assert machine.first_global_ipv6(INET6) == "2001:db8::2"
    assert machine.first_global_ipv6("\n".join(INET6.splitlines()[:2])) is None


def test_memory_is_read_in_bytes() -> None:
    assert machine.parse_memory("MemFree: 1 kB\nMemTotal:       24731708 kB\n") == 24731708 * 1024
    with pytest.raises(OSError, match="no MemTotal"):
        machine.parse_memory("")


@pytest.mark.parametrize(
    ("release", "numbers"),
    [("6.18.44-fc-v657", (6, 18)), ("5.4.0", (5, 4)), ("unknown", (0, 0))],
)
def test_kernel_releases_have_two_numbers(release: str, numbers: tuple[int, int]) -> None:
    assert machine.kernel_numbers(release) == numbers


def test_this_machine_answers_everything() -> None:
    assert machine.cpu_count() >= 1
    assert machine.memory_bytes() > 1 << 20
    assert len(machine.boot_id()) == 36
    assert machine.kernel_version() == os.uname().release
    assert machine.hostname() == machine.hostname().lower()
    address = machine.internal_ip()
    assert address is None or not ipaddress.ip_address(address).is_loopback
