"""
What must hold when nobody asks for anything, and when the runtime is dead.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import tempfile
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from tests.endtoend.scrapes import gauges_of_device
from tests.endtoend.storm import Media
from tests.processes import PATIENCE
from tests.torture.book import Book
from tests.torture.deployment import Account
from tests.torture.fleet import Fleet
from tests.torture.following import REQUESTS
from tests.torture.histories import History
from tests.torture.shelves import Shelf
from tests.torture.talk import Line
from tests.torture.uploaders import UPLOAD_SECONDS, Uploader
from twisted_aotx.journal.database import FILE_NAME
from twisted_aotx.journal.store import Store
from twisted_aotx.wire.handles import media_handle

#: Seconds until the device is at rest: receipts of uploads that were cut stay longest.
REST_SECONDS: Final = UPLOAD_SECONDS + 40.0
#: What of the device is zero at rest.
AT_REST: Final = ("leases", "queue_length", "media_receipts", "usage_pending", "held")
#: Handles of old epochs that are asked for after a round.
OLD_HANDLES: Final = 6


def at_rest(fleet: Fleet, book: Book) -> None:
    """Until no request, upload or record is left, and no gateway holds a budget."""
    gauges: dict[str, int] = {}

    def device() -> bool:
        gauges.update(gauges_of_device(fleet.state))
        return not any(gauges[name] for name in AT_REST)

    if not book.wait(device, REST_SECONDS, "the device at rest"):
        book.fault(str({name: gauges.get(name) for name in AT_REST}))
    for url in fleet.urls:
        held: dict[str, int] = {}

        def budgets(url: str = url, held: dict[str, int] = held) -> bool:
            held.clear()
            held.update(budgets_of(url, fleet.deployment.watcher))
            return not any(held.values())

        if not book.wait(budgets, REST_SECONDS, f"no budget held at {url}"):
            book.fault(str(held))


def budgets_of(url: str, account: Account) -> dict[str, int]:
    """What a gateway holds, but for the connection that asks."""
    headers = {"Authorization": f"Bearer {account.token}"}
    request = urllib.request.Request(f"{url}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        text = answer.read().decode()
    held = {
        sample.labels["budget"]: int(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "aotx_budget_in_use"
    }
    held["connections"] -= 1
    return held


def old_epochs(
    fleet: Fleet, book: Book, histories: Sequence[History], chance: random.Random
) -> None:
    """Handles of epochs that are over answer 410, whatever is asked of them."""
    tokens = {account.number: account.token for account in fleet.deployment.accounts}
    old = [
        history
        for history in histories
        if history.handle is not None and history.epoch != fleet.life.epoch
    ]
    for history in chance.sample(old, min(OLD_HANDLES, len(old))):
        path = f"{REQUESTS}/{history.handle}"
        for url in fleet.urls:
            line = Line(url, tokens[history.owner])
            for method, more, body in (
                ("GET", "", None),
                ("GET", "/events", None),
                ("POST", "/cancel", {}),
            ):
                answer = line.call(method, path + more, body)
                if answer.status != 410:
                    told = f"{method} {path}{more}: {answer.status} in a later epoch"
                    book.fault(told)
                book.saw("old handles answered 410")
            line.close()


def shelves(fleet: Fleet, book: Book, uploaders: Iterable[Uploader]) -> None:
    """At rest: each list is what its owner knows, at both gateways, and is settled."""
    total = count = 0
    for uploader in uploaders:
        lists = []
        for config in fleet.deployment.configs:
            listed = Media(config, uploader.token).listed()
            if any(row["phase"] != 6 for row in listed.values()):
                book.fault(f"a source that is not ready at rest: {listed}")
            lists.append(
                {
                    handle: (row["sha256"], int(row["bytes"]))
                    for handle, row in listed.items()
                }
            )
        if lists[0] != lists[1]:
            book.fault(f"two gateways list differently: {lists}")
        wrong = uploader.shelf.judge(lists[0])
        book.fault(*(f"client {uploader.number}: {each}" for each in wrong))
        uploader.shelf.settle(lists[0])
        total += sum(size for _, size in lists[0].values())
        count += len(lists[0])
    gauges = gauges_of_device(fleet.state)
    if gauges["media_objects"] != count:
        book.fault(f"{gauges['media_objects']} objects for {count} sources")
    book.saw("sources found as acknowledged", count)


def store(fleet: Fleet, book: Book, uploaders: Iterable[Uploader]) -> None:
    """
    While the runtime is dead: what was acknowledged is on the disk, byte for byte, and
    what was deleted is not.
    """
    known: dict[bytes, Shelf] = {
        uploader.number.to_bytes(16, "big"): uploader.shelf.copy()
        for uploader in uploaders
    }
    found: dict[bytes, dict[str, tuple[str, int]]] = {owner: {} for owner in known}
    with tempfile.TemporaryDirectory() as folder:
        # A copy: the runtime itself is to mend what the kill left.
        for name in (FILE_NAME, f"{FILE_NAME}-wal"):
            if (fleet.state / name).exists():
                shutil.copy(fleet.state / name, folder)
        with Store(Path(folder), store_bytes=1 << 30, now=lambda: 1) as opened:
            for source in opened.sources():
                digest = hashlib.sha256(source.data).hexdigest()
                if digest != source.sha256.hex():
                    book.fault(f"stored bytes of {source.transfer_id.hex()} changed")
                handle = media_handle(source.transfer_id)
                found[source.owner][handle] = digest, len(source.data)
                book.saw("stored sources compared")
    for owner, shelf in known.items():
        wrong = shelf.judge(found[owner])
        number = int.from_bytes(owner, "big")
        book.fault(*(f"client {number}, on the disk: {each}" for each in wrong))
