"""The scheduler core: it decides where asks go, and talks to nobody but its resource managers.

Read in this order: ``model`` (the words), ``world`` (the ledgers), ``plan`` (the questions), ``engine`` (the only
writer), ``edge`` (clock, network and configuration). A layer imports only from the layers before it.
"""
