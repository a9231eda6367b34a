import pytest

from minikubelet.logs.cri_log import parse_entry, parse_time


def test_a_full_entry() -> None:
    entry = parse_entry(b"2016-10-06T00:17:09.669794202Z stdout F log content\n")
    assert (entry.stream, entry.is_partial, entry.content) == ("stdout", False, b"log content\n")
    assert entry.unix_ns == 1475713029669794202


@pytest.mark.parametrize(
    ("line", "is_partial", "content"),
    [
        (b"2016-10-06T00:17:09Z stderr P part\n", True, b"part"),
        (b"2016-10-06T00:17:09Z stderr P:x part\n", True, b"part"),
        (b"2016-10-06T00:17:09Z stderr F:x whole\n", False, b"whole\n"),
        (b"2016-10-06T00:17:09Z stderr F  two  blanks \n", False, b" two  blanks \n"),
        (b"2016-10-06T00:17:09Z stderr F \n", False, b"\n"),
        (b"2016-10-06T00:17:09Z stderr F cut", False, b"cut"),
        (b"2016-10-06T00:17:09Z stderr F \xff\x00\n", False, b"\xff\x00\n"),
    ],
)
def test_tags_and_content(line: bytes, is_partial: bool, content: bytes) -> None:
    entry = parse_entry(line)
    assert (entry.is_partial, entry.content) == (is_partial, content)


@pytest.mark.parametrize(
    ("time", "stamp"),
    [
        (b"2016-10-06T00:17:09Z", b"2016-10-06T00:17:09.000000000Z"),
        (b"2016-10-06T00:17:09.5+08:00", b"2016-10-06T00:17:09.500000000+08:00"),
    ],
)
def test_stamps_have_nine_digits(time: bytes, stamp: bytes) -> None:
    assert parse_entry(time + b" stdout F x\n").stamp == stamp


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        (b"1970-01-01T00:00:01Z", 10**9),
        (b"1970-01-01T01:00:01.000000001+01:00", 10**9 + 1),
        (b"1969-12-31T23:00:01-01:00", 10**9),
    ],
)
def test_times(text: bytes, ns: int) -> None:
    assert parse_time(text) == ns


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"2016-10-06T00:17:09Z\n",
        b"2016-10-06T00:17:09Z stdout\n",
        b"2016-10-06T00:17:09Z stdin F x\n",
        b"yesterday stdout F x\n",
    ],
)
def test_what_is_no_entry(line: bytes) -> None:
    with pytest.raises(ValueError, match="cannot read log entry"):
        parse_entry(line)
