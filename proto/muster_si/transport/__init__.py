"""Two ways to carry the Scheduler Interface; the core and the operator cannot tell which one they got.

Read in this order: ``inprocess`` (hands objects over) and ``client_session`` (one registration as the resource
manager sees it); then the socket: ``grpc_client`` and ``client_stream`` on one side, ``grpc_server``, ``servicer`` and
``server_session`` on the other. Both sides of the socket share ``streams`` (the four ordered streams), ``batching``
(which messages may travel as one), ``outbox`` (the bounded queue before a stream), ``status`` (refusals as gRPC
status), ``address``, ``credentials`` and ``settings``. ``administration`` serves, and asks for, what needs no session.
"""
