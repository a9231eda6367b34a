"""The Node object of this machine: registration, status, conditions, lease, certificates.

Never acts on pods. Source: kubelet kubelet_node_status.go, nodestatus/setters.go.
"""
