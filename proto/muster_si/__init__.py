"""The Scheduler Interface: the only thing that operator and core both know.

Read in this order: ``si.proto`` (the messages and the service), ``muster.proto`` (the callbacks of a resource
manager over the wire), ``api`` (both as Python protocols), ``keys`` (the vocabulary of attributes and tags),
``transport`` (the two ways a message travels). ``log_lines`` has the form of a line of the log, which is one for both.
"""
