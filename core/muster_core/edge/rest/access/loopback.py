"""Whether a request comes from this machine itself, and not through somebody on it.

A web page that a person on this machine looks at may send requests to
loopback too, and so may a proxy for strangers: their requests show it.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from aiohttp import hdrs, web

_PASSED_ON: Final = (hdrs.ORIGIN, hdrs.REFERER, hdrs.FORWARDED, hdrs.X_FORWARDED_FOR, hdrs.VIA, "Sec-Fetch-Site")


def is_local(request: web.Request) -> bool:
    """Whether a program on this machine asks for itself."""
    peer = request.transport.get_extra_info("peername") if request.transport else None
    if not (peer and is_loopback(str(peer[0]))):
        return False
    if any(header in request.headers for header in _PASSED_ON):
        return False
    host = request.url.host or ""
    return host == "localhost" or is_loopback(host)  # a name of elsewhere that resolves to here is a page's trick


def is_loopback(host: str) -> bool:
    """Whether the address is one of this machine's own, reached from nowhere else."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
