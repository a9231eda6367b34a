"""What the transport costs: the library's generated half stays outside."""

import subprocess
import sys

SCRIPT = """
import sys
import minikubelet.kube.client
assert not any(name.startswith("kubernetes_asyncio") for name in sys.modules)
import minikubelet.kube.transport as transport
names = [name for name in sys.modules if name.startswith("kubernetes_asyncio")]
assert len(names) < 10, names
assert transport.ApiClient.__module__ == "kubernetes_asyncio.client.api_client"
"""


def test_no_model_of_the_library_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_whoever_has_imported_the_library_whole_keeps_it() -> None:
    script = "import kubernetes_asyncio.client as c; import minikubelet.kube.transport; c.V1Pod"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
