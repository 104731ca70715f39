"""
Three models, twenty principals, and an observer that knows what each request used.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import attrs

from tests.endtoend.peers import greedy, pause
from tests.processes import edit, make_state
from twisted_aotx.client import Caller, DeviceClient
from twisted_aotx.config.files import replace_file
from twisted_aotx.errors import DeviceRefused
from twisted_aotx.journal.usage import Usage, read_usage
from twisted_aotx.wire.grants import GrantRow, GrantTable
from twisted_aotx.wire.numbers import (
    TERMINAL_PHASES,
    Action,
    Operation,
    Phase,
    PolicyAction,
    Status,
)
from twisted_aotx.wire.packet import RequestHeader
from twisted_aotx.wire.policy import PolicyReport, PolicyWrite

PRINCIPALS = 20
#: What is granted of output, and to whom fewer pages than that takes.
TOKENS = 400
PAGES_OF_FEW = 8
FEW_PAGES = range(17, 21)
ROLES = {2: "language", 3: "language-q4", 4: "language-audio"}
#: Tokens per second of each; 0 is as fast as can be.
RATES = {2: 0, 3: 300, 4: 2000}
MANAGER = Caller(b"the policy maker", 1)
#: Bytes that a prompt of one user message has besides its text.
OVERHEAD = 69

#: The reference model under names of its own, each with a digest of its own.
_MODELS = """
import hashlib

import attrs

from twisted_aotx.engines import reference


def make(role, options, slots, sequence_tokens):
    engine = reference.make(role, options, slots, sequence_tokens)
    digest = hashlib.sha256(b"model of role %d" % role).digest()
    facts = attrs.evolve(engine.facts, model_sha256=digest)
    return attrs.evolve(engine, facts=facts)
"""
_DROP_IN = """
from twisted_aotx.engines.maker import EngineMaker

one_of_three = EngineMaker("one-of-three", "models_of_tests", "For tests.")
"""

Key = tuple[bytes, int]


def make_models(folder: Path) -> Path:
    """A folder for PYTHONPATH that has the engine `one-of-three`."""
    plugins = folder / "twisted" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "models_aotx.py").write_text(_DROP_IN)
    (folder / "models_of_tests.py").write_text(_MODELS)
    return folder


def principal(number: int) -> bytes:
    return number.to_bytes(16, "big")


def make_accounts(folder: Path) -> Path:
    """A state directory with three models and the principals, who may have 16 each."""
    state = make_state(folder)
    models = {
        name: {"engine": "one-of-three", "rate": RATES[role]}
        for role, name in ROLES.items()
    }
    edit(state / "runtime.json", models=models, metrics="unix:metrics.sock")
    rows = [
        _row(principal(number), PAGES_OF_FEW if number in FEW_PAGES else 0)
        for number in range(1, PRINCIPALS + 1)
    ]
    manager = attrs.evolve(_row(MANAGER.principal, 0), actions=Action.POLICY_MANAGE)
    replace_file(state / "grants", GrantTable(1, (*rows, manager)).pack())
    return state


def _row(owner: bytes, pages: int) -> GrantRow:
    return GrantRow(
        principal=owner,
        revision=1,
        actions=Action.INFER,
        models=sum(1 << role for role in ROLES),
        pages=pages,
        tokens=TOKENS,
        requests=16,
        media=0,
        media_bytes=0,
    )


@attrs.frozen
class Task:
    """
    A request that is to be made: whose, of which role, with how long a text.
    """

    number: int
    role: int
    text: str = attrs.field(repr=False)
    limit: int
    #: As soon as it was admitted, or once it runs; None is not.
    cancel: str | None

    @property
    def key(self) -> Key:
        return principal(self.number), self.role


@attrs.define
class Observer:
    """
    Makes requests and keeps what each had used in the end.
    """

    client: DeviceClient
    epoch: int
    #: Every request that may have been admitted, and those that were seen to end, with
    #: their prompt and sampled tokens.
    asked: list[Task] = attrs.field(factory=list)
    seen: list[tuple[Task, int, int]] = attrs.field(factory=list)
    ends: Counter[tuple[int, int]] = attrs.field(factory=Counter)

    async def one(self, task: Task) -> None:
        """Make it, end it if it is to be, and look until it has ended."""
        caller = Caller(principal(task.number), 1)
        request_id = await self._admitted(caller, task)
        if task.cancel == "at once":
            await self.client.cancel(caller, self.epoch, request_id)
        waited = 0.001
        cancelling = task.cancel == "running"
        while True:
            window = await self.client.read(caller, self.epoch, request_id, 0)
            reply = window.reply
            if reply.phase in TERMINAL_PHASES:
                break
            if cancelling and reply.phase == Phase.RUNNING:
                await self.client.cancel(caller, self.epoch, request_id)
                cancelling = False
            await pause(waited)
            waited = min(2 * waited, 0.02)
        self.seen.append((task, reply.prompt_tokens, reply.sampled_tokens))
        self.ends[reply.phase, reply.failure_status] += 1

    async def _admitted(self, caller: Caller, task: Task) -> bytes:
        submission = attrs.evolve(greedy(task.text, task.limit), role=task.role)
        self.asked.append(task)
        while True:
            request_id = random.randbytes(16)
            try:
                await self.client.submit(caller, self.epoch, request_id, submission)
            except DeviceRefused as refused:
                if refused.status != Status.LIMITED:
                    raise
                await pause(0.01)
            else:
                return request_id


async def policy(
    client: DeviceClient, epoch: int = 0, action: PolicyAction | None = None
) -> PolicyReport:
    """Read the policy, or write to it under the revision that it has now."""
    header = RequestHeader(
        operation=Operation.POLICY,
        principal=MANAGER.principal,
        revision=MANAGER.revision,
    )
    reply, data = await client.exchange(header)
    assert reply.status == Status.OK
    report = PolicyReport.unpack(data)
    if action is None:
        return report
    write = PolicyWrite(action, report.control_revision)
    reply, data = await client.exchange(attrs.evolve(header, epoch=epoch), write.pack())
    assert reply.status == Status.OK
    return PolicyReport.unpack(data)


@attrs.frozen
class Sums:
    """
    Requests, prompt tokens and sampled tokens.
    """

    requests: int = 0
    prompt: int = 0
    sampled: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.requests + other.requests,
            self.prompt + other.prompt,
            self.sampled + other.sampled,
        )

    def __sub__(self, other: Sums) -> Sums:
        return Sums(
            self.requests - other.requests,
            self.prompt - other.prompt,
            self.sampled - other.sampled,
        )


def ledger(state: Path) -> dict[Key, Sums]:
    """
    What the store says, by principal and role; its digests name the roles.

    Totals, what all batches added, and the frontier must be the same.
    """
    path = state / "state.sqlite3"
    report, added = read_usage(path), read_usage(path, 0)
    roles = {digest: role for role, digest in report.models.items()}
    assert len(roles) == len(ROLES)
    totals = {
        (row.principal, roles[row.model_sha256]): _sums(row) for row in report.rows
    }
    assert [_sums(row) for row in added.rows] == [_sums(row) for row in report.rows]
    assert sum(totals.values(), Sums()).requests == report.frontier
    return totals


def _sums(row: Usage) -> Sums:
    return Sums(row.requests, row.prompt_tokens, row.sampled_tokens)
