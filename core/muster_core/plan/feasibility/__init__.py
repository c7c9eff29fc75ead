"""One module per filter: which nodes may hold a scheduling class, and for the others, why not."""
