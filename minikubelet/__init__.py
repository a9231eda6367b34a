"""minikubelet: a kubelet in Python.

`agent` plugs the rooms together; `syncloop`, `pods.worker`, `lifecycle.actions`, `pods.sync` and
`cri.services` are the way of a pod from manifest to process, in reading order.
"""

__version__ = "0.1.0"
KUBERNETES_VERSION = "v1.36.0+minikubelet" + __version__
"""What the Node object shows: the release that the node behaves as, and whose agent it runs."""
