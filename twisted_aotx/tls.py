"""
The TLS of a gateway: certificate and key → what a listening endpoint needs.

Needs pyOpenSSL (`pip install 'Twisted[tls]'`), so it is imported only where a
configuration names a certificate. Layer 5.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from OpenSSL import SSL, crypto
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IListeningPort,
    IOpenSSLContextFactory,
    IProtocolFactory,
    IStreamServerEndpoint,
)
from twisted.internet.ssl import CertificateOptions, TLSVersion
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer

from twisted_aotx.errors import ConfigError, ConfigErrors

_CERTIFICATE = re.compile(
    rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)
_FAULTS = (SSL.Error, crypto.Error, ValueError)


@implementer(IOpenSSLContextFactory)
class CurrentCertificate:
    """
    The certificate of each new connection; those that are open keep theirs.
    """

    def __init__(self, options: CertificateOptions) -> None:
        self._options = options

    def renew(self, options: CertificateOptions) -> None:
        """
        Use *options* from now on.
        """
        self._options = options

    def getContext(self) -> SSL.Context:
        """See `IOpenSSLContextFactory`."""
        return self._options.getContext()


@implementer(IStreamServerEndpoint)
class TLSEndpoint:
    """
    An endpoint with TLS on every connection.
    """

    def __init__(self, endpoint: Any, certificate: CurrentCertificate) -> None:
        self._endpoint = endpoint
        self._certificate = certificate

    def listen(self, factory: IProtocolFactory) -> Deferred[IListeningPort]:
        """See `IStreamServerEndpoint`."""
        port: Deferred[IListeningPort] = self._endpoint.listen(
            TLSMemoryBIOFactory(self._certificate, False, factory)
        )
        return port


def certificate_options(certificate: str, key: str) -> CertificateOptions:
    """
    Options for TLS 1.2 or newer.

    Args:
        certificate: A PEM file: the certificate, then its chain.
        key: A PEM file with the private key, without a passphrase.

    Raises:
        ConfigErrors: a file cannot be read, is no PEM, or they do not belong together.
    """
    try:
        # An empty passphrase: without one, a terminal would be asked.
        private_key = crypto.load_privatekey(
            crypto.FILETYPE_PEM, _read("key", key), passphrase=b""
        )
    except _FAULTS:
        raise _error("key", f"{key} holds no private key in PEM form") from None
    try:
        chain = [
            crypto.load_certificate(crypto.FILETYPE_PEM, block)
            for block in _CERTIFICATE.findall(_read("certificate", certificate))
        ]
    except _FAULTS:
        chain = []
    if not chain:
        raise _error("certificate", f"{certificate} holds no certificate in PEM form")
    options = CertificateOptions(
        privateKey=private_key,
        certificate=chain[0],
        extraCertChain=chain[1:],
        raiseMinimumTo=TLSVersion.TLSv1_2,
    )
    try:
        options.getContext()
    except _FAULTS:
        raise _error("key", "does not belong to the certificate") from None
    return options


def _read(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _error(name, f"{path} cannot be read: {error.strerror}") from None


def _error(name: str, reason: str) -> ConfigErrors:
    return ConfigErrors((ConfigError(name, reason),))
