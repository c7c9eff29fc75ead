"""An LDAP server for tests on a free port: `python ldap_server.py [FILE]` prints the port.

With a file that contains a key and its certificate, it uses TLS.

It runs in its own process, because ldaptor needs its own reactor and prints warnings at import.
"""

import io
import sys
from typing import Any

from ldaptor.inmemory import fromLDIFFile  # type: ignore[import-untyped]  # it ships no types
from ldaptor.interfaces import IConnectedLDAPEntry  # type: ignore[import-untyped]  # it ships no types
from ldaptor.protocols.ldap.ldapserver import LDAPServer  # type: ignore[import-untyped]  # it ships no types
from twisted.internet import reactor as untyped
from twisted.internet import ssl
from twisted.internet.protocol import ServerFactory
from twisted.python import components

#: Twisted's type is that of the module that the reactor replaces at run time.
reactor: Any = untyped
register_adapter: Any = components.registerAdapter
context_of: Any = ssl.DefaultOpenSSLContextFactory

_PEOPLE = b"""\
dn: dc=example,dc=com
dc: example
objectClass: dcObject

dn: cn=reader,dc=example,dc=com
objectClass: person
cn: reader
userPassword: secret

dn: uid=kim,dc=example,dc=com
objectClass: person
uid: kim
memberof: CN=dev,OU=groups,DC=example,DC=com
memberof: cn=ops,ou=groups,dc=example,dc=com
memberof: plain

dn: uid=ann*,dc=example,dc=com
objectClass: person
uid: ann*
memberof: cn=star,dc=example,dc=com

dn: uid=lone,dc=example,dc=com
objectClass: person
uid: lone

"""


class _Factory(ServerFactory):
    protocol: Any = LDAPServer

    def __init__(self, root: object) -> None:
        self.root = root


def _listen(root: object) -> None:
    register_adapter(lambda factory: factory.root, _Factory, IConnectedLDAPEntry)
    factory: Any = _Factory(root)
    if len(sys.argv) > 1:
        pair = context_of(sys.argv[1], sys.argv[1])
        port = reactor.listenSSL(0, factory, pair, interface="127.0.0.1")
    else:
        port = reactor.listenTCP(0, factory, interface="127.0.0.1")
    sys.stdout.write(f"{port.getHost().port}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    fromLDIFFile(io.BytesIO(_PEOPLE)).addCallback(_listen)
    # The parent process closes the input when it is done.
    reactor.callInThread(lambda: (sys.stdin.read(), reactor.callFromThread(reactor.stop)))
    reactor.run()
