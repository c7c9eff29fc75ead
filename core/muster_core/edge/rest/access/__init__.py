"""Who may ask what: reads, changes and dumps, and the connection they come on.

`guard` decides, with `tokens` (a token of our own in a file) and `kubernetes`
(the cluster's tokens, by TokenReview and SubjectAccessReview); `loopback` says
whether a caller is this machine itself; `tls` has the server's certificate.
"""
