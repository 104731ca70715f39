"""
`gateway.json`: every key, its default, its bounds, and the path that an error names.
"""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from twisted_aotx.config.gateway import GatewayFile, load_gateway, parse_gateway
from twisted_aotx.errors import ConfigErrors
from twisted_aotx.gateway.settings import GatewaySettings, Limits, PrivateOrigin

ID = "00000000000000000000000000000001"
OTHER = "00000000000000000000000000000002"
FOLDER = Path("/srv/aotx")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def minimal() -> dict[str, Any]:
    return {
        "socket": "service.sock",
        "revision": "1",
        "models": {"m": {"role": "language", "published_at": 0}},
        "principals": [
            {
                "id": ID,
                "token_sha256": [digest("a")],
                "models": ["m"],
                "actions": ["infer"],
            }
        ],
    }


def with_value(keys: list[str | int], value: Any) -> dict[str, Any]:
    """The minimal file with *value* at the place that *keys* lead to."""
    whole = copy.deepcopy(minimal())
    place: Any = whole
    for key in keys[:-1]:
        place = place.setdefault(key, {}) if isinstance(place, dict) else place[key]
    place[keys[-1]] = value
    return whole


def parse(value: dict[str, Any]) -> GatewayFile:
    return parse_gateway(value, FOLDER)


def settings_with(keys: list[str | int], value: Any) -> GatewaySettings:
    return parse(with_value(keys, value)).settings


def faults(value: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(ConfigErrors) as caught:
        parse(value)
    return [(error.path, error.reason) for error in caught.value.errors]


def test_the_smallest_file_has_the_documented_defaults() -> None:
    settings = parse(minimal()).settings

    assert settings.socket == "/srv/aotx/service.sock"
    assert settings.revision == 1
    assert (settings.host, settings.port) == ("127.0.0.1", 8081)
    assert (settings.certificate, settings.key, settings.access_log) == (None,) * 3
    assert settings.limits == Limits()
    assert (settings.urls.public, settings.urls.private) == (True, ())
    assert (settings.disconnect, settings.idle_seconds) == ("detach", 75)
    assert settings.ping_seconds == 15
    (principal,) = settings.principals
    assert principal.id == bytes.fromhex(ID)
    assert (principal.pages, principal.tokens, principal.requests) == (0, 256, 2)
    assert (principal.media, principal.media_bytes) == (16, 33554432)


def test_the_defaults_of_limits_are_those_of_the_contract() -> None:
    # http.md §3
    assert attrs.asdict(Limits()) == {
        "connections": 128,
        "body_readers": 8,
        "json_bytes": 8388608,
        "upload_bytes": 33554432,
        "body_credit": 67108864,
        "work": 64,
        "fetches": 4,
        "write_seconds": 10,
        "body_seconds": 60,
        "header_seconds": 10,
        "operation_seconds": 300,
        "event_bytes": 65536,
        "wire_connections": 64,
    }


ACCEPTED: list[tuple[list[str | int], Any]] = [
    (["socket"], "/" + "s" * 106),
    (["revision"], "18446744073709551615"),
    (["models"], {"A.b_c/d-9": {"role": "language-q4", "published_at": 2**53 - 1}}),
    (["models"], {"a" * 128: {"role": "language-audio", "published_at": 1}}),
    (["principals"], []),
    (["principals", 0, "models"], []),
    (["principals", 0, "token_sha256"], [digest(str(n)) for n in range(4)]),
    (["principals", 0, "actions"], ["policy_manage", "upload", "fetch"]),
    (["principals", 0, "pages"], 2**31 - 1),
    (["principals", 0, "tokens"], 2**31 - 1),
    (["principals", 0, "requests"], 1),
    (["principals", 0, "media"], 0),
    (["principals", 0, "media_bytes"], 2**63 - 1),
    (["host"], "::1"),
    (["host"], "localhost"),
    (["port"], 1),
    (["port"], 65535),
    (["origins"], ["https://example.org", "http://localhost:3000"]),
    (["limits", "work"], 2**31 - 1),
    (["limits", "event_bytes"], 1024),
    (["urls", "public"], False),
    (["urls", "ca_file"], "ca.pem"),
    (["completions", "disconnect"], "cancel"),
    (["http", "idle_seconds"], 1),
    (["http", "ping_seconds"], 0),
    (["http", "access_log"], "access.log"),
    (["metrics", "labels"], {ID: "team-a_1"}),
]

REFUSED: list[tuple[list[str | int], Any, str]] = [
    (["surprise"], 1, "surprise"),
    (["socket"], "", "socket"),
    (["socket"], "/" + "s" * 107, "socket"),
    (["socket"], "é" * 54, "socket"),
    (["socket"], "a\0b", "socket"),
    (["socket"], 5, "socket"),
    (["socket"], None, "socket"),
    (["revision"], 1, "revision"),
    (["revision"], "0", "revision"),
    (["revision"], "01", "revision"),
    (["revision"], "18446744073709551616", "revision"),
    (["revision"], "١", "revision"),
    (["models"], {}, "models"),
    (["models"], [], "models"),
    (
        ["models"],
        {f"m{n}": {"role": "language", "published_at": 0} for n in range(33)},
        "models",
    ),
    (["models", "-a"], {"role": "language", "published_at": 0}, "models.-a"),
    (["models", "a" * 129], {"role": "language", "published_at": 0}, "models.aaa"),
    (["models", "n"], {"role": "reranker", "published_at": 0}, "models.n.role"),
    (["models", "n"], {"role": 2, "published_at": 0}, "models.n.role"),
    (["models", "n"], {"role": "language"}, "models.n.published_at"),
    (
        ["models", "n"],
        {"role": "language", "published_at": 2**53},
        "models.n.published_at",
    ),
    (
        ["models", "n"],
        {"role": "language", "published_at": 1.0},
        "models.n.published_at",
    ),
    (["models", "n"], {"role": "language", "published_at": 0, "x": 1}, "models.n.x"),
    (["principals"], {}, "principals"),
    (["principals", 0], "me", "principals[0]"),
    (["principals", 0, "name"], "me", "principals[0].name"),
    (["principals", 0, "id"], "0" * 32, "principals[0].id"),
    (["principals", 0, "id"], "A" * 32, "principals[0].id"),
    (["principals", 0, "id"], "1" * 31, "principals[0].id"),
    (["principals", 0, "token_sha256"], [], "principals[0].token_sha256"),
    (["principals", 0, "token_sha256"], digest("a"), "principals[0].token_sha256"),
    (
        ["principals", 0, "token_sha256"],
        [digest(str(n)) for n in range(5)],
        "principals[0].token_sha256",
    ),
    (["principals", 0, "token_sha256"], ["ab"], "principals[0].token_sha256[0]"),
    (
        ["principals", 0, "token_sha256"],
        [digest("a"), digest("a")],
        "principals[0].token_sha256[1]",
    ),
    (["principals", 0, "models"], ["other"], "principals[0].models[0]"),
    (["principals", 0, "models"], ["m", "m"], "principals[0].models[1]"),
    (["principals", 0, "actions"], [], "principals[0].actions"),
    (["principals", 0, "actions"], ["root"], "principals[0].actions[0]"),
    (["principals", 0, "actions"], ["infer", "fetch"], "principals[0].actions"),
    (["principals", 0, "actions"], ["affect_manage"], "principals[0].actions"),
    (["principals", 0, "pages"], -1, "principals[0].pages"),
    (["principals", 0, "pages"], 2**31, "principals[0].pages"),
    (["principals", 0, "tokens"], 0, "principals[0].tokens"),
    (["principals", 0, "tokens"], True, "principals[0].tokens"),
    (["principals", 0, "requests"], 0, "principals[0].requests"),
    (["principals", 0, "media"], 2**31, "principals[0].media"),
    (["principals", 0, "media_bytes"], 2**63, "principals[0].media_bytes"),
    (["host"], "", "host"),
    (["host"], "h" * 254, "host"),
    (["host"], "0.0.0.0", "host"),
    (["port"], 0, "port"),
    (["port"], 65536, "port"),
    (["port"], "8081", "port"),
    (["certificate"], "c.pem", "key"),
    (["key"], "k.pem", "certificate"),
    (["certificate"], "", "certificate"),
    (["origins"], "https://example.org", "origins"),
    (["origins"], ["https://example.org/"], "origins[0]"),
    (["origins"], ["ftp://example.org"], "origins[0]"),
    (["origins"], ["https://a b"], "origins[0]"),
    (["origins"], ["null"], "origins[0]"),
    (["limits", "work"], 0, "limits.work"),
    (["limits", "work"], 2**31, "limits.work"),
    (["limits", "event_bytes"], 1023, "limits.event_bytes"),
    (["limits", "speed"], 1, "limits.speed"),
    (["urls", "public"], 1, "urls.public"),
    (["urls", "proxy"], "x", "urls.proxy"),
    (["completions", "disconnect"], "stop", "completions.disconnect"),
    (["completions", "x"], 1, "completions.x"),
    (["http", "idle_seconds"], 0, "http.idle_seconds"),
    (["http", "ping_seconds"], -1, "http.ping_seconds"),
    (["http", "access_log"], "", "http.access_log"),
    (["metrics", "labels"], {OTHER: "a"}, f"metrics.labels.{OTHER}"),
    (["metrics", "labels"], {ID: "A"}, f"metrics.labels.{ID}"),
    (["metrics", "labels"], {ID: "a" * 33}, f"metrics.labels.{ID}"),
    (["metrics", "other"], {}, "metrics.other"),
]


@pytest.mark.parametrize(("keys", "value"), ACCEPTED)
def test_values_at_the_edge_of_a_rule_are_taken(
    keys: list[str | int], value: Any
) -> None:
    if keys == ["models"]:
        whole = {**minimal(), "models": value, "principals": []}
    else:
        whole = with_value(keys, value)

    parse(whole)


@pytest.mark.parametrize(("keys", "value", "path"), REFUSED)
def test_a_broken_rule_is_told_with_its_key_path(
    keys: list[str | int], value: Any, path: str
) -> None:
    found = faults(with_value(keys, value))

    assert any(where.startswith(path) for where, _ in found), found
    assert all(reason for _, reason in found)


@pytest.mark.parametrize("key", ["socket", "revision", "models", "principals"])
def test_a_required_key_that_is_missing_is_told(key: str) -> None:
    whole = minimal()
    del whole[key]

    assert (key, "is required") in faults(whole)


@pytest.mark.parametrize("key", ["id", "token_sha256", "models", "actions"])
def test_a_required_key_of_a_principal_is_told(key: str) -> None:
    whole = minimal()
    del whole["principals"][0][key]

    assert (f"principals[0].{key}", "is required") in faults(whole)


def test_every_fault_is_told_at_once() -> None:
    whole = with_value(["port"], 0)
    whole["x"] = 1
    whole["principals"][0]["tokens"] = 0

    assert {path for path, _ in faults(whole)} == {"x", "port", "principals[0].tokens"}


def test_ids_and_token_hashes_are_unique_in_the_file() -> None:
    whole = minimal()
    whole["principals"].append(copy.deepcopy(whole["principals"][0]))

    paths = [path for path, _ in faults(whole)]

    assert paths == ["principals[1].id", "principals[1].token_sha256[0]"]


def test_a_token_in_the_place_of_its_hash_is_never_shown() -> None:
    token = "S3CRET" * 8

    found = faults(with_value(["principals", 0, "token_sha256"], [token]))

    assert "S3CRET" not in repr(found)


#: Keys that a terminal would not show as they are, and one that fills it.
ODD_KEYS = ("a\nb", "me\rics", "\x1b[2J", "\x00", "\u2028", "\ud83d", "", "k" * 9999)


@pytest.mark.parametrize("key", ODD_KEYS)
def test_an_error_is_one_line_whatever_a_key_holds(key: str) -> None:
    """`http.md` §10: one line per error."""
    for place in ([key], ["models", key], ["limits", key], ["metrics", "labels", key]):
        value = with_value([*place], 1)
        value["principals"][0][key] = 1
        with pytest.raises(ConfigErrors) as caught:
            parse(value)
        lines = [str(error) for error in caught.value.errors]
        assert all(line.isprintable() and len(line) < 1000 for line in lines)
        assert str(caught.value).splitlines() == lines


def test_an_error_is_one_line_whatever_a_path_holds() -> None:
    (path, _), *_ = faults(with_value(["socket"], "a\nb" * 40))
    with pytest.raises(ConfigErrors) as caught:
        parse_gateway(minimal(), Path("/srv/\n" + "x" * 120))

    assert path == "socket"
    assert str(caught.value).isprintable()


def test_hashes_stay_out_of_the_repr() -> None:
    assert digest("a")[:8] not in repr(parse(minimal()))


def test_1022_principals_load_and_one_more_does_not() -> None:
    def principals(count: int) -> dict[str, Any]:
        rows = [
            {
                "id": f"{n + 1:032x}",
                "token_sha256": [digest(str(n))],
                "models": [],
                "actions": ["infer"],
            }
            for n in range(count)
        ]
        return {**minimal(), "principals": rows}

    assert len(parse(principals(1022)).settings.principals) == 1022
    assert faults(principals(1023)) == [
        ("principals", "must be at most 1022, not 1023")
    ]


def test_affect_manage_beside_another_action_is_warned_about() -> None:
    # D1, D24: files of the reference gateway load unchanged.
    file = parse(with_value(["principals", 0, "actions"], ["infer", "affect_manage"]))

    assert file.settings.principals[0].actions == 1
    assert file.notices == (
        "principals[0].actions: affect_manage is not offered and gives nothing",
    )


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["urls", "public"], False),
        (["urls", "ca_file"], "ca.pem"),
        (["http", "access_log"], "access.log"),
        (["metrics", "labels"], {ID: "a"}),
    ],
)
def test_keys_that_do_something_are_not_warned_about(
    keys: list[str | int], value: Any
) -> None:
    assert parse(with_value(keys, value)).notices == ()


def test_the_action_bits_are_those_of_the_wire() -> None:
    names = (
        "infer upload fetch telemetry shared_read shared_write shared_manage"
        " policy_manage"
    )
    for bit, name in enumerate(names.split()):
        actions = [name, "upload"] if name == "fetch" else [name]
        found = settings_with(["principals", 0, "actions"], actions)
        assert found.principals[0].actions & ~2 | (name == "upload") * 2 == 1 << bit


def test_a_host_for_others_needs_both_tls_files() -> None:
    whole = {**minimal(), "host": "0.0.0.0", "certificate": "c.pem", "key": "k.pem"}

    settings = parse(whole).settings

    assert (settings.certificate, settings.key) == (
        "/srv/aotx/c.pem",
        "/srv/aotx/k.pem",
    )


def test_a_relative_socket_that_grows_too_long_is_refused() -> None:
    with pytest.raises(ConfigErrors, match="shorter path"):
        parse_gateway(minimal(), Path("/" + "d" * 100))


GOOD_ORIGINS = [
    "https://a.example",
    "https://a.example:8443",
    "https://10.0.0.1",
    "https://[fd00::1]:9443",
]
BAD_ORIGINS = [
    "http://a.example",
    "https://A.example",
    "https://a.example:443",
    "https://a.example:70000",
    "https://a.example/",
    "https://a.example.",
    "https://-a.example",
    "https://10.0.0.256",
    "https://010.0.0.1",
    "https://[FD00::1]",
    "https://[fd00:0:0::1]",
    "https://me@a.example",
]


@pytest.mark.parametrize("origin", GOOD_ORIGINS)
def test_canonical_private_origins_are_taken(origin: str) -> None:
    entry = {"origin": origin, "networks": ["10.0.0.0/8", "fd00::/8"]}

    settings = settings_with(["urls", "private"], [entry])

    assert settings.urls.private == (
        PrivateOrigin(origin=origin, networks=("10.0.0.0/8", "fd00::/8")),
    )


@pytest.mark.parametrize("origin", BAD_ORIGINS)
def test_other_spellings_of_an_origin_are_refused(origin: str) -> None:
    entry = {"origin": origin, "networks": ["10.0.0.0/8"]}

    assert [path for path, _ in faults(with_value(["urls", "private"], [entry]))] == [
        "urls.private[0].origin"
    ]


@pytest.mark.parametrize("network", ["10.0.0.1/8", "10.0.0.0", "10.0.0.0/33", "x/8", 8])
def test_networks_are_strict_cidrs(network: Any) -> None:
    entry = {"origin": "https://a.example", "networks": [network]}

    assert [path for path, _ in faults(with_value(["urls", "private"], [entry]))] == [
        "urls.private[0].networks[0]"
    ]


@pytest.mark.parametrize("networks", [[], None, "10.0.0.0/8"])
def test_a_private_origin_needs_networks(networks: Any) -> None:
    entry = {"origin": "https://a.example", "networks": networks}

    assert [path for path, _ in faults(with_value(["urls", "private"], [entry]))] == [
        "urls.private[0].networks"
    ]


def test_a_file_is_loaded_relative_to_its_own_folder(tmp_path: Path) -> None:
    path = tmp_path / "gateway.json"
    path.write_text(json.dumps(minimal()))
    path.chmod(0o600)

    assert load_gateway(path).settings.socket == str(tmp_path / "service.sock")
