from minikubelet.criconfig.hash import container_hash, go_json
from tests.builders import decoded_container


def test_hash_is_the_kubelets() -> None:
    # The kubelet's own check value (kuberuntime helpers_test.go).
    container = decoded_container(name="test_container", image="foo/image:v1")
    assert container_hash(container) == "8e45cbd0"


def test_hash_counts_name_and_image_only() -> None:
    plain = container_hash(decoded_container(name="a", image="i"))
    assert container_hash(decoded_container(name="a", image="i", command=["x"], tty=True)) == plain
    assert container_hash(decoded_container(name="b", image="i")) != plain
    assert container_hash(decoded_container(name="a", image="j")) != plain


def test_json_is_escaped_as_go_does() -> None:
    assert go_json({"b": "<&>", "a": "é"}) == '{"a":"é","b":"\\u003c\\u0026\\u003e"}'
