"""Other schedulers of the names we serve: two that decide about the same pods would fight (semantics 30).

``yunikorn`` (a YuniKorn that runs), ``neighbours`` (another Muster in another namespace), ``lookout`` (who looks, when,
and what follows).
"""
