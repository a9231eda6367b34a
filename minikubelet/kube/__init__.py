"""The apiserver: raw JSON in and out, list and watch.

Knows paths, verbs, pools and errors; never what an object means. `client.connect` is the one place
that imports kubernetes_asyncio, and only once somebody has a kubeconfig. Other rooms speak to the
`API` Protocol of `kube.api`.
"""
