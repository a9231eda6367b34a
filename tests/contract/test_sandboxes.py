"""Sandboxes: identity, addresses, names, idempotence, what becomes of their containers."""

import ipaddress

import anyio
import pytest

from minikubelet.cri import messages as m
from minikubelet.cri.errors import AlreadyExists, CRIError, NotFound, Unimplemented
from tests.contract.conftest import SLEEP, Harness

pytestmark = pytest.mark.anyio

UNKNOWN = "f" * 64


async def test_the_runtime_says_who_and_how_it_is(harness: Harness) -> None:
    version = await harness.runtime.version()
    assert version.runtime_name
    status = await harness.runtime.status()
    assert {each.type: each.status for each in status.status.conditions}["RuntimeReady"]


async def test_the_runtime_names_its_cgroup_driver_or_lacks_the_call(harness: Harness) -> None:
    try:
        driver = await harness.runtime.cgroup_driver()
    except Unimplemented:
        version = (await harness.runtime.version()).runtime_version
        assert version.startswith("1.6")
    else:
        assert driver == "cgroupfs"


async def test_the_addresses_of_the_node_s_pods_may_be_told_again(harness: Harness) -> None:
    for _ in range(2):
        await harness.runtime.update_pod_cidr("10.244.1.0/24")


async def test_a_sandbox_keeps_what_it_was_given(harness: Harness) -> None:
    config = harness.sandbox_config(attempt=2)
    sandbox_id = await harness.sandbox(config)
    status = await harness.runtime.pod_sandbox_status(sandbox_id)
    assert status.metadata == config.metadata
    assert status.state == m.SANDBOX_READY
    assert status.labels == config.labels
    assert status.annotations == config.annotations
    assert ipaddress.ip_address(status.network.ip).is_private


async def test_a_sandbox_on_the_hosts_network_has_no_address_of_its_own(harness: Harness) -> None:
    config = harness.sandbox_config()
    config.linux.security_context.namespace_options.network = m.NODE
    sandbox_id = await harness.sandbox(config)
    status = await harness.runtime.pod_sandbox_status(sandbox_id)
    assert status.network.ip == ""
    assert status.linux.namespaces.options.network == m.NODE


async def test_lists_are_filtered_by_all_that_is_given(harness: Harness) -> None:
    first, second = harness.sandbox_config(), harness.sandbox_config()
    one, two = await harness.sandbox(first), await harness.sandbox(second)
    await harness.runtime.stop_pod_sandbox(two)

    async def ids(**filters: object) -> set[str]:
        found = await harness.runtime.list_pod_sandbox(**filters)  # type: ignore[arg-type]  # varied
        return {each.id for each in found} & {one, two}

    assert await ids() == {one, two}
    assert await ids(id=one) == {one}
    assert await ids(state=m.SANDBOX_NOTREADY) == {two}
    assert await ids(label_selector=dict(first.labels)) == {one}
    assert await ids(id=one, label_selector=dict(second.labels)) == set()


async def test_a_taken_name_is_told_from_other_failures(harness: Harness) -> None:
    config = harness.sandbox_config()
    sandbox_id = await harness.sandbox(config)
    with pytest.raises(
        AlreadyExists, match=rf'name "pod_ns_{config.metadata.uid}_0" is reserved for'
    ):
        await harness.runtime.run_pod_sandbox(config)
    config.metadata.attempt = 1
    await harness.sandbox(config)
    await harness.runtime.remove_pod_sandbox(sandbox_id)
    config.metadata.attempt = 0
    await harness.sandbox(config)


async def test_of_two_creations_at_once_one_is_refused(harness: Harness) -> None:
    config = harness.sandbox_config()
    refused: list[CRIError] = []

    async def create() -> None:
        try:
            await harness.sandbox(config)
        except CRIError as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(create)
        group.start_soon(create)
    assert [type(error) for error in refused] == [AlreadyExists]
    assert len(await harness.runtime.list_pod_sandbox(label_selector=dict(config.labels))) == 1


async def test_an_unknown_handler_is_refused_and_frees_the_name(harness: Harness) -> None:
    config = harness.sandbox_config()
    with pytest.raises(CRIError, match='no runtime for "no-such" is configured'):
        await harness.runtime.run_pod_sandbox(config, "no-such")
    await harness.sandbox(config)


async def test_unknown_ids_are_success_for_ending_and_not_found_for_asking(
    harness: Harness,
) -> None:
    await harness.runtime.stop_pod_sandbox(UNKNOWN)
    await harness.runtime.remove_pod_sandbox(UNKNOWN)
    with pytest.raises(NotFound):
        await harness.runtime.pod_sandbox_status(UNKNOWN)


async def test_a_stopped_sandbox_has_no_address_and_no_process(harness: Harness) -> None:
    sandbox_id = await harness.sandbox()
    container_id = await harness.start(SLEEP, sandbox_id)
    for _ in range(2):
        await harness.runtime.stop_pod_sandbox(sandbox_id)
    status = await harness.runtime.pod_sandbox_status(sandbox_id)
    assert (status.state, status.network.ip) == (m.SANDBOX_NOTREADY, "")
    assert (await harness.exited(container_id)).exit_code == 137
    with pytest.raises(CRIError):
        await harness.create(sandbox_id, SLEEP, "another")


async def test_removal_takes_the_containers_with_it(harness: Harness) -> None:
    sandbox_id = await harness.sandbox()
    container_id = await harness.start(SLEEP, sandbox_id)
    for _ in range(2):
        await harness.runtime.remove_pod_sandbox(sandbox_id)
    assert await harness.runtime.list_containers(pod_sandbox_id=sandbox_id) == []
    with pytest.raises(NotFound):
        await harness.runtime.container_status(container_id)


async def test_a_cancelled_caller_still_learns_what_it_made(harness: Harness) -> None:
    config = harness.sandbox_config()
    made = ""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def cancel_soon() -> None:
                await anyio.sleep(0.02)
                scope.cancel()

            group.start_soon(cancel_soon)
            made = await harness.sandbox(config)
    found = await harness.runtime.list_pod_sandbox(label_selector=dict(config.labels))
    assert [each.id for each in found] == [made]
