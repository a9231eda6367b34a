"""Carrying out: from a pod's wish and the runtime's view to CRI calls, one worker task a pod uid.

`registry` knows which pods there are and which of two with one name runs, `worker` is the life of
one pod, `sync` / `start` / `kill` / `terminate` walk what `lifecycle` decided. Never decides by
itself what a pod needs and never speaks to an apiserver.
"""
