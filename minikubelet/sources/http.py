"""The URL source: a list of pods fetched at an interval.

The answer may be a Pod, a PodList, a List or several documents, JSON or YAML. Whatever isn't a good
answer (a status, a time-out, an empty or unreadable body, a body without any pod) is an error that
stays visible until a good answer comes, and the last good set keeps running; only an explicit empty
list removes everything. aiohttp is loaded when the source runs, so a node without a URL never pays
for it. Source: kubelet config/http.go; the empty body is a departure (there it removes every pod).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import anyio
from anyio.abc import TaskStatus
from anyio.to_thread import run_sync

from minikubelet.sources.decode import Manifest, broken, decode_manifest
from minikubelet.sources.reporting import Reporter
from minikubelet.sources.reports import LastGood, ManifestReport, RawDocument
from minikubelet.sources.static import Place
from minikubelet.sources.updates import HTTP, SourceSet

if TYPE_CHECKING:
    import aiohttp

MAX_SIZE = 10 * 2**20
"""Bytes of a body."""

_TIMEOUT = 10.0
_CHUNK = 64 * 2**10
_OK, _NOT_MODIFIED = 200, 304

Send = Callable[[SourceSet], Awaitable[None]]


class FetchError(Exception):
    """The URL gave no usable answer; the message says what came instead."""


@dataclass(slots=True)
class _Known:
    """What the last good answer was."""

    body: bytes | None = None
    validators: dict[str, str] = field(default_factory=dict)
    manifest: Manifest = field(default_factory=Manifest)


class HTTPSource:
    """Delivers the pods of `url`; `check_frequency` is the pause between requests, seconds."""

    def __init__(
        self,
        url: str,
        node_name: str,
        last_good: LastGood,
        *,
        headers: Sequence[tuple[str, str]] = (),
        check_frequency: float = 20.0,
        on_problem: Callable[[ManifestReport], None] | None = None,
    ) -> None:
        self._url = url
        self._shown = without_password(url)
        self._place = Place(HTTP, url, node_name, self._shown)
        self._headers = tuple(headers)
        self._store = last_good
        self._frequency = check_frequency
        self._reporter = Reporter(on_problem)
        self._known = _Known()
        self._store_fault = ""

    def reports(self) -> list[ManifestReport]:
        """Return what is to be told about the URL, as of the last request."""
        return self._reporter.reports()

    async def run(
        self, send: Send, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Deliver the set now and after each change, until cancelled."""
        import aiohttp  # noqa: PLC0415  # 20 MiB that only nodes with a URL need

        stored = await run_sync(self._load)
        self._known.manifest = broken("", self._place, stored)
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            task_status.started()
            sent: SourceSet | None = None
            while True:
                await self._round(session)
                current = SourceSet(HTTP, self._known.manifest.pods)
                if current != sent:
                    await send(current)
                    sent = current
                    await run_sync(self._keep)
                await anyio.sleep(self._frequency)

    async def _round(self, session: "aiohttp.ClientSession") -> None:
        """Fetch once and take the answer over, or tell why not."""
        known = self._known
        try:
            with anyio.fail_after(_TIMEOUT + 1):
                body = await self._fetch(session)
            if body is None or body == known.body:
                self._reporter.update(self._told(known.manifest))
                return
            manifest = await run_sync(self._decode, body)
        except FetchError as error:
            self._fail(str(error))
            return
        known.body, known.manifest = body, manifest
        self._reporter.update(self._told(manifest))

    async def _fetch(self, session: "aiohttp.ClientSession") -> bytes | None:
        """Return the body, None when the server says that it is the one we know."""
        import aiohttp  # noqa: PLC0415  # loaded by run

        headers = [*self._headers, *self._known.validators.items()]
        try:
            async with session.get(self._url, headers=headers) as response:
                if response.status == _NOT_MODIFIED and self._known.validators:
                    return None
                if response.status != _OK:
                    raise FetchError(f"status {response.status}, expected 200")
                body = await _limited(response)
                fresh = response.headers
        except TimeoutError:
            raise FetchError(f"no answer within {_TIMEOUT:g} s") from None
        except (aiohttp.ClientError, ValueError) as error:
            raise FetchError(f"{type(error).__name__}: {error}") from error
        names = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}
        self._known.validators = {
            sent: fresh[name] for name, sent in names.items() if name in fresh
        }
        return body

    def _decode(self, body: bytes) -> Manifest:
        """Raises FetchError for a body that names no pod and isn't an explicit list."""
        if not body.strip():
            raise FetchError("the body is empty; an empty PodList removes all pods")
        manifest = decode_manifest(body, self._place, self._known.manifest.documents)
        said_nothing = not manifest.pods and not manifest.has_list
        if said_nothing and not any(report.errors for report in manifest.reports):
            raise FetchError("the body holds no pod; an empty PodList removes all pods")
        return manifest

    def _fail(self, why: str) -> None:
        known = self._known
        known.body, known.validators = None, {}  # the next good answer must be read, not compared
        names = tuple(record.pod.full_name for record in known.manifest.pods)
        message = f"cannot read pods from {self._shown}: {why}"
        report = ManifestReport(
            HTTP, self._shown, pods=names, errors=(message,), last_good=bool(names)
        )
        self._reporter.update([report])

    def _told(self, manifest: Manifest) -> list[ManifestReport]:
        """Return the manifest's reports and, before them, what is wrong with the store."""
        own = [ManifestReport(HTTP, self._shown, errors=(self._store_fault,))]
        return [*(own if self._store_fault else ()), *manifest.reports]

    def _load(self) -> Sequence[RawDocument]:
        try:
            return self._store.load().get(self._url, ())
        except OSError as error:
            self._store_fault = f"cannot read the last good pods of {self._shown}: {error}"
            return ()

    def _keep(self) -> None:
        """A full disk costs the memory of good versions, not the pods."""
        documents: tuple[RawDocument, ...] = self._known.manifest.documents
        try:
            if documents:
                self._store.save(self._url, documents)
            else:
                self._store.forget(self._url)
        except OSError as error:
            self._store_fault = f"cannot keep the last good pods of {self._shown}: {error}"
        else:
            self._store_fault = ""


async def _limited(response: "aiohttp.ClientResponse") -> bytes:
    parts, size = [], 0
    async for chunk in response.content.iter_chunked(_CHUNK):
        size += len(chunk)
        if size > MAX_SIZE:
            raise FetchError(f"the body is larger than {MAX_SIZE // 2**20} MiB")
        parts.append(chunk)
    return b"".join(parts)


def without_password(url: str) -> str:
    """Return the URL as it may be shown to people."""
    parts = urlsplit(url)
    if not parts.password:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username}:***@{host}"))
