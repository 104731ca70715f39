"""
What engines say by their hosts: they are lost and back, and so are controls
(`device.md` §10).
"""

from __future__ import annotations

import threading

import attrs
import pytest

from tests.runtime.bridges import Bridged, joined
from tests.runtime.doubles import (
    ListedEngine,
    MemoryDevice,
    ThreadedReactor,
    facts,
    open_order,
    stop_order,
)
from twisted_aotx.device.numbers import Event
from twisted_aotx.runtime.bridge import EngineBridge
from twisted_aotx.wire.info import ControlRow


class TestLost:
    """
    An engine that is lost and comes back (`device.md` §10).
    """

    def test_the_device_is_told_and_leases_are_dropped(self, world: Bridged) -> None:
        """From any thread; its reports go nowhere, and it is told no stop."""
        lease, host = world.open(), world.engine.host
        assert host is not None
        lease.opened(1)
        world.reactor.settle()
        thread = threading.Thread(target=host.lost, args=("its process ended",))
        thread.start()
        thread.join()
        world.reactor.settle()
        lease.emit(b"late", 1)
        world.device.order(stop_order())
        world.reactor.settle()

        assert world.device.roles == [(2, False)]
        assert [report[2] for report in world.device.reports] == [Event.OPENED]
        assert world.engine.verbs == [("open", 1, 1)]

    def test_while_lost_nothing_is_opened(self, world: Bridged) -> None:
        """An order on its way when the engine was lost is the device's to end."""
        assert world.engine.host is not None
        world.engine.host.lost("gone")
        world.reactor.settle()
        world.device.order(open_order())
        world.reactor.settle()

        assert world.engine.verbs == []
        assert world.device.reports == []

    def test_back_before_its_order_is_taken(self, world: Bridged) -> None:
        """It opens what the device has ended by then, and is told so."""
        host = world.engine.host
        assert host is not None
        host.lost("gone")
        host.back()
        world.device.order(open_order(), stop_order())
        world.reactor.settle()

        assert world.engine.verbs == [("open", 1, 1), ("stop", 1, 1)]

    def test_a_lease_that_the_word_of_the_loss_came_after(self, world: Bridged) -> None:
        """Back at once, it opened that lease anew: it is told that it is over."""
        lease, host = world.open(), world.engine.host
        assert host is not None
        host.lost("gone")
        host.back()
        world.reactor.settle()
        lease.opened(1)
        world.device.order(stop_order())
        world.reactor.settle()

        assert world.engine.verbs == [("open", 1, 1), ("stop", 1, 1)]
        assert world.device.reports == []

    def test_back_serves_again(self, world: Bridged) -> None:
        """Orders after `back` are opened; saying either twice changes nothing."""
        host = world.engine.host
        assert host is not None
        for say in (host.back, lambda: host.lost("a"), lambda: host.lost("b")):
            say()
        host.back()
        host.back()
        world.reactor.settle()
        world.open(1, 2)

        assert world.device.roles == [(2, False), (2, True)]
        assert world.engine.verbs == [("open", 1, 2)]

    def test_other_roles_are_untouched(self) -> None:
        """Each engine is lost alone."""
        language, audio = ListedEngine(facts(2)), ListedEngine(facts(4))
        world = joined(language, audio)
        world.device.order(attrs.evolve(open_order(2), role=4))
        world.reactor.settle()
        assert language.host is not None
        language.host.lost("gone")
        world.reactor.settle()
        audio.leases[0].opened(1)
        world.reactor.settle()

        assert [report[2] for report in world.device.reports] == [Event.OPENED]
        world.device.free()


def test_after_close_nothing_reaches_anybody(world: Bridged) -> None:
    """Engines may still talk; the device is gone."""
    lease, host = world.open(), world.engine.host
    assert host is not None
    lease.opened(1)
    world.bridge.close()
    lease.emit(b"late", 1)
    host.lost("gone")
    host.back()
    world.reactor.settle()

    assert world.device.reports == []
    assert world.device.roles == []


class TestControls:
    """
    `EngineHost.control`: a control is withdrawn and offered again.
    """

    CONTROLS = tuple(
        ControlRow(name=name, layers=1, doses=(1,)) for name in ("calm", "wild")
    )

    def joined(self) -> Bridged:
        return joined(
            ListedEngine(facts(3)),
            ListedEngine(attrs.evolve(facts(2), controls=self.CONTROLS)),
        )

    def test_the_device_hears_each_change_once(self) -> None:
        world = self.joined()
        host = world.engines[1].host
        assert host is not None

        for available in (True, False, False, True):
            host.control("wild", available)
        host.control("calm", False)
        world.reactor.settle()

        assert world.device.controls == [(1, False), (1, True), (0, False)]
        world.device.free()

    def test_before_the_kernels_are_compiled(self) -> None:
        """What was withdrawn until then is told at the start of serving."""
        device, reactor = MemoryDevice(), ThreadedReactor()
        engine = ListedEngine(attrs.evolve(facts(2), controls=self.CONTROLS))
        bridge = EngineBridge(reactor, device, [engine])
        host = bridge.host(engine)
        host.control("calm", False)
        host.control("wild", False)
        host.control("calm", True)
        reactor.settle()
        assert device.controls == []

        bridge.serve()

        assert device.controls == [(1, False)]
        device.free()

    @pytest.mark.parametrize("role", [2, 3])
    def test_a_name_that_is_not_declared(self, role: int) -> None:
        world = self.joined()
        (host,) = [e.host for e in world.engines if e.facts.role == role]
        assert host is not None

        with pytest.raises(ValueError, match="declares no control 'other'"):
            host.control("other", False)
        world.device.free()
