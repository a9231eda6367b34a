"""What the node tells the apiserver about its pods: status patches, mirror pods, events.

Never computes a status: workers hand it over. Source: kubelet status/status_manager.go,
pod/mirror_client.go, client-go tools/record.
"""
