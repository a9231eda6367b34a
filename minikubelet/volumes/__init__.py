"""Volumes: made complete on the node before a pod's sandbox, taken away after its last container.

One file a volume type; `manager` sets all of a pod up and tears all down, `subpath` prepares parts
of volumes for single mounts, safe against symlinks. Layout below the root dir as the kubelet's:
pods/<uid>/volumes/<plugin>/<name>. Never decides when: `pods` does.
"""
