"""What `muster doctor` looks at: raw objects in, findings out, nothing is asked for here.

`finding` is the answer; `core`, `leases`, `workloads`, `webhooks`, `rights` and `other_schedulers` each check one
thing.
"""
