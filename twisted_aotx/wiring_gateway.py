"""
A gateway as a part of a process: client, site, listening port, readiness (layer 5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from twisted_aotx.config.gateway import GatewayFile
from twisted_aotx.errors import (
    AOTXError,
    ConfigError,
    ConfigErrors,
    DeviceRefused,
    ExchangeFailed,
)
from twisted_aotx.gateway.closing import close_down
from twisted_aotx.gateway.measured import MeasuredClient
from twisted_aotx.gateway.metrics import Metrics
from twisted_aotx.gateway.replacement import replacement
from twisted_aotx.gateway.resource import Gateway
from twisted_aotx.gateway.site import GatewaySite, make_site
from twisted_aotx.listening import Listening, of_settings
from twisted_aotx.places import Place
from twisted_aotx.wire.numbers import Status
from twisted_aotx.wire.watch import watch_path

if TYPE_CHECKING:
    from prometheus_client.registry import Collector
    from twisted.internet.ssl import CertificateOptions

    from twisted_aotx.gateway.settings import GatewaySettings
    from twisted_aotx.tls import CurrentCertificate

# In the class it would be named after the class.
_log = Logger("aotx.gateway")

#: Seconds between two looks at whether the runtime answers.
_LOOK_SECONDS: Final = 1.0


class GatewayPart:
    """
    One gateway. `start` listens; readiness is logged once the runtime answers. `reload`
    takes its file as it is now.

    Args:
        file: What is served by at first.
        load: Reads the file again.
        places: Where it listens instead of the file's `host` and `port`.
        collectors: What else `/metrics` tells, for example of a runtime beside it.
    """

    name = "gateway"

    def __init__(
        self,
        reactor: Any,
        file: GatewayFile,
        load: Callable[[], GatewayFile],
        places: Sequence[Place] = (),
        collectors: Sequence[Collector] = (),
    ) -> None:
        self._reactor = reactor
        self._file = file
        self._load = load
        self._settings = file.settings
        self._site: GatewaySite | None = None
        self._places = places
        self._collectors = collectors
        self._certificate: CurrentCertificate | None = None
        #: Of the file that was read last.
        self._options: CertificateOptions | None = None
        self._listening: Listening | None = None
        self._announcing: Deferred[None] | None = None

    async def start(self, died: Callable[[str], None]) -> None:
        """
        Listen.

        Args:
            died: Never called: a gateway outlives every fault of a request.

        Raises:
            ConfigErrors: certificate, key or an endpoint cannot be used.
            OSError: the access log cannot be written to.
            CannotListenError: the address is taken or not ours.
        """
        self._warn()
        settings = self._settings
        metrics = Metrics()
        for collector in self._collectors:
            metrics.registry.register(collector)
        client = MeasuredClient(
            metrics,
            self._reactor,
            settings.socket,
            connections_max=settings.limits.wire_connections,
            waiters_max=settings.limits.connections,
            watch_path=watch_path(str(settings.socket)),
        )
        gateway = Gateway(settings, client, self._reactor, metrics=metrics)
        self._site = make_site(gateway)
        self._site.journal.open(settings.access_log)
        self._certificate = _current(tls_options(settings))
        places = self._places or (of_settings(settings),)
        self._listening = Listening(self._reactor, places, self._certificate)
        await self._listening.open(self._site)
        self._announcing = Deferred.fromCoroutine(self._announce(gateway))
        self._announcing.addErrback(lambda failure: failure.trap(CancelledError))

    @property
    def stop_seconds(self) -> float:
        """Open answers have `write_seconds`."""
        return float(self._settings.limits.write_seconds)

    def read_again(self) -> None:
        """
        Read the file, and check all that a start would.

        Raises:
            ConfigErrors: every fault of the file.
        """
        file = self._load()
        options = tls_options(file.settings)
        self._file, self._options = file, options

    async def reload(self, late: Callable[[], object]) -> None:
        """
        Serve by the file that was read; calls that are being served stay as they are.

        *late* is never called: nothing here waits.

        Raises:
            OSError: the access log cannot be written to; nothing was taken.
        """
        site = self._site
        assert site is not None, "reload before start"
        self._warn()
        settings, needing = replacement(self._settings, self._file.settings)
        site.journal.open(settings.access_log)
        # From here on nothing fails.
        self._settings = settings
        site.reconfigure(settings)
        if self._certificate is not None and self._options is not None:
            self._certificate.renew(self._options)
        _log.info(
            "reloaded: revision {revision}, {models} model(s), {principals} "
            "principal(s)",
            revision=settings.revision,
            models=len(settings.models),
            principals=len(settings.principals),
        )
        if needing:
            _log.warn("only a restart changes {keys}", keys=", ".join(needing))
        self._look_at_revision(site.gateway)

    def reloaded(self, reasons: Sequence[str]) -> None:
        """Nobody waits for that here."""

    def _warn(self) -> None:
        for notice in self._file.notices:
            _log.warn("gateway.json: {notice}", notice=notice)

    def _look_at_revision(self, gateway: Gateway) -> None:
        """Check it beside whatever else goes on, instead of an earlier check."""
        if self._announcing is not None and self._announcing.called:
            self._announcing = Deferred.fromCoroutine(self._check_later(gateway))
            self._announcing.addErrback(lambda failure: failure.trap(CancelledError))

    async def stop(self) -> None:
        """
        Take no new work, let answers out, take no more connections.
        """
        if self._announcing is not None:
            self._announcing.cancel()
        if self._site is not None:
            await close_down(self._site)
        if self._listening is not None:
            await self._listening.close()

    async def _announce(self, gateway: Gateway) -> None:
        """Say when the runtime answers, and what its answer means for callers."""
        assert self._listening is not None, "start opened it"
        address = ", ".join(self._listening.addresses())
        _log.info("listening on {address}", address=address)
        is_waiting = False
        while not await gateway.readiness.is_ready():
            if not is_waiting:
                is_waiting = True
                _log.warn(
                    "the runtime at {socket} does not answer yet",
                    socket=self._settings.socket,
                )
            await deferLater(self._reactor, _LOOK_SECONDS)
        _log.info("ready: {address}", address=address)
        await self._check_revision(gateway)

    async def _check_later(self, gateway: Gateway) -> None:
        # A runtime whose grants were replaced has dropped our connections just now.
        await deferLater(self._reactor, _LOOK_SECONDS)
        await self._check_revision(gateway)

    async def _check_revision(self, gateway: Gateway) -> None:
        """A grant table of another revision refuses everybody: say so."""
        if not self._settings.principals:
            return
        try:
            await gateway.client.info(gateway.caller(self._settings.principals[0]))
        except DeviceRefused as refused:
            if refused.status == Status.FORBIDDEN:
                _log.warn(
                    "the runtime knows no grant of revision {revision}: "
                    "run aotx grants --reload",
                    revision=self._settings.revision,
                )
        except ExchangeFailed:
            pass  # readiness tells who asks that it is away
        except AOTXError as error:
            _log.warn("the runtime's answer is odd: {error}", error=str(error))


def tls_options(settings: GatewaySettings) -> CertificateOptions | None:
    """
    What a TLS endpoint needs; None without a certificate. What imports need is checked.

    Raises:
        ConfigErrors: certificate, key or `urls.ca_file` cannot be used, or TLS is not
            installed.
    """
    _check_authorities(settings.urls.ca_file)
    if settings.certificate is None or settings.key is None:
        return None
    try:
        # pyOpenSSL is an extra of Twisted: only who uses TLS needs it.
        from twisted_aotx.tls import certificate_options
    except ImportError:
        reason = "TLS needs pyOpenSSL: pip install 'Twisted[tls]'"
        raise ConfigErrors((ConfigError("certificate", reason),)) from None
    return certificate_options(settings.certificate, settings.key)


def _check_authorities(ca_file: str | None) -> None:
    if ca_file is None:
        return
    try:
        from twisted_aotx.gateway.imports_tls import Authorities

        Authorities(ca_file)
    except ImportError:
        reason = "imports need pyOpenSSL: pip install 'Twisted[tls]'"
    except OSError as error:
        reason = f"{ca_file} cannot be read: {error.strerror}"
    except Exception:
        reason = f"{ca_file} holds no certificate in PEM form"
    else:
        return
    raise ConfigErrors((ConfigError("urls.ca_file", reason),))


def _current(options: CertificateOptions | None) -> CurrentCertificate | None:
    if options is None:
        return None
    from twisted_aotx.tls import CurrentCertificate

    return CurrentCertificate(options)
