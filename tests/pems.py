"""
Certificates of their own for tests of TLS.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_PEM = serialization.Encoding.PEM


def make_pems(folder: Path, letters: str, host: str = "127.0.0.1") -> None:
    """
    For each letter a certificate of *host*, `a.pem`, and its key, `a.key`.
    """
    try:
        named: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        named = x509.DNSName(host)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    for letter in letters:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([named]), critical=False)
            .sign(key, hashes.SHA256())
        )
        (folder / f"{letter}.pem").write_bytes(certificate.public_bytes(_PEM))
        (folder / f"{letter}.key").write_bytes(
            key.private_bytes(
                _PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
