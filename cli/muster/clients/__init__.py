"""Clients: `http` is one connection, `rest` the core, `kubernetes` the API server with the credentials of `kubeconfig`,
and `port_forward` the connection to a core in the cluster.
"""
