"""
Random mutants: a file with one place of its syntax tree changed.

| kind | what |
|---|---|
| compare | a comparison off by one, or turned round |
| constant | a number ± 1, a truth value turned round |
| logic | `and` for `or`, `not` dropped, a condition negated |
| arithmetic | `+` for `-`, `&` for `|` and the like |
| dropped | a statement that is not there |
| swapped | two arguments in the other's place |
| returned | a result that is another |

Left alone is what no test of behaviour can see: texts, the log, annotations,
`__repr__`, assertions, and how wide the device's tables are (`*_fields`).
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence

import attrs

_COMPARED: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
_COMPUTED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_DROPPED = (*(ast.Expr, ast.Assign, ast.Delete, ast.Raise, ast.Break, ast.Continue),)
#: Calls whose arguments are types or texts.
_UNTOUCHED = ("cast", "TypeVar", "getattr", "isinstance", "implementer", "Logger")
_LOGS = ("_log.", "self._log.")

Place = tuple[int, int]


@attrs.frozen(kw_only=True)
class Mutant:
    """
    One change of one file.

    Attributes:
        start, end: line from 1, and byte in it from 0.
        lines: the first and last line of the statement.
    """

    file: str
    kind: str
    start: Place
    end: Place
    before: str
    after: str
    lines: tuple[int, int]

    def text(self, source: str) -> str:
        """*source* with the change."""
        head, _, tail = _cut(source, self.start, self.end)
        return head + self.after + tail

    def diff(self, source: str) -> str:
        """The change, for people."""
        old, new = source.splitlines(), self.text(source).splitlines()
        rows = difflib.unified_diff(old, new, self.file, self.file, lineterm="", n=1)
        return "\n".join(rows)


def _cut(source: str, start: Place, end: Place) -> tuple[str, str, str]:
    rows = source.encode().splitlines(keepends=True)

    def at(place: Place) -> int:
        return sum(map(len, rows[: place[0] - 1])) + place[1]

    data, first, last = source.encode(), at(start), at(end)
    return data[:first].decode(), data[first:last].decode(), data[last:].decode()


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Every mutant of a file, in the order of the text."""
    return sorted(
        _Finder(file, source).found(),
        key=lambda mutant: (mutant.start, mutant.end, mutant.after),
    )


class _Finder:
    def __init__(self, file: str, source: str) -> None:
        self._file = file
        self._source = source
        self._lines = (0, 0)

    def found(self) -> Iterator[Mutant]:
        yield from self._block(ast.parse(self._source).body, inside=False)

    # --- statements -------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt], *, inside: bool) -> Iterator[Mutant]:
        for statement in body:
            yield from self._statement(statement, inside=inside)

    def _statement(self, node: ast.stmt, *, inside: bool) -> Iterator[Mutant]:
        self._lines = node.lineno, node.end_lineno or node.lineno
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if node.name == "__repr__" or node.name.endswith("_fields"):
                    return
                defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
                for default in defaults:
                    yield from self._expression(default)
                yield from self._block(node.body, inside=True)
            case ast.ClassDef():
                yield from self._block(node.body, inside=False)
            case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Import():
                return
            case ast.Expr(value=ast.Call(func=func)) if self._is_log(func):
                return
            case ast.If() | ast.While():
                if "TYPE_CHECKING" in ast.unparse(node.test):
                    return
                self._lines = node.lineno, node.test.end_lineno or node.lineno
                yield from self._condition(node.test)
                yield from self._block(node.body, inside=inside)
                yield from self._block(node.orelse, inside=inside)
            case ast.AnnAssign():
                if node.value is not None:
                    yield from self._expression(node.value)
            case ast.Return(value=value):
                yield from self._returned(value)
            case ast.AugAssign():
                yield self._changed("dropped", node, "pass")
                yield from self._computed(node.target, node.op, node.value)
                yield from self._expression(node.value)
            case _:
                if inside and isinstance(node, _DROPPED):
                    yield self._changed("dropped", node, "pass")
                yield from self._parts(node, inside=inside)

    def _parts(self, node: ast.AST, *, inside: bool) -> Iterator[Mutant]:
        """Of for, with, try, match and whatever has expressions and blocks."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield from self._statement(child, inside=inside)
            elif isinstance(child, ast.expr):
                yield from self._expression(child)
            elif isinstance(child, ast.ExceptHandler | ast.match_case | ast.withitem):
                yield from self._parts(child, inside=inside)

    def _is_log(self, func: ast.expr) -> bool:
        return ast.unparse(func).startswith(_LOGS)

    def _returned(self, value: ast.expr | None) -> Iterator[Mutant]:
        if value is None:
            return
        yield from self._expression(value)
        if isinstance(value, ast.Tuple) or self._text(value) == "None":
            return
        if self._file.startswith("twisted_aotx/device/"):
            yield self._changed("returned", value, f"({self._text(value)}) + 1")
        else:
            yield self._changed("returned", value, "None")

    # --- expressions ------------------------------------------------------------------

    def _condition(self, test: ast.expr) -> Iterator[Mutant]:
        yield self._changed("logic", test, f"not ({self._text(test)})")
        yield from self._expression(test)

    def _expression(self, node: ast.expr) -> Iterator[Mutant]:
        match node:
            case ast.JoinedStr() | ast.Lambda():
                return
            case ast.Constant():
                yield from self._constant(node)
                return
            case ast.Compare():
                yield from self._compared(node)
            case ast.BoolOp():
                yield from self._joined(node)
            case ast.UnaryOp(op=ast.Not()):
                yield self._changed("logic", node, f"({self._text(node.operand)})")
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
                yield self._changed("constant", node, f"({self._text(node)} + 1)")
                return
            case ast.IfExp():
                yield self._changed(
                    "logic", node.test, f"not ({self._text(node.test)})"
                )
            case ast.BinOp():
                yield from self._computed(node.left, node.op, node.right)
            case ast.Call():
                name = ast.unparse(node.func).rpartition(".")[2]
                if name in _UNTOUCHED or self._is_log(node.func):
                    return
                yield from self._swapped(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from self._expression(child)
            elif isinstance(child, ast.keyword):
                yield from self._expression(child.value)
            elif isinstance(child, ast.comprehension):
                yield from self._expression(child.iter)
                for test in child.ifs:
                    yield from self._condition(test)

    def _constant(self, node: ast.Constant) -> Iterator[Mutant]:
        if isinstance(node.value, bool):
            yield self._changed("constant", node, str(not node.value))
        elif isinstance(node.value, int | float):
            text = self._text(node)
            yield self._changed("constant", node, f"({text} + 1)")
            yield self._changed("constant", node, f"({text} - 1)")

    def _compared(self, node: ast.Compare) -> Iterator[Mutant]:
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            sign, others = _COMPARED[type(operator)]
            for other in others:
                yield self._between("compare", left, right, sign, other)

    def _joined(self, node: ast.BoolOp) -> Iterator[Mutant]:
        sign, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield self._between("logic", left, right, sign, other)

    def _computed(
        self, left: ast.expr, operator: ast.operator, right: ast.expr
    ) -> Iterator[Mutant]:
        if type(operator) in _COMPUTED:
            sign, other = _COMPUTED[type(operator)]
            yield self._between("arithmetic", left, right, sign, other)

    def _swapped(self, node: ast.Call) -> Iterator[Mutant]:
        if any(isinstance(each, ast.Starred) for each in node.args):
            return
        for left, right in zip(node.args, node.args[1:], strict=False):
            texts = self._text(left), self._text(right)
            if texts[0] != texts[1]:
                middle = _cut(self._source, _end(left), _start(right))[1]
                yield self._replaced(
                    "swapped",
                    *(_start(left), _end(right)),
                    texts[1] + middle + texts[0],
                )

    # --- places -----------------------------------------------------------------------

    def _text(self, node: ast.expr) -> str:
        return _cut(self._source, _start(node), _end(node))[1]

    def _changed(self, kind: str, node: ast.expr | ast.stmt, after: str) -> Mutant:
        return self._replaced(kind, _start(node), _end(node), after)

    def _between(
        self, kind: str, left: ast.expr, right: ast.expr, sign: str, other: str
    ) -> Mutant:
        start, end = _end(left), _start(right)
        text = _cut(self._source, start, end)[1]
        return self._replaced(kind, start, end, text.replace(sign, other, 1))

    def _replaced(self, kind: str, start: Place, end: Place, after: str) -> Mutant:
        return Mutant(
            file=self._file,
            kind=kind,
            start=start,
            end=end,
            before=_cut(self._source, start, end)[1],
            after=after,
            lines=self._lines,
        )


def _start(node: ast.expr | ast.stmt) -> Place:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> Place:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset
