"""The state directory ROOT_DIR/minikubelet (0700): what the runtime can't hold and a restart needs.

One versioned JSON file a subject, readable by a person, written by rename. Never the truth about
containers: that is the runtime's. No fsync: a power cut loses at most the newest words, and after
it the pods start anew.
"""
