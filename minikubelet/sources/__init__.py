"""Where pods come from: a manifest folder, a URL; and how their sets become updates.

Owns the way from bytes to `PodUpdate`s: `file` and `http` read, `decode` and `static` (pure) make
pods of documents, `merge` (pure) tells what changed. Never starts a pod or speaks CRI.
"""
