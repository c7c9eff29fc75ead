"""Two transports of the Scheduler Interface with the same behaviour: in process, and gRPC.

Read in this order: ``inprocess`` (passes objects) and ``client_session`` (a session of the resource manager); then
gRPC: ``grpc_client`` and ``client_stream`` on the client, ``grpc_server``, ``servicer`` and ``server_session`` on the
server. Both sides of gRPC share ``streams`` (the four ordered streams), ``batching`` (which messages can be merged),
``outbox`` (the bounded queue of a stream), ``status`` (rejections as gRPC status), ``address``, ``credentials`` and
``settings``. ``administration`` has the services without a session.
"""
