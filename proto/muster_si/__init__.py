"""The Scheduler Interface: the only code that operator and core share.

Read in this order: ``si.proto`` (the messages and the service), ``muster.proto`` (callbacks of a resource manager over
gRPC), ``api`` (both as Python protocols), ``keys`` (names of attributes and tags), ``transport`` (in-process and gRPC).
Beside it, ``kubeconfig`` has the access to the API server, ``log_lines`` the format of log lines,
``client_connections`` and ``fair_seats`` the limits of web clients, ``near_names`` suggestions for misspelt names.
"""
