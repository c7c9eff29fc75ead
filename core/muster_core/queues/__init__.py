"""Questions about queues: which queue an application goes to, how much quota is available, how turns are shared."""
