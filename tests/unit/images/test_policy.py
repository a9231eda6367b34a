import pytest

from minikubelet.cri.errors import CRIError
from minikubelet.images.policy import TokenBucket, pull_error_text, pull_problem


def test_bucket_refuses_at_once_and_fills_up() -> None:
    bucket = TokenBucket(qps=5, burst=2, tokens=2, updated=0)
    granted = []
    for now in (0.0, 0.0, 0.0, 0.1, 0.2, 100.0, 100.0, 100.0):
        ok, bucket = bucket.take(now)
        granted.append(ok)
    assert granted == [True, True, False, False, True, True, True, False]


def test_no_qps_no_limit() -> None:
    bucket = TokenBucket(qps=0, burst=0, tokens=0, updated=0)
    assert all(bucket.take(0)[0] for _ in range(100))


@pytest.mark.parametrize(
    ("text", "reason", "message"),
    [
        ("not found", "ErrImagePull", "not found"),
        (
            "RegistryUnavailable: 503",
            "RegistryUnavailable",
            "image pull failed for i because the registry is unavailable: 503",
        ),
        (
            "SignatureValidationFailed",
            "SignatureValidationFailed",
            "image pull failed for i because the signature validation failed",
        ),
    ],
)
def test_reasons_of_failed_pulls(text: str, reason: str, message: str) -> None:
    problem = pull_problem("i", text)
    assert (problem.reason, problem.message) == (reason, message)


def test_an_unknown_code_is_not_worth_a_word() -> None:
    assert pull_error_text(CRIError("PullImage", "Unknown", "why")) == "why"
    assert pull_error_text(CRIError("PullImage", "NotFound", "why")) == (
        "rpc error: code = NotFound desc = why"
    )
