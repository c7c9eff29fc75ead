"""Who is asked, and how: `http` is one connection, `rest` the core behind it, `kubernetes` the cluster, `forwarding`
the way to a core inside of a cluster, `target` which of them the options mean.
"""
