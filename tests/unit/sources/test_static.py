from dataclasses import replace
from typing import Any

import pytest

from minikubelet.api.record import PodRecord
from minikubelet.sources.static import Place, static_pod
from tests.unit.sources.documents import PLACE, pod_document


def record_of(document: dict[str, Any], place: Place = PLACE) -> PodRecord:
    outcome = static_pod(document, place)
    assert outcome.errors == ()
    assert outcome.record is not None
    return outcome.record


def test_the_pod_is_named_after_the_node_and_placed_on_it() -> None:
    record = record_of(pod_document(), PLACE)
    pod = record.pod
    assert (pod.metadata.name, pod.metadata.namespace) == ("web-node1", "default")
    assert pod.metadata.annotations == {"kubernetes.io/config.hash": record.uid}
    assert len(record.uid) == 32
    assert pod.status.phase == "Pending"
    assert pod.spec.restart_policy == "Always"
    assert record.origin == "/m/web.yaml"


def test_the_document_shows_what_the_pod_is() -> None:
    record = record_of({**pod_document(), "x-unknown": 1})
    assert record.raw["metadata"]["name"] == "web-node1"
    assert record.raw["spec"]["nodeName"] == "node1"
    assert record.raw["spec"]["dnsPolicy"] == "ClusterFirst"
    assert record.raw["x-unknown"] == 1


def test_the_given_document_stays_as_it_was() -> None:
    document = pod_document()
    record_of(document)
    assert document == pod_document()


@pytest.mark.parametrize(("source", "count"), [("file", 1), ("http", 0)])
def test_only_pods_of_files_tolerate_every_no_execute_taint(source: str, count: int) -> None:
    pod = record_of(pod_document(), replace(PLACE, source=source)).pod
    assert len(pod.spec.tolerations) == count


def test_a_toleration_that_is_there_is_not_added_again() -> None:
    tolerations = [
        {"operator": "Exists", "effect": "NoExecute"},
        {"key": "a", "operator": "Exists"},
    ]
    pod = record_of(pod_document(tolerations=tolerations)).pod
    assert [t.key for t in pod.spec.tolerations] == ["", "a"]


def test_the_uid_does_not_depend_on_order_nulls_or_the_place_in_the_file() -> None:
    document = pod_document()
    turned = dict(reversed(document.items())) | {"status": None}
    first = static_pod(document, PLACE, "/m/web.yaml#1").record
    second = static_pod(turned, PLACE, "/m/web.yaml#7").record
    assert first is not None
    assert second is not None
    assert first.uid == second.uid


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (pod_document(image="b:2"), PLACE),
        (pod_document(), replace(PLACE, location="/m/other.yaml")),
        (pod_document(), replace(PLACE, node_name="node2")),
        (pod_document(), replace(PLACE, source="http")),
    ],
    ids=["content", "path", "node", "source"],
)
def test_the_uid_depends_on_content_path_and_node(document: dict[str, Any], place: Place) -> None:
    assert record_of(document, place).uid != record_of(pod_document()).uid


def test_the_uid_of_a_known_document_never_changes() -> None:
    """Another value here restarts every static pod at an upgrade of the agent."""
    assert record_of(pod_document()).uid == "0eb58f86dc7147eaf30313634b46906e"


def test_a_given_uid_is_kept() -> None:
    document = pod_document()
    document["metadata"]["uid"] = "abc"
    record = record_of(document)
    assert record.uid == "abc"
    assert record.pod.metadata.annotations["kubernetes.io/config.hash"] == "abc"


@pytest.mark.parametrize("metadata", [None, {}, {"name": ""}, {"name": None}, {"namespace": "x"}])
def test_B02_a_missing_name_is_told_before_anything_is_made_of_it(metadata: Any) -> None:
    outcome = static_pod({**pod_document(), "metadata": metadata}, PLACE)
    assert outcome.record is None
    assert [str(error) for error in outcome.errors] == ["metadata.name: Required value"]


def test_B06_a_field_in_the_wrong_place_is_a_warning_that_says_where_it_belongs() -> None:
    document = pod_document()
    document["metadata"]["restartPolicy"] = "Never"
    outcome = static_pod(document, PLACE)
    assert [str(warning) for warning in outcome.warnings] == [
        "metadata.restartPolicy: unknown field here, it belongs to spec.restartPolicy"
    ]
    assert outcome.record is not None


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def in_container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "b:1", **fields}]}


@pytest.mark.parametrize(
    ("spec", "path", "what"),
    [
        ({"serviceAccountName": "a"}, "spec.serviceAccountName", "serviceaccounts"),
        ({"serviceAccount": "a"}, "spec.serviceAccountName", "serviceaccounts"),
        ({"imagePullSecrets": [{"name": "a"}]}, "spec.imagePullSecrets[0]", "secrets"),
        (
            in_container(
                env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]
            ),
            "spec.containers[0].env[0].valueFrom.secretKeyRef",
            "secrets",
        ),
        (
            in_container(
                env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}]
            ),
            "spec.containers[0].env[0].valueFrom.configMapKeyRef",
            "configmaps",
        ),
        (
            in_container(envFrom=[{"secretRef": {"name": "a"}}]),
            "spec.containers[0].envFrom[0].secretRef",
            "secrets",
        ),
        (
            in_container(envFrom=[{"configMapRef": {"name": "a"}}]),
            "spec.containers[0].envFrom[0].configMapRef",
            "configmaps",
        ),
        ({"resourceClaims": [{"name": "a"}]}, "spec.resourceClaims", "resourceclaims"),
        (
            volume(configMap={"name": "a"}),
            "spec.volumes[0].configMap",
            "configmaps (via configmap volumes)",
        ),
        (
            volume(secret={"secretName": "a"}),
            "spec.volumes[0].secret",
            "secrets (via secret volumes)",
        ),
        (volume(csi={"driver": "a"}), "spec.volumes[0].csi", "csidrivers (via CSI volumes)"),
        (
            volume(glusterfs={"endpoints": "a"}),
            "spec.volumes[0].glusterfs",
            "endpoints (via glusterFS volumes)",
        ),
        (
            volume(persistentVolumeClaim={"claimName": "a"}),
            "spec.volumes[0].persistentVolumeClaim",
            "persistentvolumeclaims",
        ),
        (
            volume(ephemeral={}),
            "spec.volumes[0].ephemeral",
            "persistentvolumeclaims (via ephemeral volumes)",
        ),
        (
            volume(azureFile={"secretName": "a"}),
            "spec.volumes[0].azureFile",
            "secrets (via azureFile volumes)",
        ),
        (volume(rbd={"secretRef": {"name": "a"}}), "spec.volumes[0].rbd.secretRef", "secrets"),
        *(
            (
                volume(projected={"sources": [{"downwardAPI": {}}, {kind: {}}]}),
                f"spec.volumes[0].projected.sources[1].{kind}",
                what,
            )
            for kind, what in (
                ("configMap", "configmaps (via projected volumes)"),
                ("secret", "secrets (via projected volumes)"),
                ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
                ("clusterTrustBundle", "clustertrustbundles"),
                ("podCertificate", "podcertificates"),
            )
        ),
    ],
)
def test_references_to_api_objects_are_refused_in_the_kubelet_s_words(
    spec: dict[str, Any], path: str, what: str
) -> None:
    outcome = static_pod(pod_document(**spec), PLACE)
    assert outcome.record is None
    assert f"{path}: static pods may not reference {what}" in [str(e) for e in outcome.errors]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            volume(nfs={"server": "a", "path": "/"}),
            "spec.volumes[0].nfs: Forbidden: this volume type",
        ),
        (volume(downwardAPI={}), "spec.volumes[0].downwardAPI: Forbidden: this volume type"),
        (volume(projected={"sources": []}), "spec.volumes[0].projected: Forbidden"),
        (
            {"ephemeralContainers": [{"name": "e", "image": "b"}]},
            "spec.ephemeralContainers: Forbidden",
        ),
    ],
)
def test_what_this_agent_cannot_do_is_refused_by_name(spec: dict[str, Any], problem: str) -> None:
    outcome = static_pod(pod_document(**spec), PLACE)
    assert outcome.record is None
    assert any(str(error).startswith(problem) for error in outcome.errors)


def test_supported_volumes_pass() -> None:
    volumes = [{"name": "a"}, {"name": "b", "hostPath": {"path": "/x"}}]
    record_of(pod_document(volumes=volumes))


def test_a_probe_is_fine() -> None:
    probed = in_container(readinessProbe={"tcpSocket": {"port": 1}})
    outcome = static_pod(pod_document(**probed), PLACE)
    assert outcome.record is not None
    assert outcome.warnings == ()
