import pytest

from minikubelet.images.name import with_default_tag

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "normal"),
    [
        ("busybox", "busybox:latest"),
        ("busybox:1", "busybox:1"),
        (f"busybox@{DIGEST}", f"busybox@{DIGEST}"),
        (f"busybox:1@{DIGEST}", f"busybox:1@{DIGEST}"),
        ("localhost:5000/a", "localhost:5000/a:latest"),
        ("localhost:5000", "localhost:5000"),
        ("registry.example.test/a/b_c/d--e:v1.2", "registry.example.test/a/b_c/d--e:v1.2"),
        ("[::1]:5000/a", "[::1]:5000/a:latest"),
        ("Example.com/a", "Example.com/a:latest"),
    ],
)
def test_latest_is_added_where_nothing_says_which(image: str, normal: str) -> None:
    assert with_default_tag(image) == normal


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("", "invalid reference format"),
        ("a:", "invalid reference format"),
        ("a b", "invalid reference format"),
        ("a//b", "invalid reference format"),
        ("-a", "invalid reference format"),
        ("a:" + "t" * 129, "invalid reference format"),
        (
            "Busybox",
            "invalid reference format: repository name (library/Busybox) must be lowercase",
        ),
        ("x.io/A:B", "invalid reference format: repository name (A) must be lowercase"),
        (
            "a" * 64,
            f"invalid repository name ({'a' * 64}), cannot specify 64-byte hexadecimal strings",
        ),
        ("x.io/" + "a" * 256, "repository name must not be more than 255 characters"),
        ("a@sha256:" + "a" * 32, "invalid checksum digest length"),
        ("a@md5:" + "a" * 32, "unsupported digest algorithm"),
    ],
)
def test_what_is_no_reference(image: str, message: str) -> None:
    with pytest.raises(ValueError, match="couldn't parse image reference") as caught:
        with_default_tag(image)
    assert str(caught.value) == f'couldn\'t parse image reference "{image}": {message}'
