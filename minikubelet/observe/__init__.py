"""What people see of the agent: structured logs, the event recorder, the per-pod timeline."""
