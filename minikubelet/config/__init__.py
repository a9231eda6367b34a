"""What the agent is told: KubeletConfiguration and the kubelet's flags, as one frozen `Config`.

Owns reading, defaults, checks and the knowledge of what has an effect here. Read once at start;
nothing of the environment is read later. Only `agent` and `cli` import this room.
"""
