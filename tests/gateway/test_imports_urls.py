"""
URLs to import from, and the addresses that they may reach (`http.md` §8).
"""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twisted_aotx.errors import Problem
from twisted_aotx.gateway.imports_addresses import is_public, permitted, plain
from twisted_aotx.gateway.imports_urls import ImportURL, parse_url
from twisted_aotx.gateway.settings import PrivateOrigin, URLRules

PUBLIC = "198.20.0.1"


def refused(text: object) -> None:
    with pytest.raises(Problem) as caught:
        parse_url(text)
    problem = caught.value
    found = (problem.status, problem.code, problem.param)
    assert found == (400, "invalid_field", "url")


@pytest.mark.parametrize(
    ("text", "origin", "target"),
    [
        ("https://example.org", "https://example.org", "/"),
        ("https://example.org/", "https://example.org", "/"),
        ("HTTPS://Example.ORG/A?b=c&d", "https://example.org", "/A?b=c&d"),
        ("https://example.org?x=/@:", "https://example.org", "/?x=/@:"),
        ("https://example.org:443/a", "https://example.org", "/a"),
        ("https://example.org:8443/a", "https://example.org:8443", "/a"),
        ("https://a-b.example_1/%2e%2E//x", "https://a-b.example_1", "/%2e%2E//x"),
        ("https://example.org/ä?ß", "https://example.org", "/%C3%A4?%C3%9F"),
        ("https://example.org/\\x", "https://example.org", "/\\x"),
        ("https://192.0.2.1/", "https://192.0.2.1", "/"),
        ("https://192.0.2.1:1/", "https://192.0.2.1:1", "/"),
        ("https://[2001:db8::1]/", "https://[2001:db8::1]", "/"),
        ("https://[::1]:8443/", "https://[::1]:8443", "/"),
        ("https://1.example.a1/", "https://1.example.a1", "/"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example", "/"),
    ],
)
def test_urls_that_are_taken(text: str, origin: str, target: str) -> None:
    url = parse_url(text)

    assert (url.origin, url.target.decode()) == (origin, target)
    named = url.address is None
    assert named == (not url.host.replace(".", "").isdigit() and ":" not in url.host)


@pytest.mark.parametrize(
    "text",
    [
        # cases K 164
        "http://example.org/",
        "https://user@example.org/",
        "https://user:word@example.org/",
        "https://example.org/#part",
        "https://example.org./",
        "https://127.1",
        "https://2130706433",
        "https://0177.0.0.1",
        "https://[fe80::1%eth0]/",
        "https://example.org/a b",
        # and their like
        "",
        "example.org",
        "//example.org/",
        "https:/example.org",
        "https:example.org",
        " https://example.org/",
        "https://example.org/\t",
        "https://example.org/\n",
        "https://exam\tple.org/",
        "https://example.org/\x7f",
        "https://example.org/\x85",
        "https://",
        "https:///path",
        "https://?x",
        "https://example..org/",
        "https://.example.org/",
        "https://-a.example/",
        "https://a-.example/",
        "https://" + "a" * 64 + ".example/",
        "https://" + ".".join(["a" * 63] * 4) + "/",
        "https://bücher.example/",
        "https://exa%6dple.org/",
        "https://good.example\\@127.0.0.1/",
        "https://good.example\\.evil.example/",
        "https://example.org:/",
        "https://example.org:0/",
        "https://example.org:0443/",
        "https://example.org:65536/",
        "https://example.org:port/",
        "https://example.org:443:443/",
        "https://0x7f.0.0.1/",
        "https://0x7f000001/",
        "https://127.0.0.0x1/",
        "https://127.0.0.01/",
        "https://1.2.3.4.5/",
        "https://256.0.0.1/",
        "https://example.1/",
        "https://example.0x/",
        "https://127.0.0.1./",
        "https://[::1/",
        "https://::1/",
        "https://[]/",
        "https://[127.0.0.1]/",
        "https://[0:0:0:0:0:0:0:1]/",
        "https://[::0001]/",
        "https://[2001:DB8::1]/",
        "https://[::1]x/",
        "file:///etc/passwd",
        "data:image/jpeg;base64,AAAA",
        None,
        5,
        ["https://example.org/"],
    ],
)
def test_urls_that_are_refused(text: object) -> None:
    refused(text)


def test_the_longest_url() -> None:
    longest = "https://example.org/".ljust(8192, "x")

    assert parse_url(longest).target == b"/" + b"x" * (8192 - 20)
    refused(longest + "x")
    host = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    assert len(parse_url(f"https://{host}/").host) == 253
    refused(f"https://{host}d/")


@pytest.mark.parametrize("text", ["::ffff:127.0.0.1", "::ffff:7f00:1"])
def test_both_spellings_of_a_mapped_address(text: str) -> None:
    address = parse_url(f"https://[{text}]/").address

    assert address is not None
    assert plain(address) == ipaddress.IPv4Address("127.0.0.1")


# --- addresses ------------------------------------------------------------------------

#: The first and last of what is not public, and its neighbours that are.
EDGES = """
0.0.0.0 - 0.255.255.255 1.0.0.0
10.0.0.0 9.255.255.255 10.255.255.255 11.0.0.0
100.64.0.0 100.63.255.255 100.127.255.255 100.128.0.0
127.0.0.0 126.255.255.255 127.255.255.255 128.0.0.0
169.254.0.0 169.253.255.255 169.254.255.255 169.255.0.0
172.16.0.0 172.15.255.255 172.31.255.255 172.32.0.0
192.0.0.0 191.255.255.255 192.0.0.255 192.0.1.0
192.0.2.0 192.0.1.255 192.0.2.255 192.0.3.0
192.88.99.0 192.88.98.255 192.88.99.255 192.88.100.0
192.168.0.0 192.167.255.255 192.168.255.255 192.169.0.0
198.18.0.0 198.17.255.255 198.19.255.255 198.20.0.0
198.51.100.0 198.51.99.255 198.51.100.255 198.51.101.0
203.0.113.0 203.0.112.255 203.0.113.255 203.0.114.0
224.0.0.0 223.255.255.255 239.255.255.255 -
240.0.0.0 - 255.255.255.255 -
2001:: 2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff 2001:1ff:ffff::ffff 2001:200::
2001:db8:: 2001:db7:ffff::1 2001:db8:ffff::1 2001:db9::
2002:: 2001:ffff::1 2002:ffff::1 2003::
3fff:: 3ffe:ffff::1 3fff:fff:ffff::1 3fff:1000::
:: - 1fff:ffff::1 2000::
4000:: 3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff::1 -
fe80::1 - fd00::1 -
64:ff9b::1 - 64:ff9b:1::1 -
"""


@pytest.mark.parametrize("line", EDGES.strip().splitlines())
def test_what_is_public(line: str) -> None:
    """
    http.md §8, its last paragraph: exactly these networks.
    """
    first, before, last, after = line.split()
    for text in (first, last):
        assert not is_public(ipaddress.ip_address(text)), text
    for text in (before, after):
        assert text == "-" or is_public(ipaddress.ip_address(text)), text


def test_a_zone_is_not_public() -> None:
    assert not is_public(ipaddress.ip_address("2000::1%eth0"))


def url(text: str = "https://host.example/") -> ImportURL:
    return parse_url(text)


def allows(at: ImportURL, rules: URLRules, *addresses: str) -> bool:
    try:
        permitted(at, map(ipaddress.ip_address, addresses), rules)
    except Problem as problem:
        return (problem.status, problem.code) != (403, "source_address")
    return True


PRIVATE = URLRules(
    public=False,
    private=(
        PrivateOrigin(
            origin="https://host.example", networks=("10.1.0.0/16", "fd00::/8")
        ),
        PrivateOrigin(origin="https://host.example:8443", networks=("127.0.0.0/8",)),
    ),
)


def test_public_addresses() -> None:
    """
    cases K 163: `public: false`, and another port than 443.
    """
    assert allows(url(), URLRules(), PUBLIC, "2a00::1")
    assert not allows(url(), URLRules(public=False), PUBLIC)
    assert not allows(url("https://host.example:8443/"), URLRules(), PUBLIC)
    assert allows(url("https://host.example:443/"), URLRules(), PUBLIC)


def test_private_origins() -> None:
    """
    cases K 163: an origin is one host and one port, and reaches its networks alone.
    """
    assert allows(url(), PRIVATE, "10.1.2.3", "fd12::1")
    assert not allows(url(), PRIVATE, "10.2.0.1")
    assert not allows(url(), PRIVATE, "127.0.0.1")
    assert not allows(url(), PRIVATE, PUBLIC)
    assert allows(url("https://HOST.example:8443/"), PRIVATE, "127.0.0.1")
    assert not allows(url("https://host.example:8444/"), PRIVATE, "127.0.0.1")
    assert not allows(url("https://other.example/"), PRIVATE, "10.1.2.3")


def test_one_forbidden_address_refuses_all() -> None:
    assert not allows(url(), URLRules(), PUBLIC, "10.0.0.1")
    assert not allows(url(), URLRules(), "10.0.0.1", PUBLIC)
    assert not allows(url(), PRIVATE, "10.1.2.3", "10.2.0.1")


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_judged_as_ipv4(address: ipaddress.IPv4Address) -> None:
    mapped = f"::ffff:{address}"
    for rules in (URLRules(), PRIVATE):
        assert allows(url(), rules, mapped) == allows(url(), rules, str(address))


def test_what_is_reached_is_what_was_judged_each_once() -> None:
    addresses = [ipaddress.ip_address(a) for a in (f"::ffff:{PUBLIC}", PUBLIC, PUBLIC)]

    assert permitted(url(), addresses, URLRules()) == (ipaddress.ip_address(PUBLIC),)
