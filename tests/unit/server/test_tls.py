"""Handshakes with the port: who gets in, how new files count, what a certificate is worth later."""

import asyncio
import ssl
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from minikubelet.server.tls import KeyPair, ServingTLS
from tests.unit.server.pki import SERVER, Authority
from tests.unit.server.port import Port, a_port

pytestmark = pytest.mark.anyio


async def test_a_certificate_of_the_client_ca_gets_in_and_nobody_else(tmp_path: Path) -> None:
    async with a_port(tmp_path) as port:
        assert await port.answer("GET", "/healthz") == (200, "ok")
        assert await port.anonymous("/healthz") == (401, "Unauthorized")


@pytest.mark.parametrize("kind", ["of another CA", "expired", "for servers"])
async def test_a_certificate_that_does_not_count_ends_the_handshake(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "other").mkdir()
    async with a_port(tmp_path) as port:
        pair = {
            "of another CA": lambda: Authority(tmp_path / "other").sign("mallory"),
            "expired": lambda: port.authority.sign("late", ends=timedelta(hours=-1)),
            "for servers": lambda: port.authority.sign("web", usage=SERVER),
        }[kind]()
        with pytest.raises(aiohttp.ClientError):
            await port.answer("GET", "/healthz", pair=pair)


async def test_http_1_1_is_what_is_spoken(tmp_path: Path) -> None:
    async with a_port(tmp_path) as port:
        context = port.authority.client_context(port.admin)
        context.set_alpn_protocols(["h2", "http/1.1"])
        _, writer = await asyncio.open_connection("localhost", port.number, ssl=context)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.close()


@pytest.mark.parametrize(
    ("least", "client", "works"),
    [
        ("VersionTLS13", ssl.TLSVersion.TLSv1_2, False),
        ("VersionTLS13", ssl.TLSVersion.TLSv1_3, True),
        ("", ssl.TLSVersion.TLSv1_2, True),
    ],
)
async def test_the_lowest_version(
    tmp_path: Path, least: str, client: ssl.TLSVersion, works: bool
) -> None:
    async with a_port(tmp_path, min_version=least) as port:
        context = port.authority.client_context(port.admin)
        context.maximum_version = client
        try:
            _, writer = await asyncio.open_connection("localhost", port.number, ssl=context)
        except (ssl.SSLError, ConnectionError):
            assert not works
            return
        assert works
        writer.close()


class TestNewFiles:
    async def test_a_renewed_certificate_counts_from_the_next_connection_on(
        self, tmp_path: Path
    ) -> None:
        async with a_port(tmp_path) as port:
            first = await shown(port)
            port.authority.sign("node", usage=SERVER)
            second = await shown(port)
            assert first != second
            assert await shown(port) == second

    async def test_a_half_written_pair_leaves_the_last_good_one(self, tmp_path: Path) -> None:
        async with a_port(tmp_path) as port:
            first = await shown(port)
            with capture_logs() as logs:
                (tmp_path / "node.crt").write_text("-----BEGIN")
                for _ in range(3):
                    assert await shown(port) == first
            assert [entry["log_level"] for entry in logs] == ["error"]
            port.authority.sign("node", usage=SERVER)
            assert await shown(port) != first

    async def test_another_client_ca_shuts_the_old_ones_clients_out(self, tmp_path: Path) -> None:
        async with a_port(tmp_path) as port, port.session(port.admin) as session:
            async with session.get("/healthz") as reply:
                assert reply.status == 200
            (tmp_path / "other").mkdir()
            other = Authority(tmp_path / "other", "other")
            Path(port.authority.file).write_bytes(other.pem)
            # The open connection is let in no more either.
            async with session.get("/healthz") as reply:
                assert reply.status == 401

    async def test_a_bundle_with_the_old_ca_keeps_open_connections(self, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir()
        other = Authority(tmp_path / "other", "other")
        async with a_port(tmp_path) as port, port.session(port.admin) as session:
            async with session.get("/healthz") as reply:
                assert reply.status == 200
            Path(port.authority.file).write_bytes(other.pem + port.authority.pem)
            async with session.get("/healthz") as reply:
                assert reply.status == 200
            newcomer = other.sign("newcomer")
            context = ssl.create_default_context(cafile=str(port.authority.file))
            context.load_cert_chain(newcomer.cert, newcomer.key)
            async with session.get("/healthz", ssl=context) as reply:
                assert reply.status == 200


async def shown(port: Port) -> bytes:
    """The certificate that the port shows in a new handshake."""
    _, writer = await asyncio.open_connection(
        "localhost", port.number, ssl=port.authority.client_context(port.admin)
    )
    der: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return der


async def test_without_a_certificate_a_handshake_fails(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pairs: list[KeyPair] = []
    tls = ServingTLS(lambda: pairs[0] if pairs else None)
    server = await asyncio.start_server(
        lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=tls.context()
    )
    number = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("localhost", number, ssl=authority.client_context())
        pair = authority.sign("node", usage=SERVER)
        pairs.append(KeyPair(pair.cert, pair.key))
        _, writer = await asyncio.open_connection(
            "localhost", number, ssl=authority.client_context()
        )
        writer.close()


@pytest.mark.parametrize("broken", ["certificate", "client CA"])
async def test_files_that_are_wrong_from_the_start_are_told(tmp_path: Path, broken: str) -> None:
    authority = Authority(tmp_path)
    pair = authority.sign("node", usage=SERVER)
    ca = str(authority.file)
    if broken == "certificate":
        Path(pair.cert).unlink()
    else:
        ca = str(tmp_path / "none.crt")
    with pytest.raises(OSError, match="No such file"):
        ServingTLS(lambda: KeyPair(pair.cert, pair.key), client_ca_file=ca).check()
