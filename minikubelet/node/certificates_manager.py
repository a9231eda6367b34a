"""One certificate of the node through time: asked for, waited for, stored, renewed.

Two of them may run: the client certificate (who the node is to the apiserver) and the serving one
(what its port shows). Whoever uses a certificate is told when a new one is in place. A failure of
any kind (server away, request denied, folder not writable) is told once and tried again with
back-off; requests are at least 5 s apart. Keys and files are worked on in threads.

Decides by `certificates`; knows nothing of connections: `api` gives the one to ask with.
"""

from collections.abc import Awaitable, Callable, Mapping

import anyio
import anyio.to_thread
import structlog

from minikubelet.api.timestamp import NANOSECONDS
from minikubelet.host.clock import Clock
from minikubelet.kube.api import API, Document
from minikubelet.kube.errors import AlreadyExists, APIError, Forbidden, NotFound, Unauthorized
from minikubelet.kube.kubeconfig import KubeconfigError
from minikubelet.kube.reflector import list_watch
from minikubelet.node import certificates
from minikubelet.node.certificates import Held, Template
from minikubelet.node.certificates_keys import BadCertificate, Request, make_request
from minikubelet.node.certificates_request import (
    REQUESTS,
    Issued,
    RequestFailed,
    digested_name,
    outcome,
    request_document,
)
from minikubelet.node.certificates_store import CertificateStore, Loaded, PairFiles

ISSUED_WAIT = 900.0
"""Seconds to wait for the certificate of one request (client-go: certificateWaitTimeout)."""
NAMED_WAIT = 3600.0
"""The same for a request that is found again (kubelet: bootstrap.go)."""
LONGEST_SLEEP = 3600.0
"""The wall clock may be set meanwhile: the deadline is looked at again."""

_log = structlog.get_logger("certificates")


class CertificateManager:
    """Keeps one certificate. `template` tells what it shall say; None: not known yet.

    `named`: the request gets a name of its own and its key a file, so that a restart of the agent
    finds both again instead of asking anew (the kubelet does so where it doesn't rotate).
    """

    def __init__(
        self,
        store: CertificateStore,
        template: Callable[[], Template | None],
        api: Callable[[], Awaitable[API]],
        clock: Clock,
        random: Callable[[], float],
        *,
        named: bool = False,
    ) -> None:
        self._store = store
        self._template = template
        self._api = api
        self._clock = clock
        self._random = random
        self._named = named
        self._share = random()
        self._begins = 0.0
        self._asked = float("-inf")
        self._failures = 0
        self._told = ""
        self._changed = anyio.Event()
        self.forced = False
        """Whether the next certificate is due whatever the one in use says."""
        self.held: Held | None = None
        """The certificate in use."""
        self.files: PairFiles | None = None
        """Where it is."""
        self.server_answers = False
        """Whether the server took the last request, or refused it for what it says."""
        self.on_issued: Callable[[], Awaitable[None]] = _nothing
        """Awaited after each new certificate; raises nothing."""

    @property
    def valid(self) -> bool:
        """Whether there is a certificate that hasn't ended."""
        return certificates.is_valid(self.held, self._now())

    def changed(self) -> None:
        """Say that the template may have changed."""
        self._changed.set()

    async def load(self) -> Loaded:
        """Read the certificate in use; to be called before `run`."""
        loaded = await anyio.to_thread.run_sync(self._store.load, self._now())
        self.held, self.files = loaded.held, loaded.files
        if loaded.problem:
            _log.warning("certificate not usable", error=loaded.problem)
        return loaded

    async def run(self) -> None:
        """Renew in time until cancelled."""
        while True:
            await self._due()
            await self.obtain()

    async def obtain(self) -> None:
        """Ask until a new certificate is in place."""
        while True:
            template = await self._known_template()
            try:
                await self._ask_once(template)
            except (APIError, RequestFailed, BadCertificate, KubeconfigError, OSError) as error:
                self._failed(error)
            else:
                if self.held is None or certificates.satisfies(self.held, template):
                    self._succeeded()
                    return
                self._failed(RequestFailed("the signer left out names that were asked for"))
            await anyio.sleep(certificates.pause_after(self._failures, self._random()))

    async def _known_template(self) -> Template:
        while (template := self._template()) is None:
            self._changed = anyio.Event()
            await self._changed.wait()
        return template

    async def _due(self) -> None:
        """Wait until the next certificate is due."""
        while True:
            template = await self._known_template()
            due = certificates.rotate_at(
                self.held, template, self._share, begins=self._begins, forced=self.forced
            )
            left = due - self._now()
            if left <= 0:
                return
            self._changed = anyio.Event()
            with anyio.move_on_after(min(left, LONGEST_SLEEP)):
                await self._changed.wait()

    async def _ask_once(self, template: Template) -> None:
        await anyio.to_thread.run_sync(self._store.check)
        request = await anyio.to_thread.run_sync(self._make_request, template)
        left = self._asked + certificates.LEAST_APART - self._clock.monotonic()
        await anyio.sleep(max(0.0, left))
        api = await self._api()
        name = await self._send(api, request, template)
        wait = NAMED_WAIT if self._named else ISSUED_WAIT
        issued = None
        with anyio.move_on_after(wait):
            issued = await _wait(api, name, self._heard)
        if issued is None:
            raise RequestFailed(
                f"certificate signing request {name} was not approved and signed within "
                f"{wait / 60:.0f} min; look at it with: kubectl get csr {name}"
            )
        self.held = await anyio.to_thread.run_sync(
            self._store.update, issued.certificate, request.key, self._clock.wall_ns()
        )
        self._store.drop_pending()
        self.files, self.forced = self._store.files, False
        self._share, self._begins = self._random(), self._now()
        _log.info(
            "certificate issued", signer=template.signer, request=name, until=self.held.not_after
        )
        await self.on_issued()

    def _make_request(self, template: Template) -> Request:
        if not self._named:
            return make_request(template)
        key = self._store.pending_key()
        try:
            request = make_request(template, key)
        except BadCertificate:
            request = make_request(template)
        if request.key != key:
            self._store.keep_pending(request.key)
        return request

    async def _send(self, api: API, request: Request, template: Template) -> str:
        """Create the request, or find it again; return its name. Raises APIError."""
        name = digested_name(request.public_key, template) if self._named else ""
        document = request_document(template, request.pem, name)
        self._asked = self._clock.monotonic()
        try:
            made = await api.request("POST", REQUESTS, body=document)
        except AlreadyExists:
            self._heard("")
            return name
        except APIError as error:
            # The same as client-go's: a proxy's 5xx says nothing of the server.
            self.server_answers = isinstance(error, Unauthorized | Forbidden | NotFound)
            raise
        self._heard("")
        found: str = made["metadata"]["name"]
        _log.info("certificate asked for", signer=template.signer, request=found)
        return found

    def _heard(self, problem: str) -> None:
        self.server_answers = not problem

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        if isinstance(error, RequestFailed | BadCertificate):
            # The next one is a request of its own, with a new key.
            self._store.drop_pending()
        text = getattr(error, "message", None) or str(error)
        if text != self._told:
            _log.error("cannot get a certificate, tried again", error=text)
        self._told = text

    def _succeeded(self) -> None:
        self._failures, self._told = 0, ""

    def _now(self) -> float:
        return self._clock.wall_ns() / NANOSECONDS


async def _wait(api: API, name: str, on_problem: Callable[[str], None]) -> Issued:
    """Watch one request until its certificate is there. Raises RequestFailed."""
    result: list[Issued | RequestFailed] = []
    seen = False

    async def look(objects: Mapping[str, Document]) -> None:
        nonlocal seen
        request = objects.get(name)
        if request is None:
            if seen:
                result.append(RequestFailed(f"certificate signing request {name} was deleted"))
        else:
            seen = True
            try:
                issued = outcome(request)
            except RequestFailed as failure:
                result.append(failure)
            else:
                result.extend([] if issued is None else [issued])
        if result:
            group.cancel_scope.cancel()

    query = {"fieldSelector": f"metadata.name={name}"}
    async with anyio.create_task_group() as group:
        watch = list_watch(api, REQUESTS, query, look, on_problem=on_problem)
        await watch
    (found,) = result[:1]
    if isinstance(found, RequestFailed):
        raise found
    return found


async def _nothing() -> None:
    pass
