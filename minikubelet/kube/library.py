"""kubernetes_asyncio without its generated half: the transport, not 1,100 modules of models.

The library's package imports every model and every API group at once (37 MiB, 0.4 s). Documents are
plain JSON here, so the two packages are entered in their place before the modules that are wanted
are imported from their files; whoever has imported the library whole keeps that. Only `transport`
comes here.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_PACKAGE = "kubernetes_asyncio"
_CLIENT = f"{_PACKAGE}.client"
_MODELS = f"{_CLIENT}.models"


def load(name: str) -> ModuleType:
    """Return one module of the library's client, such as `rest`. Raises ImportError."""
    if _PACKAGE not in sys.modules:
        _enter_packages()
    return importlib.import_module(f"{_CLIENT}.{name}")


def _enter_packages() -> None:
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"cannot find {_PACKAGE}: install it, or start without a kubeconfig")
    root = Path(next(iter(found.submodule_search_locations)))
    for name, folder in ((_PACKAGE, root), (_CLIENT, root / "client"), (_MODELS, None)):
        package = ModuleType(name)
        if folder is not None:
            package.__path__ = [str(folder)]
        sys.modules[name] = package
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, package)
