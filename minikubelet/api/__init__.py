"""Kubernetes objects as frozen structs: decode once, read typed, never write back whole.

Owns the shapes (`pod`, `status`, `meta`), the way in (`yaml`, `codec`), defaults and validation.
Structs ignore what they don't know, so the raw document stays beside them (`record.PodRecord`) and
everything that leaves the agent starts from the raw document. Never does I/O, never knows the time.
"""
