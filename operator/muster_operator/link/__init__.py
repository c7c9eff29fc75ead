"""The operator's I/O: commands to the API server, messages to and from the core, retries and limits."""
