"""What a pod is and needs next: pure functions of the spec, the runtime's state and the time.

Owns the runtime status types, actions, restart rules, back-off, phase, conditions, container
statuses. Never does I/O and never guesses: what the runtime didn't say is unknown.
"""
