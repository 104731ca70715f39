"""
The models do what the code does, in its order: neither can change alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.protocol import events, leases, mailbox
from tests.sources import PACKAGE, inside, tree_of
from twisted_aotx.device.engine_mail import host_fields
from twisted_aotx.device.numbers import ANSWERED, OURS, PUBLISHED
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.numbers import MailboxState

#: Kernel functions that are one access of a word.
ACCESSES = {"load_acquire": "acquire", "store_release": "release"}


def function_of(path: str, name: str) -> ast.FunctionDef:
    """The function or method *name* of a module of the package."""
    found = [
        node
        for node, _ in inside(tree_of(PACKAGE / path))
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    assert len(found) == 1, f"{path}: {name}"
    return found[0]


def in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes as they are evaluated: what is assigned before what it is assigned to."""
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Assign):
        children = [node.value, *node.targets]
    for child in children:
        yield from in_order(child)
    yield node


def word_of(node: ast.AST, names: dict[str, str]) -> str:
    """Which word of region H an expression is; empty if none."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        is_region = isinstance(node.value, ast.Name) and node.value.id == "H"
        return node.attr if is_region else ""
    if isinstance(node, ast.Subscript):
        word = word_of(node.value, names)
        if word == "mail" and isinstance(node.slice, ast.Constant):
            return str(node.slice.value)
        return word
    return ""


def accesses(path: str, name: str) -> list[tuple[str, str]]:
    """
    What a kernel function does with the words of region H, in source order: *acquire*,
    *release*, *write* or *read* and the word's name.
    """
    found: list[tuple[str, str]] = []
    names: dict[str, str] = {}
    for node in in_order(function_of(path, name)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            word = word_of(node.value, names)
            if word and isinstance(node.value, ast.Subscript):
                names[node.targets[0].id] = word
        elif isinstance(node, ast.Assign):
            word = word_of(node.targets[0], names)
            if word:
                found.append(("write", word))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found += called(node, node.func.id, names)
    return found


def called(
    node: ast.Call, name: str, names: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """The accesses that one call is."""
    if name == "mailbox_state":
        yield "acquire", "state"
    elif name == "copy_bytes":
        for kind, argument in ("write", node.args[0]), ("read", node.args[2]):
            if word := word_of(argument, names):
                yield kind, word
    elif name in ACCESSES:
        word = word_of(node.args[0], names)
        if word == "word" and isinstance(node.args[1], ast.Name):
            word = node.args[1].id.removeprefix("WORD_").lower()
        yield ACCESSES[name], word
    elif name == "i64" and isinstance(node.args[0], ast.Subscript):
        word = word_of(node.args[0], names)
        yield from [("read", word)] if word else []


def writes(
    *functions: tuple[str, str], words: tuple[str, ...]
) -> list[tuple[str, bool]]:
    """Writes and releases of *words* by functions that run one after the other."""
    return [
        (word, kind == "release")
        for function in functions
        for kind, word in accesses(*function)
        if kind in {"write", "release"} and word in words
    ]


def reads(*functions: tuple[str, str], words: tuple[str, ...]) -> list[str]:
    """What is read, and in which order."""
    return [
        word
        for function in functions
        for kind, word in accesses(*function)
        if kind in {"read", "acquire"} and word in words
    ]


def test_states_of_a_mailbox_are_those_of_the_wire() -> None:
    """`wire.md` §12."""
    assert (OURS, PUBLISHED, ANSWERED) == (
        MailboxState.BROKER,
        MailboxState.REQUEST,
        MailboxState.REPLY,
    )


def test_a_packet_is_published_as_in_the_model() -> None:
    """Bytes, length, then the state; the ring's entry, then its end."""
    script = writes(("device/mailbox.py", "publish"), words=mailbox.WORDS)

    assert script == list(mailbox.PUBLISH)


def test_a_reply_is_published_as_in_the_model() -> None:
    """Likewise; the copy is a stage of its own."""
    script = writes(
        ("device/mailbox.py", "copy_out"),
        ("device/mailbox.py", "publish_replies"),
        words=mailbox.WORDS,
    )

    assert script == list(mailbox.ANSWER)


@pytest.mark.parametrize(
    ("functions", "model"),
    [
        (("claim", "copy_in"), mailbox.CLAIM),
        (("next_reply", "copy_reply"), mailbox.COLLECT),
    ],
    ids=["device", "broker"],
)
def test_a_mailbox_is_read_as_in_the_model(
    functions: tuple[str, ...], model: tuple[str, ...]
) -> None:
    """The ring's end, its entry, the state; then the length and the bytes."""
    script = reads(
        *(("device/mailbox.py", name) for name in functions), words=mailbox.WORDS
    )

    assert tuple(script) == model


def test_events_are_posted_as_in_the_model() -> None:
    """What an event holds, then the ring's end; first a look for room."""
    post = "device/engine_mail.py", "post_event"

    assert writes(post, words=("e_kind", "e_tail")) == list(events.POST)
    assert accesses(*post)[0] == ("acquire", "e_head")
    assert ("release", "e_wait") in accesses(*post)


def test_the_order_ring_has_room_as_in_the_model() -> None:
    """Entries per slot."""
    slots = 16
    shapes = {field[0]: field[2] for field in host_fields(Capacities(slots=slots))}

    assert shapes["order_ring"][0] == slots * leases.RING_PER_SLOT


#: Who calls what in which order, as the models have it.
ORDERS = {
    "a packet is published, then the device rung": (
        "device/host.py",
        "publish",
        ["on_host", "ring"],
    ),
    "a mailbox is copied, given back, then its reply handed out": (
        "broker/factory.py",
        "answered",
        ["reply", "release", "happened", "reply"],
    ),
    "the reactor takes the counter, then looks": (
        "runtime/doorbell.py",
        "doRead",
        ["eventfd_read", "rung"],
    ),
    "the device polls, then takes the counter": (
        "device/loop.py",
        "_wait",
        ["_ppoll", "_read"],
    ),
    "the device ticks, rings, then waits": (
        "device/loop.py",
        "run_loop",
        ["tick_stages", "_write", "_wait", "_wait"],
    ),
    "a READ is claimed before the word of who watches is looked at": (
        "device/tick.py",
        "_begin",
        ["claim", "WORD_WATCHED"],
    ),
    "progress is told before replies are published": (
        "device/tick.py",
        "tick_stages",
        ["publish_notices", "publish_replies"],
    ),
    "room is made before it is looked whether somebody waits": (
        "device/exchange.py",
        "commit",
        ["_give_back", "e_wait"],
    ),
    "whoever watches is counted before the device is told": (
        "watch/service.py",
        "watch",
        ["watch", "_listen", "tell"],
    ),
    "a lease is told lost before its bridge forgets it": (
        "runtime/bridge.py",
        "lose",
        ["set_engine", "drop"],
    ),
    "stops go before opens": (
        "device/exchange.py",
        "send_orders",
        ["send_stop", "end_lease", "o_state"],
    ),
}


def names_in(node: ast.AST) -> Iterator[str]:
    """Names and attributes as they are evaluated."""
    for each in in_order(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr


def calls_in(node: ast.AST) -> Iterator[str]:
    """What is called, and what is looked at, as it is evaluated."""
    for each in in_order(node):
        if isinstance(each, ast.Call):
            yield next(reversed(list(names_in(each.func))))
        elif isinstance(each, ast.Name) and each.id.startswith("WORD_"):
            yield each.id
        elif isinstance(each, ast.Attribute) and each.attr in {"e_wait", "o_state"}:
            yield each.attr


@pytest.mark.parametrize("promise", ORDERS)
def test_calls_come_in_the_order_of_the_models(promise: str) -> None:
    """See `ORDERS`."""
    path, name, expected = ORDERS[promise]

    found = [each for each in calls_in(function_of(path, name)) if each in expected]

    assert found[: len(expected)] == expected
