"""Everything in the state directory is for the agent's user alone, whoever writes there first."""

from pathlib import Path

import pytest

from minikubelet.state.directory import StateDirectory
from minikubelet.state.manifests import ManifestStore

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("first", ["documents", "manifests"])
async def test_the_state_directory_is_private_from_the_first_write(
    first: str, tmp_path: Path
) -> None:
    root = tmp_path / "root" / "minikubelet"
    if first == "documents":
        await StateDirectory(root).save("pods", "uid", {"a": 1})
    else:
        ManifestStore(root).save("/m/web.yaml", [{"kind": "Pod"}])
    made = [root, *root.rglob("*")]
    assert {oct(path.stat().st_mode & 0o077) for path in made} == {"0o0"}
    assert len(made) == 3
