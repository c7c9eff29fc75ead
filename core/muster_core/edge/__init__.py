"""Where the core meets the outside: gRPC, REST, metrics, configuration, clock; one task here owns the world."""
