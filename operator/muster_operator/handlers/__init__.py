"""What kopf calls: each handler translates, tells the agent, and queues what the agent answers."""
