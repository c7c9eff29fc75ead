"""Which groups a user is in, where its application does not say (contract 2.9).

`answers` is what a directory says; `system` and `ldap` are the directories;
`cache` remembers what they said; `lookup` asks them for the applications of a
message, off the event loop, and never waits long for one that is silent.
"""
