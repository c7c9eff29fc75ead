"""Clients: `http` is one connection, `rest` the core, `kubernetes` the API server with the credentials of `kubeconfig`,
and `port_forward` finds a core in the cluster and connects to it by a `port_channel`.
"""
