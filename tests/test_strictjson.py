"""
The one JSON reader (`http.md` §3; cases H 131).
"""

from __future__ import annotations

import json
import sys
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twisted_aotx.strictjson import StrictJSONError, dumps, loads


def reason(data: bytes, **limits: int) -> str:
    with pytest.raises(StrictJSONError) as caught:
        loads(data, **limits)
    return caught.value.reason


def nested(depth: int, opening: str = '{"a":', closing: str = "}") -> bytes:
    return (opening * depth + "1" + closing * depth).encode()


def keys(count: int) -> bytes:
    return dumps({str(number): number for number in range(count)})


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"{}", {}),
        (b' \t\r\n{ "a" : [ 1 , -2.5e3 , true , false , null ] } \n', None),
        ('{"ä":"😀\\u0000"}'.encode(), {"ä": "😀\0"}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
        (b'{"a":18446744073709551615}', {"a": 2**64 - 1}),
        (b'{"a":1.7976931348623157e308}', {"a": sys.float_info.max}),
        (b'{"a":1e-999}', {"a": 0.0}),
        (b'{"a":"\\\\\\"[[[[[[[[[[{{{"}', {"a": '\\"[[[[[[[[[[{{{'}),
    ],
)
def test_what_is_taken(data: bytes, value: dict[str, object] | None) -> None:
    expected = {"a": [1, -2500.0, True, False, None]} if value is None else value

    assert loads(data) == expected


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1}',
        b'{"b":{"a":1,"c":2,"a":3}}',
        b'{"b":[{"a":1,"a":2}]}',
        b'{"model":1,"\\u006dodel":2}',
    ],
)
def test_a_key_stands_once_at_any_depth(data: bytes) -> None:
    assert reason(data) == "a key stands twice in one object"


@pytest.mark.parametrize(
    "data", [b'{"a":NaN}', b'{"a":Infinity}', b'{"a":[-Infinity]}']
)
def test_constants_are_no_numbers(data: bytes) -> None:
    assert reason(data) == "NaN and Infinity are not numbers"


@pytest.mark.parametrize(
    "number",
    ["1e999", "-1e999", "1.8e308", "1" + "0" * 309, "-2" + "0" * 308, "9" * 5000],
)
def test_numbers_that_overflow(number: str) -> None:
    assert reason(b'{"a":%s}' % number.encode()) == "a number is too large"


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":"\\ud83d"}',
        b'{"a":"\\ude00\\ud83d"}',
        b'{"a":["\\uD83D\\u0041"]}',
        b'{"\\udfff":1}',
        b'{"a":{"b":["x",{"\\ud800":1}]}}',
    ],
)
def test_lone_surrogates_in_strings_and_keys(data: bytes) -> None:
    assert reason(data) == "a lone surrogate stands in a string"


def test_nesting_at_the_limit_and_one_past() -> None:
    assert loads(nested(8)) == json.loads(nested(8))
    assert reason(nested(9)) == "nested deeper than 8"
    arrays = b'{"a":' + nested(7, "[", "]") + b"}"
    assert loads(arrays) == json.loads(arrays)
    assert reason(b'{"a":' + nested(8, "[", "]") + b"}") == "nested deeper than 8"
    assert loads(nested(3), depth_max=3)
    assert reason(nested(4), depth_max=3) == "nested deeper than 3"
    # Side by side is not nested.
    assert loads(b'{"a":[' + b"[]," * 1000 + b"[]]}")


def test_keys_at_the_limit_and_one_past() -> None:
    assert len(loads(keys(128))) == 128
    assert reason(keys(129)) == "more than 128 keys in one object"
    assert reason(b'{"a":[' + keys(129) + b"]}") == "more than 128 keys in one object"
    assert len(loads(keys(3), keys_max=3)) == 3
    assert reason(keys(4), keys_max=3) == "more than 3 keys in one object"


@pytest.mark.parametrize(
    "data", [b"[]", b'"a"', b"1", b"null", b"true", b'[{"a":1}]', b"1.5"]
)
def test_the_top_is_an_object(data: bytes) -> None:
    assert reason(data) == "the top value is not an object"


def test_a_byte_order_mark() -> None:
    assert reason(b"\xef\xbb\xbf{}") == "begins with a byte order mark"


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\xc0\x80"}',
        b"\xff\xfe{\0}\0",
        '{"a":1}'.encode("latin-1") + b"\x80",
    ],
)
def test_bytes_that_are_not_utf8(data: bytes) -> None:
    assert reason(data) == "not UTF-8"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"{",
        b"}",
        b"{}{}",
        b"{} x",
        b"{'a':1}",
        b"{a:1}",
        b'{"a":1,}',
        b'{"a":[1,]}',
        b'{"a":01}',
        b'{"a":+1}',
        b'{"a":.5}',
        b'{"a":1.}',
        b'{"a":0x10}',
        b'{"a":tru}',
        b'{"a":"\n"}',
        b'{"a":"\\x41"}',
        b'{"a":"b}',
        b'{"a":"\\',
        b'{"a" 1}',
        b"{}\0",
        b"\xc2\xa0{}",
        b'{"a":1} // done',
    ],
)
def test_what_is_not_json(data: bytes) -> None:
    assert reason(data) == "not JSON"


def test_deep_and_long_input_is_refused_in_linear_time() -> None:
    """Input that makes a backtracking scan or a recursive parser fail."""
    size = 1 << 21
    for data in (
        b"[" * size,
        b'{"a":' * (size // 5),
        b'{"a":"' + b'\\"' * (size // 2),
        b'{"a":"' + b"\\" * size,
        b'{"a":' + b'"",' * (size // 3),
    ):
        # A quadratic scan of two million bytes would not end within the time limit.
        reason(data)


def test_an_error_holds_nothing_of_the_input() -> None:
    for data in (
        b'{"a":"secret" secret}',
        b'{"secret":1,"secret":2}',
        b'{"a":"secret\xff"}',
        b'{"a":secret1}',
    ):
        with pytest.raises(StrictJSONError) as caught:
            loads(data)
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
        assert "secret" not in shown


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.text()
numbers = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | numbers,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), values, max_size=6))
def test_what_is_written_is_read(value: dict[str, object]) -> None:
    assert loads(dumps(value), depth_max=100) == value


@given(st.binary(max_size=60))
def test_noise_is_refused_or_is_json(data: bytes) -> None:
    try:
        value = loads(data)
    except StrictJSONError:
        return
    assert json.loads(data) == value


def test_dumps_is_compact_and_leaves_text_as_it_is() -> None:
    assert dumps({"ä": [1, "é\n"], "b": None}) == '{"ä":[1,"é\\n"],"b":null}'.encode()
    with pytest.raises(ValueError, match="JSON compliant"):
        dumps({"a": float("nan")})
