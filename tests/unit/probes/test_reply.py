import pytest

from minikubelet.probes.reply import MAX_BODY, CutBody, MalformedReply, Reader, Reply

HEAD = b"HTTP/1.1 200 OK\r\n"


def read(data: bytes, *, step: int = 0, ends: bool = True) -> Reply | None:
    """Feed a reader in pieces of `step` bytes (0: all at once), then tell it the end."""
    reader = Reader()
    step = step or max(1, len(data))
    for start in range(0, len(data), step):
        reply = reader.feed(data[start : start + step])
        if reply is not None:
            return reply
    return reader.feed(b"") if ends else None


@pytest.mark.parametrize("step", [0, 1, 7])
@pytest.mark.parametrize(
    ("data", "status", "body"),
    [
        pytest.param(HEAD + b"Content-Length: 2\r\n\r\nokmore", 200, b"ok", id="length"),
        pytest.param(HEAD + b"\r\nall of it", 200, b"all of it", id="until the end"),
        pytest.param(b"HTTP/1.0 404 Not Found\n\nno", 404, b"no", id="bare line feeds"),
        pytest.param(b"HTTP/1.1 204\r\nContent-Length: 9\r\n\r\n", 204, b"", id="no body"),
        pytest.param(
            b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + HEAD + b"Content-Length: 0\r\n\r\n",
            200, b"", id="after an informational one",
        ),
        pytest.param(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            200, b"abcde", id="chunks",
        ),
    ],
)  # fmt: skip
def test_replies(data: bytes, status: int, body: bytes, step: int) -> None:
    reply = read(data, step=step)
    assert reply is not None
    assert (reply.status, reply.body) == (status, body)


def test_header_names_are_in_lower_case_and_the_first_counts() -> None:
    reply = read(HEAD + b"LOCATION: /a\r\nLocation: /b\r\nX-Y:  z \r\nContent-Length: 0\r\n\r\n")
    assert reply is not None
    assert (reply.headers["location"], reply.headers["x-y"]) == ("/a", "z")


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 99999999\r\n\r\n",
        b"\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nFFFFFF\r\n",
    ],
)
def test_a_long_body_is_cut(head: bytes) -> None:
    reply = read(HEAD + head + b"x" * 2 * MAX_BODY, step=4096, ends=False)
    assert reply is not None
    assert reply.body == b"x" * MAX_BODY


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"hello\r\n", 'malformed HTTP response "hello"'),
        (b"SSH-2.0-OpenSSH\r\n\r\n", 'malformed HTTP response "SSH-2.0-OpenSSH"'),
        (b"HTTP/1.1 abc\r\n\r\n", 'malformed HTTP status code "abc"'),
        (HEAD + b"nonsense\r\n\r\n", 'malformed MIME header line "nonsense"'),
        (HEAD + b"Content-Length: x\r\n\r\n", 'malformed Content-Length "x"'),
    ],
)
def test_what_is_no_http(data: bytes, text: str) -> None:
    with pytest.raises(MalformedReply, match=text):
        read(data)


@pytest.mark.parametrize(("data", "text"), [(b"", "^EOF"), (HEAD + b"A: b\r\n", "unexpected EOF")])
def test_an_end_before_the_head(data: bytes, text: str) -> None:
    with pytest.raises(EOFError, match=text):
        read(data)


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 5\r\n\r\nab",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_an_end_within_the_body(rest: bytes) -> None:
    with pytest.raises(CutBody):
        read(HEAD + rest)
