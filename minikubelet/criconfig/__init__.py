"""From a pod's spec to the CRI messages that run it: pure functions of values.

Owns PodSandboxConfig and ContainerConfig and every rule that shapes them (environment, mounts, DNS,
hosts, security, resources, labels, log paths). Never touches a file, a clock or the runtime: what
must be looked up first arrives as `NodeContext` and `ContainerInputs`. `pods` calls `sandbox` and
`container`; a spec that can't be carried out raises `ConfigProblem` with the kubelet's text.
"""
