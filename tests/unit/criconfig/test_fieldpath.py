import pytest

from minikubelet.criconfig.context import ConfigProblem
from minikubelet.criconfig.fieldpath import file_value
from tests.builders import a_pod


def test_whole_maps_are_sorted_and_quoted_as_go_does() -> None:
    labels = {"b": 'say "hi"\n', "a": "é\x01"}
    pod = a_pod(metadata={"labels": labels})
    assert file_value(pod, "metadata.labels") == 'a="é\\x01"\nb="say \\"hi\\"\\n"'
    assert file_value(pod, "metadata.annotations") == ""
    assert file_value(pod, "metadata.labels['b']") == 'say "hi"\n'


def test_a_file_has_no_status() -> None:
    with pytest.raises(ConfigProblem, match=r"unsupported fieldPath: status\.podIP"):
        file_value(a_pod(), "status.podIP")
