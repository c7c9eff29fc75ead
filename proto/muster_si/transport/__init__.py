"""Two ways to carry the Scheduler Interface: ``inprocess`` hands objects over, ``grpc`` sends them over a socket."""
