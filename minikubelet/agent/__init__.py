"""The composition root: `agent` plugs the rooms together, `parts` builds what needs the config."""

from minikubelet.agent.agent import run_agent

__all__ = ["run_agent"]
