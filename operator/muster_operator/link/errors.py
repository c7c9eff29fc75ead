"""What can go wrong between the operator and the world outside.

LinkError
├── NoCredentials     no way into the cluster is configured
├── Unreachable       the API server did not answer (connection, time-out)
│   └── NotLeading    it was not asked, or its answer not awaited: we may not write
├── Uncertain         a look at another scheduler failed: neither yes nor no
├── ApiRefused        the API server answered with an error status
├── PartEnded         a part that has to run for ever ended
│   └── LeadershipLost    another operator leads
└── StartupRefused    the operator must not or cannot start: one line says key, value and fix
    └── ConfigurationRefused  what stands in the ConfigMaps cannot be put in force
        └── BadSetting        a value of them is wrong
"""

from __future__ import annotations


class LinkError(Exception):
    """Root of the operator's errors."""


class NoCredentials(LinkError):
    """There is neither a service account nor a usable kubeconfig."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no credentials for a Kubernetes API server ({reason}): set KUBECONFIG or run in a pod")
        self.reason = reason


class Unreachable(LinkError):
    """The API server did not answer; whether it acted is unknown."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.reason = reason


class NotLeading(Unreachable):
    """A write that the fence stopped; before it was sent, or while its answer was awaited."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "this operator does not hold the lease")


class ApiRefused(LinkError):
    """The API server answered with an error status."""

    def __init__(self, what: str, status: int, reason: str) -> None:
        super().__init__(f"{what}: {status} {reason}")
        self.status = status
        self.reason = reason


class Uncertain(LinkError):
    """The API server answered, but not what was asked: whether another scheduler runs is unknown."""


class PartEnded(LinkError):
    """A part of the operator ended by itself; the process has to start anew."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(f"{part} ended: {reason}")
        self.part = part


class LeadershipLost(PartEnded):
    """The lease has, or had, another holder: what we know and plan is not in force any more."""

    def __init__(self, lease: str, holder: str) -> None:
        super().__init__("leadership", f"{holder or 'another operator'} took the lease {lease}")
        self.holder = holder


class StartupRefused(LinkError):
    """The operator cannot serve as asked; the message says why and what to do."""


class ConfigurationRefused(StartupRefused):
    """What stands in the ConfigMaps cannot be put in force; `key` is the entry at fault."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class BadSetting(ConfigurationRefused):
    """A setting has a value that means nothing."""

    def __init__(self, key: str, value: str, fix: str) -> None:
        super().__init__(key, f"setting {key} = {value!r} is wrong: {fix}")
        self.value = value
        self.fix = fix
