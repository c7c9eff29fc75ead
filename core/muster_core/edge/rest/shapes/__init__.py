"""What REST answers look like: one pydantic model per JSON object, one module per family of objects.

Attributes carry the JSON's own names (contract 4.1), so a model is the shape
and its documentation at once: `openapi.py` describes the interface from them.
`base` has the root of all and the encoding; an attribute that is None is left
out of the JSON. Views (../views) fill them, nothing here reads the world.
"""
