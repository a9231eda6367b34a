"""The bench: minikubelet, the kubelet and the bare CRI calls on one containerd, in one run.

`hack/bench` does the set-up and the clean-up and runs this package. `__main__` is the plan of a
run, `sessions` what is measured, `contestants` who is measured, `observe` what counts as seen,
`usage` what is used, `report` the table. It imports minikubelet's messages and its pure builders of
CRI configs, so that the bare calls carry the very configs an agent would send.
"""
