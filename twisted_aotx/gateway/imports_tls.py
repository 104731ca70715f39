"""
TLS towards the sources of imports: the system's authorities, and those of `ca_file`.

Needs pyOpenSSL (`pip install 'Twisted[tls]'`), so it is imported only where something
is imported.
"""

# pyOpenSSL's contexts are called from here; Twisted leaves them without annotations.
# mypy: allow-untyped-calls

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from twisted.internet._sslverify import IOpenSSLTrustRoot
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.ssl import Certificate, TLSVersion, optionsForClientTLS
from zope.interface import implementer

_CERTIFICATE = re.compile(
    rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


@implementer(IOpenSSLTrustRoot)
class Authorities:
    """
    The certificate authorities that a source's certificate may come from: the system's
    and those of a PEM file.

    Raises:
        OSError, OpenSSL.crypto.Error, ValueError: the file cannot be read or holds no
            certificate.
    """

    def __init__(self, ca_file: str | None) -> None:
        blocks = []
        if ca_file is not None:
            blocks = _CERTIFICATE.findall(Path(ca_file).read_bytes())
            if not blocks:
                raise ValueError("no certificate")
        self._added = [Certificate.loadPEM(block).original for block in blocks]

    def _addCACertsToContext(self, context: Any) -> None:
        context.set_default_verify_paths()
        store = context.get_cert_store()
        for certificate in self._added:
            store.add_cert(certificate)


def connection_creator(
    host: str, ca_file: str | None
) -> IOpenSSLClientConnectionCreator:
    """
    TLS 1.2 or newer with a server whose certificate names *host*.

    Args:
        host: A name or an address.
        ca_file: A PEM file of more authorities.

    Raises:
        OSError, OpenSSL.crypto.Error, ValueError: of `Authorities`.
    """
    return optionsForClientTLS(
        host,
        trustRoot=Authorities(ca_file),
        extraCertificateOptions={"raiseMinimumTo": TLSVersion.TLSv1_2},
    )
