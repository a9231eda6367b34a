"""Who may use an image that is on the node: remembered for each image that was pulled here.

A pod that would use a private image with somebody else's login has to prove its own by a pull.
Images that nobody pulled through this agent are free for all (the default policy). Decisions are
pure; the documents are kept by the caller. Source: kubelet images/pullmanager (KEP-2535).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from minikubelet.images.keyring import Credential


class Policy(StrEnum):
    """imagePullCredentialsVerificationPolicy."""

    NEVER = "NeverVerify"
    NEVER_PRELOADED = "NeverVerifyPreloadedImages"
    NEVER_ALLOWLISTED = "NeverVerifyAllowlistedImages"
    ALWAYS = "AlwaysVerify"


@dataclass(frozen=True, slots=True)
class Login:
    """A login that an image was pulled with."""

    namespace: str
    name: str
    uid: str
    hash: str


@dataclass(frozen=True, slots=True)
class PullRecord:
    """How an image came here, by its name without a tag: for everybody, or with these logins."""

    for_all: bool = False
    logins: tuple[Login, ...] = ()


Records = Mapping[str, PullRecord]


@dataclass(frozen=True, slots=True)
class Verification:
    """What the configuration says. Patterns of the list may end with `/*`."""

    policy: Policy = Policy.NEVER_PRELOADED
    allowlist: tuple[str, ...] = field(default_factory=tuple)


def must_pull(
    image: str, records: Records | None, credentials: Sequence[Credential], rules: Verification
) -> bool:
    """Tell whether a pod has to pull an image that is there, to prove that it may.

    `records` is None for an image that wasn't pulled through this agent.
    """
    if rules.policy is Policy.NEVER:
        return False
    name = without_tag(image)
    if records is None:
        listed = any(fnmatchcase(name, pattern) for pattern in rules.allowlist)
        return rules.policy is Policy.ALWAYS or (
            rules.policy is Policy.NEVER_ALLOWLISTED and not listed
        )
    record = records.get(name, PullRecord())
    if record.for_all:
        return False
    return not any(_is_known(credential, record) for credential in credentials)


def _is_known(credential: Credential, record: PullRecord) -> bool:
    source = credential.source
    for login in record.logins:
        if login.hash == credential.hash:
            return True
        if source is not None and (source.namespace, source.name, source.uid) == (
            login.namespace,
            login.name,
            login.uid,
        ):
            return True
    return False


def after_pull(record: PullRecord, credential: Credential | None) -> PullRecord:
    """Return the record after a pull with a login; None stands for a pull without any."""
    if credential is None or credential.source is None:
        # Anonymous, or with the node's own login: every pod of the node has that.
        return PullRecord(for_all=True, logins=record.logins)
    source = credential.source
    login = Login(source.namespace, source.name, source.uid, credential.hash)
    others = tuple(
        known
        for known in record.logins
        if (known.namespace, known.name, known.uid) != (login.namespace, login.name, login.uid)
    )
    return PullRecord(record.for_all, (*others, login))


def without_tag(image: str) -> str:
    """Return an image's name without tag and digest."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def document_of(records: Records) -> dict[str, Any]:
    """Return the records as a document."""
    return {
        name: {
            "forAll": record.for_all,
            "logins": [
                {"namespace": x.namespace, "name": x.name, "uid": x.uid, "hash": x.hash}
                for x in record.logins
            ],
        }
        for name, record in records.items()
    }


def records_of(document: Mapping[str, Any]) -> dict[str, PullRecord]:
    """Return the records of a document. Raises KeyError, TypeError."""
    return {
        name: PullRecord(bool(entry["forAll"]), tuple(Login(**login) for login in entry["logins"]))
        for name, entry in document.items()
    }
