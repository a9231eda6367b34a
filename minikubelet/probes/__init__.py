"""Requests that the node makes to containers. Now: the GET of httpGet hooks.

Reports what came back; never restarts anything. Each kind of prober is one file.
"""
