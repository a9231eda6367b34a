"""The container runtime: CRI runtime.v1, and everything that may stand behind it.

`services` names what a runtime can do, `messages` are its words, `grpc` speaks them over a socket,
`fake` answers them from memory and passes the same contract suite. Never knows pods: uids, names
and labels pass through as the caller gave them.
"""
