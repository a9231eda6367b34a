"""What containers wrote: reading their CRI log files and their termination messages.

The runtime writes the files; this room only reads. It never decides whether a container still runs:
who follows a log says when it is over.
"""
