"""
`aotx usage`: the ledger for people and for programs [D11].
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journal.records import NOON, Pool, batch, control, open_store, row
from tests.processes import edit
from tests.test_cli import aotx
from twisted_aotx.config.initial import First, make_state_directory

#: 2026-05-28 20:26:40 UTC.
NOON_TEXT = "2026-05-28 20:26"
HOUR = 3600
SHA256 = (7).to_bytes(32, "big")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    made = tmp_path / "var"
    make_state_directory(made, First(host="127.0.0.1", port=8081, now=1))
    return made


def save(state: Path, generation: int, *rows: object, now: int = NOON) -> None:
    with open_store(state, now=now) as store:
        store.save(batch(generation, *rows), Pool().read)  # type: ignore[arg-type]


def words_of(text: str) -> list[list[str]]:
    """The words of each line up to the first empty one."""
    table = text.split("\n\n")[0]
    return [line.split() for line in table.splitlines()]


def test_totals_of_every_principal_and_model(state: Path) -> None:
    save(state, 1, row(1, 7, (2, 30, 4)), row(2, 8, (1, 5, 0)))
    save(state, 2, row(1, 7, (1, 1, 1)), row(0, 0, (9, 8, 7)), now=NOON + HOUR)

    result = aotx("usage", "--state", state)

    assert result.exit_code == 0
    heads, *lines = words_of(result.stdout)
    assert " ".join(heads) == (
        "principal model requests prompt tokens completion tokens last seen (UTC)"
    )
    assert lines == [
        ["others", "others", "9", "8", "7", "2026-05-28", "21:26"],
        ["0" * 31 + "1", "0" * 12, "3", "31", "5", "2026-05-28", "21:26"],
        ["0" * 31 + "2", "0" * 12, "1", "5", "0", *NOON_TEXT.split()],
    ]


def test_a_model_has_the_name_that_callers_use(state: Path) -> None:
    """`aotx init` makes the alias of the default language role."""
    (alias,) = json.loads((state / "gateway.json").read_text())["models"]
    save(state, 1, row(1, 7), row(1, 8))
    with open_store(state) as store:
        store.name_models({2: SHA256, 3: (9).to_bytes(32, "big")})

    lines = words_of(aotx("usage", "--state", state).stdout)

    assert [line[1] for line in lines[1:]] == [alias, "0" * 12]


def test_a_gateway_file_with_faults_costs_the_names_only(state: Path) -> None:
    save(state, 1, row(1, 7))
    with open_store(state) as store:
        store.name_models({2: SHA256})
    edit(state / "gateway.json", what="ever")

    result = aotx("usage", "--state", state)

    assert result.exit_code == 0
    assert words_of(result.stdout)[1][1] == "0" * 12


@pytest.mark.parametrize(
    ("since", "requests"),
    [
        ("2026-05-28", [["3"], ["1"]]),
        ("2026-05-28T20:26:40", [["3"], ["1"]]),
        ("2026-05-28T20:26:41", [["1"]]),
        ("2026-05-28T21:27", []),
    ],
)
def test_since_counts_what_was_committed_then_or_later(
    state: Path, since: str, requests: list[list[str]]
) -> None:
    save(state, 1, row(1, 7, (2, 30, 4)), row(2, 8, (1, 5, 0)))
    save(state, 2, row(1, 7, (1, 1, 1)), now=NOON + HOUR)

    result = aotx("usage", "--state", state, "--since", since)

    assert [line[2:3] for line in words_of(result.stdout)[1:]] == requests
    assert ("Nothing is in the ledger since then." in result.stdout) == (not requests)


def test_since_says_what_is_kept_no_more(state: Path) -> None:
    save(state, 1, row(1, 7))

    early = aotx("usage", "--state", state, "--since", "2026-05-27").stdout
    late = aotx("usage", "--state", state, "--since", "2026-05-29").stdout

    assert f"Of what was written before {NOON_TEXT}, only totals may be left." in early
    assert "only totals" not in late


def test_json_is_exact(state: Path) -> None:
    save(state, 5, row(1, 7, (2**64 - 1, 2**63, 4)))
    with open_store(state) as store:
        store.name_models({2: SHA256})
        store.save(control(3, review=True), Pool().read)
    (alias,) = json.loads((state / "gateway.json").read_text())["models"]

    value = json.loads(aotx("usage", "--state", state, "--json").stdout)

    assert value == {
        "schema": "aotx.usage.v1",
        "since": None,
        "kept_since": NOON,
        "review_enabled": True,
        "source_frontier": "5",
        "pending": None,
        "data": [
            {
                "principal": "0" * 31 + "1",
                "model_sha256": SHA256.hex(),
                "model": alias,
                "requests": str(2**64 - 1),
                "prompt_tokens": str(2**63),
                "completion_tokens": "4",
                "last_seen": NOON,
            }
        ],
    }


def test_it_says_how_review_is_switched_on(state: Path) -> None:
    (state / "epoch").write_text("12\n")
    with open_store(state) as store:
        off = aotx("usage", "--state", state).stdout
        store.save(control(4, review=False), Pool().read)
        changed = aotx("usage", "--state", state).stdout
        store.save(control(5, review=True), Pool().read)
        on = aotx("usage", "--state", state).stdout

    assert "Nothing is in the ledger yet." in off
    request = '{"action": "review_on", "epoch": 12, "control_revision": '
    assert f"POST /aotx/v1/policy {request}1}}" in off
    assert f"POST /aotx/v1/policy {request}4}}" in changed
    assert "Review is off" not in on
    for text in (off, changed, on):
        assert "GET /aotx/v1/policy says how many (pending)" in text


def test_a_runtime_that_writes_is_not_disturbed(state: Path) -> None:
    with open_store(state) as store:
        for generation in range(1, 4):
            store.save(batch(generation, row(1, 7)), Pool().read)
            lines = words_of(aotx("usage", "--state", state).stdout)
            assert lines[1][2] == str(generation)
        # Nor does it wait for one that has begun to write.
        store._connection.execute("BEGIN IMMEDIATE")
        store._connection.execute("DELETE FROM ledger")
        assert words_of(aotx("usage", "--state", state).stdout)[1][2] == "3"
        store._connection.execute("ROLLBACK")


def test_reading_changes_nothing(state: Path) -> None:
    save(state, 1, row(1, 7))
    before = (state / "state.sqlite3").read_bytes()

    assert aotx("usage", "--state", state).exit_code == 0

    assert (state / "state.sqlite3").read_bytes() == before


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[tuple[str, list[bytes]]]:
    """An endpoint that answers each request with the list's last item."""
    bodies: list[bytes] = []
    path = str(tmp_path / "metrics.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
                    connection.sendall(head % len(bodies[-1]) + bodies[-1])

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"unix:{path}", bodies
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(20)


def test_a_runtime_that_tells_its_metrics_says_what_waits(
    state: Path, metrics: tuple[str, list[bytes]]
) -> None:
    place, bodies = metrics
    edit(state / "runtime.json", metrics=place)
    save(state, 1, row(1, 7))

    bodies.append(b"# TYPE x gauge\nx 1\naotx_device_usage_pending 17.0\ny 2\n")
    assert "are not in it: 17." in aotx("usage", "--state", state).stdout
    told = aotx("usage", "--state", state, "--json").stdout
    assert json.loads(told)["pending"] == "17"

    bodies.append(b"nothing of it\n")
    assert "GET /aotx/v1/policy" in aotx("usage", "--state", state).stdout


def test_a_runtime_that_does_not_run_tells_nothing(state: Path) -> None:
    edit(state / "runtime.json", metrics="unix:nobody.sock")
    save(state, 1, row(1, 7))

    assert (
        json.loads(aotx("usage", "--state", state, "--json").stdout)["pending"] is None
    )


def test_no_store_is_a_failure_and_makes_none(state: Path) -> None:
    result = aotx("usage", "--state", state)

    path = state / "state.sqlite3"
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"{path}: there is no state store; a runtime makes it at its first start\n"
    )
    assert not path.exists()


def test_a_store_that_cannot_be_read_is_one_line(state: Path) -> None:
    path = state / "state.sqlite3"
    path.write_bytes(b"no database at all, however long it is" * 100)

    result = aotx("usage", "--state", state)

    assert result.exit_code == 1
    assert result.stderr.startswith(f"{path}: is damaged")
    assert result.stderr.count("\n") == 1


def test_a_bad_date_is_wrong_usage(state: Path) -> None:
    assert aotx("usage", "--state", state, "--since", "yesterday").exit_code == 2
    assert aotx("usage").exit_code == 2
