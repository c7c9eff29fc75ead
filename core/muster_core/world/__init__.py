"""The core's ledgers: queues, applications, nodes, users; they add and remove and keep sums, and hold no policy."""
