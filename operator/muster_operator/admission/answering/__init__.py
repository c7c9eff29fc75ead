"""Answers over HTTPS: ``wire`` (a question and its answer as JSON), ``server``, in the loop of ``aside``.

``cluster`` is what is known, from the operator's own watch; ``configuration`` judges ConfigMaps with the core.
"""
