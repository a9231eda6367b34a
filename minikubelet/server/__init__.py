"""The kubelet's HTTP API: one file an endpoint, given callables, never the agent.

Standalone it listens on a unix socket that only root may open; `healthz` also answers on loopback.
"""
