"""Images that are there, that aren't, and what they say about their user."""

import pytest

from minikubelet.cri import messages as m
from tests.containerds import BUSYBOX
from tests.contract.conftest import Harness

pytestmark = pytest.mark.anyio


async def test_an_image_is_known_by_name_and_by_id(harness: Harness) -> None:
    image = await harness.images.image_status(m.ImageSpec(image=BUSYBOX))
    assert image is not None
    assert BUSYBOX in image.repo_tags
    assert image.size > 0
    same = await harness.images.image_status(m.ImageSpec(image=image.id))
    assert same is not None
    assert same.id == image.id
    assert image.id in {each.id for each in await harness.images.list_images()}


async def test_an_absent_image_is_none_and_may_be_removed(harness: Harness) -> None:
    absent = m.ImageSpec(image="localhost/no/such:1")
    assert await harness.images.image_status(absent) is None
    await harness.images.remove_image(absent)


@pytest.mark.parametrize(
    ("tag", "username", "uid"),
    [
        pytest.param("nobody", "nobody", None, id="a name"),
        pytest.param("uid", "", 1000, id="a number"),
    ],
)
async def test_an_image_tells_its_user(
    harness: Harness, tag: str, username: str, uid: int | None
) -> None:
    name = f"{BUSYBOX.rpartition(':')[0]}:{tag}"
    if harness.fake is not None:
        harness.fake.images.add(name, uid=uid, username=username)
    image = await harness.images.image_status(m.ImageSpec(image=name))
    assert image is not None
    assert image.username == username
    assert (image.uid.value if image.HasField("uid") else None) == uid
