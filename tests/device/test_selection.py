"""
Control rows and selections (`wire.md` §7, §8; `device.md` §4 rows 8 and 10, §9).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator

import attrs
import pytest

from tests.device.capacities import DEFAULT, SMALL
from tests.device.driver import Driver
from tests.device.making import (
    CHATML,
    HELLO,
    P2,
    SEED_KEY,
    Played,
    grant,
    message,
    new_device,
    payload_of,
    played_engine,
)
from tests.device.oracle.philox import lease_seed
from tests.device.reference_oracle import Model, generate
from twisted_aotx.engines.reference import CONTROLS, make, read_corpus
from twisted_aotx.errors import ConfigError
from twisted_aotx.orders import Selection
from twisted_aotx.wire.info import ControlRow
from twisted_aotx.wire.numbers import Phase, Role
from twisted_aotx.wire.packet import join
from twisted_aotx.wire.requests import Selector

BOTH = 1 << Role.LANGUAGE | 1 << Role.LANGUAGE_Q4


def sha(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


CALM = ControlRow(
    name="calm",
    positions=1,
    layers=1 << 63 | 5,
    qualification_sha256=sha("calm"),
    doses=(-40000, 1, 40000),
)
#: No dose: listed, never available.
BARE = ControlRow(name="bare", layers=1, qualification_sha256=sha("bare"))
#: Two that one digest names, each with a dose of its own.
TWINS = tuple(
    ControlRow(name=name, layers=1, qualification_sha256=sha("twins"), doses=(dose,))
    for name, dose in (("twin-a", 100), ("twin-b", 200))
)
#: Nothing qualified it, so nobody can name it.
PLAIN = ControlRow(name="plain_0", layers=2, doses=(7,))
ROWS = (CALM, BARE, *TWINS, PLAIN)


def engine(role: int = Role.LANGUAGE, capacity: int = 2) -> Played:
    return played_engine(role, capacity=capacity, sequence_tokens=SMALL.sequence_tokens)


def with_controls(played: Played, *rows: ControlRow) -> Played:
    return Played(attrs.evolve(played.facts, controls=rows))


@pytest.fixture
def driver() -> Iterator[Driver]:
    """Roles 2, with controls, and 3; two leases each."""
    device = new_device(
        SMALL, [with_controls(engine(), *ROWS), engine(Role.LANGUAGE_Q4)]
    )
    driver = Driver(device, SMALL)
    assert driver.install(grant(models=BOTH, requests=16), grant(P2, models=1 << 3))
    yield driver
    device.close()
    device.free()


def selector(digest: bytes = CALM.qualification_sha256, dose: int = 1) -> bytes:
    return Selector(dose=dose, qualification_sha256=digest).pack()


def submit(
    driver: Driver, number: int, data: bytes, *, role: int = Role.LANGUAGE
) -> int:
    return driver.submit(
        number, payload=HELLO + data, role=role, selector_bytes=len(data)
    )


def withdraw(driver: Driver, row: ControlRow, available: bool = False) -> None:
    driver.device.set_control(ROWS.index(row), available)


class TestInformation:
    """
    INFO rows.
    """

    def test_rows_are_those_of_the_engine(self, driver: Driver) -> None:
        """In its order, after the model rows."""
        information = driver.info()

        assert information.controls == ROWS
        assert [row.available for row in information.controls] == [1, 0, 1, 1, 1]
        assert len(information.models) == 2
        assert information.selection_version == 1

    def test_only_who_has_the_role_sees_them(self, driver: Driver) -> None:
        assert driver.info(P2).controls == ()
        assert len(driver.info(P2).models) == 1

    def test_only_while_the_role_is_active(self, driver: Driver) -> None:
        driver.device.set_engine(2, False)
        driver.step()
        assert driver.info().controls == ()

        driver.device.set_engine(2, True)
        driver.step()
        assert driver.info().controls == ROWS

    def test_a_withdrawn_row_shows_no_dose(self, driver: Driver) -> None:
        """Available is 1 exactly when there is a dose; the rest of the row stays."""
        withdraw(driver, CALM)

        assert driver.info().controls == (attrs.evolve(CALM, doses=()), *ROWS[1:])

        withdraw(driver, CALM, True)
        assert driver.info().controls == ROWS

    def test_a_full_table(self) -> None:
        """16 rows of 16 doses."""
        rows = tuple(
            ControlRow(
                name=f"{n}" * 31 if n < 10 else f"row-{n}",
                layers=1 << n,
                qualification_sha256=sha(f"{n}"),
                doses=tuple(range(n + 1, n + 17)),
            )
            for n in range(16)
        )
        device = new_device(SMALL, [with_controls(engine(), *rows)])
        driver = Driver(device, SMALL)
        driver.install(grant())

        assert driver.info().controls == rows
        assert submit(driver, 1, selector(sha("15"), 31)) == 202
        assert submit(driver, 2, selector(sha("15"), 32)) == 503
        device.free()


class TestDeclaring:
    """
    What refuses the start.
    """

    @pytest.mark.parametrize(
        ("role", "rows"),
        [
            (3, (CALM,)),
            (2, (attrs.evolve(CALM, role=3),)),
            (2, (CALM, attrs.evolve(BARE, name="calm"))),
            (2, tuple(attrs.evolve(CALM, name=f"{n}") for n in range(17))),
        ],
    )
    def test_refused(self, role: int, rows: tuple[ControlRow, ...]) -> None:
        """Another role's, a repeated name, 17 rows."""
        with pytest.raises(ConfigError):
            new_device(SMALL, [with_controls(engine(role), *rows)])


class TestSubmit:
    """
    Rows 8 and 10 of SUBMIT.
    """

    @pytest.mark.parametrize("dose", CALM.doses)
    def test_the_order_carries_it(self, driver: Driver, dose: int) -> None:
        assert submit(driver, 1, selector(dose=dose)) == 202

        (order,) = driver.opens()
        assert order.selection == Selection(
            qualification_sha256=CALM.qualification_sha256, dose=dose
        )
        assert order.payload == HELLO

    def test_zeros_select_nothing(self, driver: Driver) -> None:
        """cases C 59; for every role."""
        assert submit(driver, 1, selector()) == 202
        assert submit(driver, 2, bytes(48)) == 202
        assert submit(driver, 3, bytes(48), role=3) == 202

        chosen = {order.payload: order.selection for order in driver.opens()[1:]}
        assert chosen == {HELLO: None}

    @pytest.mark.parametrize(
        ("at", "value"),
        [
            (0, 0),
            (0, 2),
            (4, 0),
            (4, 2),
            (8, 0),
            (8, 40001),
            (8, 2**32 - 40001),
            (12, 1),
            (12, 1 << 31),
        ],
    )
    def test_shapes_that_are_none(self, driver: Driver, at: int, value: int) -> None:
        """cases C 59: 400, whatever the digest says."""
        for digest in (CALM.qualification_sha256, sha("unknown")):
            data = bytearray(selector(digest))
            data[at : at + 4] = struct.pack("<I", value)
            assert submit(driver, 1, bytes(data)) == 400

    def test_a_zero_digest(self, driver: Driver) -> None:
        """cases C 59: 400, also where a row has none."""
        assert submit(driver, 1, selector()[:16] + bytes(32)) == 400

    @pytest.mark.parametrize(
        ("digest", "dose", "role"),
        [
            (sha("unknown"), 1, 2),
            (CALM.qualification_sha256, 2, 2),
            (CALM.qualification_sha256, -1, 2),
            (BARE.qualification_sha256, 1, 2),
            (sha("twins"), 100, 2),
            (CALM.qualification_sha256, 1, 3),
            (CALM.qualification_sha256[:-1] + b"\0", 1, 2),
        ],
    )
    def test_what_cannot_be_selected(
        self, driver: Driver, digest: bytes, dose: int, role: int
    ) -> None:
        """cases C 59: 503, and no entry is written."""
        assert submit(driver, 1, selector(digest, dose), role=role) == 503
        assert driver.read(1)[0].status == 404

    def test_withdrawn_and_offered_again(self, driver: Driver) -> None:
        """In the same tick as the word; also one of two twins is no way out."""
        withdraw(driver, CALM)
        withdraw(driver, TWINS[0])
        assert submit(driver, 1, selector()) == 503
        assert submit(driver, 1, selector(sha("twins"), 200)) == 503

        withdraw(driver, CALM, True)
        assert submit(driver, 1, selector()) == 202

    def test_a_row_without_a_dose_cannot_be_offered(self, driver: Driver) -> None:
        withdraw(driver, BARE, True)

        assert driver.info().controls == ROWS
        assert submit(driver, 1, selector(BARE.qualification_sha256)) == 503

    def test_rendering_is_judged_first(self, driver: Driver) -> None:
        """Row 9 before row 10, and a selector above the payload is row 8."""
        bad = payload_of(message(1, b"\xff"))
        header = driver.submit_header(1, selector_bytes=48)

        assert driver.status(header, bad + selector(sha("unknown"))) == 400
        assert driver.status(header, bytes(47)) == 400


class TestLeaseCheck:
    """
    The selection is looked at again when its request is leased (`device.md` §9).
    """

    def test_a_withdrawn_selection_fails_at_its_turn(self, driver: Driver) -> None:
        """503, no slot is used, and the scan goes on to the next."""
        for number in (1, 2):
            assert driver.submit(number) == 202
        first, _ = driver.opens()
        assert submit(driver, 3, selector()) == 202
        assert driver.submit(4) == 202
        withdraw(driver, CALM)
        driver.step()
        assert driver.phase(3) == Phase.QUEUED

        driver.play(first)
        driver.step()
        driver.step()
        (order,) = driver.opens()

        reply, _ = driver.read(3)
        assert (reply.phase, reply.failure_status, reply.cancel_requested) == (
            Phase.FAILED,
            503,
            0,
        )
        assert driver.phase(4) == Phase.PREPARING
        assert (order.slot, order.generation) == (first.slot, first.generation + 1)
        assert order.selection is None

    def test_offered_again_in_time(self, driver: Driver) -> None:
        for number in (1, 2):
            driver.submit(number)
        first, _ = driver.opens()
        submit(driver, 3, selector(dose=-40000))
        withdraw(driver, CALM)
        driver.step()
        withdraw(driver, CALM, True)

        driver.play(first)
        driver.step()
        driver.step()
        (order,) = driver.opens()

        assert order.selection is not None
        assert order.selection.dose == -40000

    def test_what_runs_goes_on(self, driver: Driver) -> None:
        submit(driver, 1, selector())
        (order,) = driver.opens()
        withdraw(driver, CALM)
        driver.step()

        driver.play(order, [b"out"])
        driver.step()

        assert driver.read(1)[0].phase == Phase.COMPLETED


class TestReference:
    """
    The engine in the kernels declares two and obeys them (docs/reference-model.md).
    """

    @pytest.fixture
    def driver(self) -> Iterator[Driver]:
        engine = make(2, {}, DEFAULT.slots, DEFAULT.sequence_tokens)
        device = new_device(DEFAULT, [engine])
        driver = Driver(device, DEFAULT)
        driver.install(grant(tokens=512, requests=DEFAULT.requests))
        yield driver
        device.free()

    def test_it_declares_them(self, driver: Driver) -> None:
        """`device.md` §17."""
        caution, verve = driver.info().controls

        assert (caution.name, caution.positions) == ("caution", 0)
        assert (verve.name, verve.positions) == ("verve", 1)
        for row in (caution, verve):
            assert set(row.doses) == {-10000, -5000, 5000, 10000}
            assert row.layers == 1
            assert row.qualification_sha256 == sha(f"aotx-reference-control:{row.name}")

    def test_63_at_once(self, driver: Driver) -> None:
        """Each with its own dose, or none, as if it were alone."""
        choices = [(-1, 0)] + [
            (row, dose) for row in (0, 1) for dose in CONTROLS[row].doses
        ]
        chosen = {number: choices[number % len(choices)] for number in range(1, 64)}
        for number, (row, dose) in chosen.items():
            data = b""
            if row >= 0:
                data = selector(CONTROLS[row].qualification_sha256, dose)
            header = driver.submit_header(
                number,
                limit=40,
                temperature=0.9 * (number % 2),
                selector_bytes=len(data),
            )
            driver.publish(number, join(header, HELLO + data))
        driver.step()
        assert sorted(driver.device.collect()) == list(range(1, 64))
        for number in range(1, 64):
            driver.take(number)
        for _ in range(3):
            driver.step()

        model = Model(read_corpus())
        prompt = (
            CHATML.user_head
            + b"hello"
            + CHATML.user_tail
            + CHATML.generation_head
            + CHATML.think_open
            + CHATML.think_close
        )
        for number, (row, dose) in chosen.items():
            reply, data = driver.read(number)
            output, tokens, _ = generate(
                model,
                prompt,
                0.9 * (number % 2),
                1.0,
                lease_seed(SEED_KEY, number),
                40,
                caution=dose if row == 0 else 0,
                verve=dose if row == 1 else 0,
            )
            assert (reply.phase, data) == (Phase.COMPLETED, output), chosen[number]
            assert reply.sampled_tokens == tokens
