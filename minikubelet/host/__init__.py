"""The machine: one door each to subprocesses, mounts, cgroups, namespaces and the clock."""
