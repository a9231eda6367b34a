"""When a certificate is asked for, and which one: decisions in time."""

import pytest

from minikubelet.node.certificates import (
    CLIENT_SIGNER,
    HOPELESS_AFTER,
    SERVING_SIGNER,
    Held,
    Template,
    client_template,
    is_hopeless,
    is_valid,
    pause_after,
    rotate_at,
    satisfies,
    serving_template,
)

CLIENT = client_template("n1")
CLIENT_HELD = Held(1000, 2000, "system:node:n1", ("system:nodes",))


def test_the_client_certificate_names_node_and_group() -> None:
    assert client_template("node-a") == Template(
        CLIENT_SIGNER, "system:node:node-a", ("system:nodes",)
    )
    assert CLIENT.usages == ("digital signature", "client auth")


@pytest.mark.parametrize(
    ("addresses", "names", "ips"),
    [
        pytest.param(
            [("InternalIP", "10.0.0.1"), ("Hostname", "n1")], ("n1",), ("10.0.0.1",), id="usual"
        ),
        pytest.param([("Hostname", "10.0.0.1")], (), ("10.0.0.1",), id="hostname is an address"),
        pytest.param(
            [
                ("ExternalIP", "198.51.100.7"),
                ("InternalIP", "10.0.0.1"),
                ("InternalIP", "fd00:0::1"),
                ("InternalDNS", "n1.local"),
                ("ExternalDNS", "n1.example.com"),
                ("InternalIP", "10.0.0.1"),
            ],
            ("n1.example.com", "n1.local"),
            ("10.0.0.1", "198.51.100.7", "fd00::1"),
            id="of a cloud",
        ),
        pytest.param(
            [("InternalIP", "n1"), ("InternalDNS", "10.0.0.9"), ("ExternalIP", "10.0.0.1")],
            (),
            ("10.0.0.1",),
            id="what isn't what its type says",
        ),
    ],
)
def test_the_serving_certificate_names_the_node_s_addresses(
    addresses: list[tuple[str, str]], names: tuple[str, ...], ips: tuple[str, ...]
) -> None:
    entries = [{"type": kind, "address": text} for kind, text in addresses]
    template = serving_template("n1", entries)
    assert template == Template(SERVING_SIGNER, "system:node:n1", ("system:nodes",), names, ips)
    assert template.usages == ("digital signature", "server auth")


@pytest.mark.parametrize(
    "addresses", [[], [{"type": "Hostname", "address": "n1"}], [{"type": "InternalIP"}]]
)
def test_without_an_address_there_is_nothing_to_ask_for(addresses: list[dict[str, str]]) -> None:
    assert serving_template("n1", addresses) is None


@pytest.mark.parametrize(
    ("share", "at"), [(0.0, 1700), (0.5, 1800), (0.9999, pytest.approx(1900, abs=1))]
)
def test_a_certificate_is_renewed_between_70_and_90_percent_of_its_lifetime(
    share: float, at: float
) -> None:
    assert rotate_at(CLIENT_HELD, CLIENT, share) == at


@pytest.mark.parametrize(
    ("held", "forced"),
    [
        pytest.param(None, False, id="there is none"),
        pytest.param(CLIENT_HELD, True, id="it came with the bootstrap credential"),
        pytest.param(
            Held(1000, 2000, "system:node:n2", ("system:nodes",)), False, id="another node's"
        ),
        pytest.param(Held(1000, 2000, "system:node:n1"), False, id="without the group"),
    ],
)
def test_it_is_asked_for_at_once(held: Held | None, forced: bool) -> None:
    assert rotate_at(held, CLIENT, 0.5, forced=forced) == 0


def test_a_short_one_that_was_dated_back_counts_from_when_it_came() -> None:
    held = Held(1000 - 300, 1060, "system:node:n1", ("system:nodes",))
    assert rotate_at(held, CLIENT, 0.0) < 1000
    assert rotate_at(held, CLIENT, 0.0, begins=1000) == pytest.approx(1042)


@pytest.mark.parametrize(
    ("names", "ips", "good"),
    [
        (("n1",), ("10.0.0.1",), True),
        (("n1", "old"), ("10.0.0.1", "10.0.0.2"), True),
        ((), ("10.0.0.1",), False),
        (("n1",), ("10.0.0.2",), False),
    ],
)
def test_a_new_address_needs_a_new_certificate(
    names: tuple[str, ...], ips: tuple[str, ...], good: bool
) -> None:
    addresses = [
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "Hostname", "address": "n1"},
    ]
    template = serving_template("n1", addresses)
    assert template is not None
    held = Held(0, 1, "system:node:n1", ("system:nodes",), names, ips)
    assert satisfies(held, template) is good


def test_pauses_double_from_five_seconds_to_thirty_two() -> None:
    assert [pause_after(n, 0.0) for n in range(1, 8)] == [5, 5, 8, 16, 32, 32, 32]
    assert pause_after(5, 1.0) == pytest.approx(35.2)
    assert pause_after(2000, 0.0) == 32


@pytest.mark.parametrize(("now", "valid"), [(999, True), (1999, True), (2000, False)])
def test_a_certificate_counts_until_it_ends(now: float, valid: bool) -> None:
    assert is_valid(CLIENT_HELD, now) is valid
    assert not is_valid(None, now)


@pytest.mark.parametrize(
    ("seconds", "answers", "hopeless"),
    [
        (HOPELESS_AFTER - 1, True, False),
        (HOPELESS_AFTER, True, True),
        (10 * HOPELESS_AFTER, False, False),
    ],
)
def test_only_while_the_server_answers_a_restart_can_help(
    seconds: float, answers: bool, hopeless: bool
) -> None:
    assert is_hopeless(seconds, server_answers=answers) is hopeless
