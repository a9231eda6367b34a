"""The in-memory runtime's images: a local store, and a registry that has what it is told."""

from collections.abc import Callable, Iterable, Sequence

from minikubelet.cri import messages as m
from minikubelet.cri.errors import NotFound
from minikubelet.cri.fake_script import Script


class FakeImages:
    """An `ImageService`.

    `local` names are present from the start. A pull succeeds for each name of `registry`, or for
    every name when it is None.
    """

    def __init__(
        self,
        script: Script,
        local: Iterable[str] = (),
        registry: Iterable[str] | None = None,
        later: Callable[[float, Callable[[], object]], None] = lambda _delay, _effect: None,
    ) -> None:
        self._script = script
        self._later = later
        self.local: dict[str, m.Image] = {}
        self.registry = None if registry is None else set(registry)
        for name in local:
            self.add(name)

    def add(self, name: str, *, uid: int | None = None, username: str = "") -> m.Image:
        """Put an image into the local store; `uid` or `username` as its USER says."""
        image = m.Image(id=f"sha256:{name}", repo_tags=[name], size=1_000_000, username=username)
        if uid is not None:
            image.uid.value = uid
        self.local[name] = image
        return image

    def find(self, reference: str) -> m.Image | None:
        """Look an image up by name or id."""
        by_id = next((image for image in self.local.values() if image.id == reference), None)
        return self.local.get(reference) or by_id

    async def image_status(self, image: m.ImageSpec) -> m.Image | None:
        """Return the image, or None when it isn't present."""
        return await self._script.run(
            "ImageStatus", image.image, lambda: self.find(image.image), self._later
        )

    async def pull_image(
        self,
        image: m.ImageSpec,
        auth: m.AuthConfig | None,
        sandbox_config: m.PodSandboxConfig,
    ) -> str:
        """Pull from the registry; raises NotFound with containerd's text for an unknown name."""
        del auth, sandbox_config  # any credentials will do here

        def effect() -> str:
            if self.registry is not None and image.image not in self.registry:
                text = f'failed to pull and unpack image "{image.image}": not found'
                raise NotFound("PullImage", "NotFound", text)
            return self.add(image.image).id

        return await self._script.run("PullImage", image.image, effect, self._later)

    async def list_images(self) -> Sequence[m.Image]:
        """Return all images."""
        return await self._script.run("ListImages", "", lambda: [*self.local.values()], self._later)

    async def remove_image(self, image: m.ImageSpec) -> None:
        """Remove an image; an unknown one is fine."""

        def effect() -> None:
            found = self.find(image.image)
            if found is not None:
                self.local = {name: each for name, each in self.local.items() if each != found}

        await self._script.run("RemoveImage", image.image, effect, self._later)
