"""Runtime events and the pod cache: what runs, seen soon and never guessed.

Events only mark a pod dirty; the state is always asked for. Never acts on pods: `syncloop` is told
which uid changed and wakes its worker.
"""
