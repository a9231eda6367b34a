"""Errors and endpoints of the connection; its calls are tested on real runtimes."""

import pytest

from minikubelet.cri.errors import (
    AlreadyExists,
    CRIError,
    DeadlineExceeded,
    NotFound,
    Unavailable,
    Unimplemented,
)
from minikubelet.cri.grpc import error_of, target_of

RESERVED = 'failed to reserve sandbox name "p_n_u_0": name "p_n_u_0" is reserved for "abc"'


@pytest.mark.parametrize(
    ("code", "text", "kind", "name"),
    [
        pytest.param("NOT_FOUND", "gone", NotFound, "NotFound", id="not found"),
        pytest.param("ALREADY_EXISTS", "there", AlreadyExists, "AlreadyExists", id="exists"),
        pytest.param("DEADLINE_EXCEEDED", "", DeadlineExceeded, "DeadlineExceeded", id="late"),
        pytest.param("UNAVAILABLE", "down", Unavailable, "Unavailable", id="down"),
        pytest.param("UNIMPLEMENTED", "no", Unimplemented, "Unimplemented", id="unimplemented"),
        pytest.param("UNKNOWN", "no network", CRIError, "Unknown", id="other"),
        pytest.param("CANCELLED", "context canceled", CRIError, "Canceled", id="Go's spelling"),
        pytest.param("UNKNOWN", RESERVED, AlreadyExists, "Unknown", id="reserved in 1.6"),
        pytest.param(
            "FAILED_PRECONDITION", RESERVED, AlreadyExists, "FailedPrecondition", id="reserved in 2"
        ),
    ],
)
def test_errors_keep_the_runtimes_words(
    code: str, text: str, kind: type[CRIError], name: str
) -> None:
    error = error_of("/runtime.v1.RuntimeService/RunPodSandbox", code, text)
    assert type(error) is kind
    assert error.call == "RunPodSandbox"
    assert str(error) == f"rpc error: code = {name} desc = {text}"


@pytest.mark.parametrize("endpoint", ["unix:///run/c.sock", "/run/c.sock"])
def test_an_endpoint_is_a_path_on_this_machine(endpoint: str) -> None:
    assert target_of(endpoint) == "unix:///run/c.sock"


@pytest.mark.parametrize("endpoint", ["", "c.sock", "unix://c.sock", "tcp://1.2.3.4:5"])
def test_other_endpoints_are_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="give unix:///path"):
        target_of(endpoint)
