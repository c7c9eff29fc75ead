"""How the world looks to people: pure functions from ledgers to shapes, one module per family of objects.

They read the world in one go and change nothing. A list of many things is an
iterator, so that whoever writes it can let others run between two of them;
what went meanwhile is passed over.
"""
