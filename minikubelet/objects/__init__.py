"""API objects that the pods of this node use: ConfigMaps, Secrets, tokens, Services.

Fetched when a pod needs them, watched only while one does. Never kept on disk, never acted upon:
volumes and environments are made by whoever asks.
"""
