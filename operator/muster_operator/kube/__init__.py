"""The API server: connections, watches, writes with priorities and retries, leases."""
