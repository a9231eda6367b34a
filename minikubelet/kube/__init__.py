"""The apiserver: raw JSON in and out, list and watch.

Knows paths, verbs, pools and errors; never what an object means. `transport` is the one module
that imports kubernetes_asyncio, and is itself imported once somebody has a kubeconfig. Other
rooms speak to the `API` Protocol of `kube.api`.
"""
