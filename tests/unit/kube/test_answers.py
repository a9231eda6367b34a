"""Statuses, broken bodies and Retry-After."""

import json
from typing import Any

import pytest

from minikubelet.kube import answers, errors

SERVER = "https://192.0.2.1:6443"


def status(**fields: Any) -> bytes:
    return json.dumps({"kind": "Status", "apiVersion": "v1", **fields}).encode()


@pytest.mark.parametrize(
    ("code", "body", "kind", "message", "reason"),
    [
        (400, b"bad", errors.BadRequest, "bad", ""),
        (
            401,
            status(message="Unauthorized", reason="Unauthorized"),
            errors.Unauthorized,
            "Unauthorized",
            "Unauthorized",
        ),
        (403, status(message="no", reason="Forbidden"), errors.Forbidden, "no", "Forbidden"),
        (404, status(message="lost", reason="NotFound"), errors.NotFound, "lost", "NotFound"),
        (409, status(message="c", reason="Conflict"), errors.Conflict, "c", "Conflict"),
        (
            409,
            status(message="there", reason="AlreadyExists"),
            errors.AlreadyExists,
            "there",
            "AlreadyExists",
        ),
        (410, status(message="old", reason="Expired"), errors.Gone, "old", "Expired"),
        (422, status(message="bad", reason="Invalid"), errors.Invalid, "bad", "Invalid"),
        (429, b"", errors.TooManyRequests, "the apiserver answered 429", ""),
        (500, b"<html>" + b"x" * 999, errors.ServerError, "<html>" + "x" * 294, ""),
        (504, status(message="late", reason="Timeout"), errors.ServerError, "late", "Timeout"),
        (302, b"", errors.APIError, "the apiserver answered 302", ""),
    ],
)
def test_errors(
    code: int, body: bytes, kind: type[errors.APIError], message: str, reason: str
) -> None:
    with pytest.raises(errors.APIError) as raised:
        answers.document(SERVER, code, {}, body)
    error = raised.value
    assert (type(error), error.code, error.message, error.reason) == (kind, code, message, reason)


def test_documents() -> None:
    assert answers.document(SERVER, 201, {}, b'{"kind": "Pod"}') == {"kind": "Pod"}
    assert answers.document(SERVER, 200, {}, b"") == {}


@pytest.mark.parametrize(
    "body", [b"<html>", b"[1]", b"{", b"\xff", b"[" * 5000, b'{"metadata": null}']
)
def test_a_body_that_is_no_document_is_no_answer(body: bytes) -> None:
    with pytest.raises(errors.Unavailable, match="cannot read the answer of https://192"):
        answers.document(SERVER, 200, {}, body)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-1"}, None),
        (
            {
                "Retry-After": "Wed, 21 Oct 2026 07:28:10 GMT",
                "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            10,
        ),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:10 GMT"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert answers.error(429, headers, b"").retry_after == seconds


def test_the_status_of_a_watch_event_carries_code_and_wait() -> None:
    error = answers.of_status(
        {"code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 3}}
    )
    assert (type(error), error.retry_after) == (errors.TooManyRequests, 3)
    assert isinstance(answers.of_status({"code": 410, "message": "old"}), errors.Gone)
    assert type(answers.of_status({"code": "410"})) is errors.APIError
