"""The commands that a person types, one file a command; they speak to the agent by its socket."""
