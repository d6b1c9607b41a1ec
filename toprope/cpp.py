"""C++ as it is written: functions, records, calls, includes and constants of a text, read by tree-sitter with its errors tolerated.

Nothing is preprocessed: what stands in any branch of an #if counts. What the grammar does not know (the vendor's marks before a function,
address spaces) is blanked before the parse and read beside the node that it belongs to. A macro call looks like a function call and is one here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser, Query, QueryCursor

from toprope import brackets
from toprope.errors import BadInput
from toprope.expression import evaluate

_COMMENT = re.compile(
    r'//(?:\\\r?\n|[^\n])*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.S,
)
_MARKS = re.compile(  # none of them is C++
    r"\b(?:__global__|__aicore__|__aicpu__|__host_aicore__|__vector__|__cube__|__simd_vf__|__simd_callee__|__simt_vf__|__simt_callee__"
    r"|__host__|__device__|__mix__\s*\([^()]*\)|__launch_bounds__\s*\([^()]*\)|__attribute__\s*\(\([^;{}]*?\)\)|__inline__|__forceinline__"
    r"|__gm__|__ubuf__|__cbuf__|__ca__|__cb__|__cc__|__fbuf__|__ssbuf__|__restrict__|__restrict|__kfc_workspace__)(?!\w)"
    r'|\[\s*(?:host\s*,\s*)?aicore\s*\]|\bextern\s*"C"(?!\s*\{)'
)
_KERNEL = re.compile(r"\b__global__\b")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\r?\n|[^\n])*", re.M)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.M)
_CONSTANT = re.compile(
    r"#[ \t]*define[ \t]+(?P<macro>\w+)[ \t]+(?P<body>(?:\\\r?\n|[^\n])+)"
    r"|\b(?:constexpr|const)\b[\w\s:]*?\b(?P<name>\w+)\s*=\s*(?P<value>[^;,{}]+)"
    r"|(?<=[{,])\s*(?P<item>\w+)\s*=\s*(?P<number>[^;,{}]+)(?=[,}])"
)
_RECORD = re.compile(r"\b(?:struct|class)\s+(?:alignas\s*\([^()]*\)\s*)?(\w+)\s*(?:final\s*)?(?::[^;{}()]*)?\{")
_NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)[uUlL]*(?![\w.])")
_NAMES = ("identifier", "field_identifier", "qualified_identifier", "destructor_name", "operator_name")
_FOUND = """
    (function_definition) @function
    (declaration declarator: (function_declarator)) @function
    (struct_specifier body: (_)) @record
    (class_specifier body: (_)) @record
"""

_DEVICE_CAST = re.compile(
    r"(?:\(|reinterpret_cast\s*<)\s*(?:const\s+)?__gm__\s+(?:const\s+)?(?P<type>[A-Za-z_][\w:]*)\s*(?:const\s*)?\*\s*[)>]\s*\(?\s*(?P<pointer>\w+)"
)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function as it is written: type without marks, name ("" if it has none); an array is a pointer."""

    type: str
    name: str


@dataclass(frozen=True)
class Function:
    """A function: name, the classes around it, marks ("__global__ __aicore__"), template parameter list (text), result, parameters.

    `at` is where the name stands, `line` its line from 1; `first` and `last` are the lines of the whole; `body` is what stands between its
    braces, None for one that is only declared.
    """

    name: str
    owner: str
    marks: str
    template: str
    returns: str
    parameters: tuple[Parameter, ...]
    at: int
    line: int
    first: int
    last: int
    body: str | None

    @property
    def full_name(self) -> str:
        """With the classes around it: "Add::Process"."""
        return f"{self.owner}::{self.name}" if self.owner else self.name

    @property
    def is_kernel(self) -> bool:
        """A `__global__` function without a result."""
        return "__global__" in self.marks and self.returns.split()[-1:] == ["void"]


@dataclass(frozen=True)
class Member:
    """A data member: type, name, and the sizes of an array as written."""

    type: str
    name: str
    sizes: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """A struct or class with its body: name, line from 1, data members; `plain` if it has data members only and no bases."""

    name: str
    line: int
    members: tuple[Member, ...]
    plain: bool
    bases: tuple[str, ...]


@dataclass(frozen=True)
class Call:
    """NAME(arguments) anywhere, of a function or a macro; `at` and `end` are its places in the text, `end` behind the bracket."""

    name: str
    arguments: tuple[str, ...]
    line: int
    at: int
    end: int


def strip_comments(text: str) -> str:
    """The text with comments blanked out (same length, same lines); string and character literals stay."""

    def blank(match: re.Match[str]) -> str:
        found = match.group(0)
        return re.sub(r"[^\n]", " ", found) if found.startswith("/") else found

    return _COMMENT.sub(blank, text)


@lru_cache(64)
def read(text: str) -> Source:
    """A text whose comments are blanked already."""
    return Source(text)


class Source:
    """One text without comments, and what it says."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Every function that is defined, members too, in the order of the text."""
        return tuple(f for f in self._functions if f.body is not None)

    @cached_property
    def kernels(self) -> tuple[Function, ...]:
        """Every kernel, those that are only declared too."""
        return tuple(f for f in self._functions if f.is_kernel)

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """Every struct and class with a body, in the order of the text."""
        found = {r.line: r for r in self._records()}
        # As for kernels: one whose branches hide its end from the grammar is read by itself, without the directives.
        for head in _RECORD.finditer(self._undirected):
            line = self._line(head.start(1))
            close = brackets.closing(self._undirected, head.end() - 1) if line not in found else -1
            if close >= 0:
                alone = self._undirected[head.start() : close + 1].replace("\0", " ")
                for r in list(Source(alone + ";")._records())[:1]:
                    found[line] = replace(r, line=line)
        return tuple(found[line] for line in sorted(found))

    def _records(self) -> Iterator[Record]:
        return (r for node in self._nodes.get("record", []) if (r := self._record(node)))

    @cached_property
    def includes(self) -> tuple[str, ...]:
        """The names of #include "..."."""
        return tuple(m.group(1) for m in _INCLUDE.finditer(self.text) if m.group(1))

    @cached_property
    def constants(self) -> Mapping[str, str]:
        """Macros without parameters, constants and enumerators with a value: name to text; of several the first."""
        found: dict[str, str] = {}
        for match in _CONSTANT.finditer(self.text):
            name, value = next((match[n], match[v]) for n, v in _CONSTANT_GROUPS if match[n])
            found.setdefault(name, value.replace("\\\n", " ").strip())
        return found

    def number(self, text: str) -> int | None:
        """The value of a constant expression over numbers and the text's constants; None for what only a compiler can evaluate."""
        return number(text, self.constants)

    def calls(self, *names: str) -> Iterator[Call]:
        """Each NAME(...) of these names, except where the name is defined. Names may hold patterns (`ASCENDC_TPL_\\w+`)."""
        for match in re.finditer(rf"\b({'|'.join(names)})\s*\(", self.text):
            line_begin = self.text.rfind("\n", 0, match.start()) + 1
            if re.match(r"\s*#\s*define\s+$", self.text[line_begin : match.start()]):
                continue
            end = brackets.closing(self.text, match.end() - 1)
            if end >= 0:
                arguments = tuple(brackets.split(self.text[match.end() : end]))
                yield Call(match.group(1), arguments, self._line(match.start()), match.start(), end + 1)

    @cached_property
    def device_casts(self) -> tuple[tuple[str, str], ...]:
        """Each cast of a named pointer to a type in GM, (__gm__ T*)x or reinterpret_cast<__gm__ T*>(x): x and T."""
        return tuple((m["pointer"], m["type"]) for m in _DEVICE_CAST.finditer(self.text))

    def _line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    @cached_property
    def _tree(self) -> Node:
        plain = _MARKS.sub(lambda m: " " * len(m.group(0)), self.text)
        # One byte a letter, so that places in the tree are places in the text.
        return Parser(_language()).parse(plain.encode("ascii", "replace")).root_node

    @cached_property
    def _nodes(self) -> dict[str, list[Node]]:
        found = QueryCursor(_query()).captures(self._tree)
        return {kind: sorted(nodes, key=lambda n: n.start_byte) for kind, nodes in found.items()}

    @cached_property
    def _undirected(self) -> str:
        """The text with preprocessor lines blanked, each ending in \\0 where it ended."""
        return _DIRECTIVE.sub(lambda m: " " * (len(m.group(0)) - 1) + "\0", self.text)

    def _written(self, node: Node) -> str:
        return self.text[node.start_byte : node.end_byte]

    @cached_property
    def _functions(self) -> tuple[Function, ...]:
        found = {f.at: f for f in self._parsed()}
        # Branches of an #if with unequal braces end what the grammar can follow: heads of kernels are read by themselves then.
        for mark in _KERNEL.finditer(self._undirected):
            begin = self._begin_of_declaration(mark.start())
            ends = [at for c in "{;" if (at := self._undirected.find(c, mark.end())) >= 0]
            if not ends or any(begin <= at < min(ends) for at in found):
                continue
            end = min(ends)
            head = self._undirected[begin:end].replace("\0", " ")
            for f in Source(head + "{}")._parsed() if len(_KERNEL.findall(head)) == 1 else ():
                close = brackets.closing(self.text, end) if self.text[end] == "{" else -1
                body = self.text[end + 1 : close if close >= 0 else None] if self.text[end] == "{" else None
                found[begin + f.at] = replace(
                    f,
                    at=begin + f.at,
                    line=self._line(begin + f.at),
                    first=self._line(begin) + f.first - 1,
                    last=self._line(close if close >= 0 else end),
                    body=body,
                )
        return tuple(found[at] for at in sorted(found))

    def _parsed(self) -> Iterator[Function]:
        return (f for node in self._nodes.get("function", []) if (f := self._function(node)))

    def _function(self, node: Node) -> Function | None:
        declarator = node.child_by_field_name("declarator")
        while declarator is not None and declarator.type != "function_declarator":  # behind * and & of the result
            inner = (c for c in declarator.named_children if c.type.endswith("declarator"))
            declarator = declarator.child_by_field_name("declarator") or next(inner, None)
        named = declarator.child_by_field_name("declarator") if declarator is not None else None
        listed = declarator.child_by_field_name("parameters") if declarator is not None else None
        if named is None or listed is None or named.type not in _NAMES or _inside_function(node):
            return None
        body = node.child_by_field_name("body")
        outer = node.parent if node.parent is not None and node.parent.type == "template_declaration" else node
        template = outer.child_by_field_name("parameters") if outer is not node else None
        begin = self._begin_of_declaration(outer.start_byte)
        head = self.text[begin : named.start_byte]
        before_name = self.text[template.end_byte if template is not None else begin : named.start_byte]
        return Function(
            self._written(named),
            "::".join(self._owners(node)),
            " ".join(" ".join(m.group(0).split()) for m in _MARKS.finditer(head)),
            self._written(template)[1:-1].strip() if template is not None else "",
            " ".join(_MARKS.sub(" ", _DIRECTIVE.sub(" ", before_name)).split()),
            tuple(_parameter(p) for p in brackets.split(self._written(listed)[1:-1]) if p != "void"),
            named.start_byte,
            named.start_point.row + 1,
            outer.start_point.row + 1,
            node.end_point.row + 1,
            self._written(body)[1:-1] if body is not None else None,
        )

    def _owners(self, node: Node) -> list[str]:
        names: list[str] = []
        while (parent := node.parent) is not None:
            node = parent
            if node.type in ("struct_specifier", "class_specifier", "union_specifier"):
                named = node.child_by_field_name("name")
                names.insert(0, self._written(named) if named is not None else "")
        return [n for n in names if n]

    def _begin_of_declaration(self, at: int) -> int:
        """Where the text of a declaration may begin: marks that are blanked stand before its node."""
        return max(self._undirected.rfind(c, 0, at) for c in ";{}\0") + 1

    def _record(self, node: Node) -> Record | None:
        named, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if named is None or body is None:
            return None
        members: list[Member] = []
        plain = named.type == "type_identifier"
        for child in body.named_children:
            if child.type == "access_specifier":
                continue
            found = self._members(child) if child.type == "field_declaration" else []
            plain = plain and bool(found)
            members += found
        listed = next((c for c in node.named_children if c.type == "base_class_clause"), None)
        bases = [self._written(b) for b in listed.named_children if b.type != "access_specifier"] if listed else []
        return Record(
            self._written(named),
            named.start_point.row + 1,
            tuple(members),
            plain and not bases,
            tuple(bases),
        )

    def _members(self, node: Node) -> list[Member]:
        """The members of one declaration; none if it declares a function, a bit field, a pointer, a static or something unread."""
        kind = node.child_by_field_name("type")
        odd = {"bitfield_clause", "storage_class_specifier", "ERROR"}
        if (
            kind is None
            or node.has_error
            or kind.type in ("struct_specifier", "class_specifier", "enum_specifier")
            or any(c.type in odd for c in node.named_children)
        ):
            return []
        out = []
        for declarator in node.children_by_field_name("declarator"):
            sizes: list[str] = []
            inner: Node | None = declarator
            while inner is not None and inner.type == "array_declarator":
                size = inner.child_by_field_name("size")
                sizes.insert(0, self._written(size) if size is not None else "")
                inner = inner.child_by_field_name("declarator")
            if inner is None or inner.type != "field_identifier":
                return []
            out.append(Member(" ".join(self._written(kind).split()), self._written(inner), tuple(sizes)))
        return out


@cache
def _language() -> Language:
    return Language(tree_sitter_cpp.language())


@cache
def _query() -> Query:
    return Query(_language(), _FOUND)


_CONSTANT_GROUPS = (("macro", "body"), ("name", "value"), ("item", "number"))


def number(text: str, constants: Mapping[str, str], depth: int = 8) -> int | None:
    """The value of a constant expression of C++ over whole numbers and named constants; None for what only a compiler can evaluate."""
    bare = re.sub(r"\b(?:static_cast|reinterpret_cast)\s*<[^<>]*>|\b(?:\w+\s*::\s*)+", "", text.strip())
    bare = {"true": "1", "false": "0"}.get(bare, _NUMBER.sub(lambda m: _whole(m.group(1)), bare))
    if bare.isdecimal():  # most are; leading zeros, which C++ reads as octal, are left to the evaluator's refusal
        return int(bare) if bare == "0" or bare[0] != "0" else None
    for name in set(re.findall(r"\b[A-Za-z_]\w*", bare)):
        inner = number(constants[name], constants, depth - 1) if name in constants and depth else None
        if inner is None:
            return None
        bare = re.sub(rf"\b{name}\b", f"({inner})", bare)
    if not re.fullmatch(r"[\d\s()+\-*/%<>&|^~]+", bare) or "**" in bare or ("-" in bare and re.search("[/%]", bare)):
        return None  # Python rounds quotients of negative numbers the other way
    try:
        return int(evaluate(bare.replace("/", "//"), {}))
    except (BadInput, ArithmeticError, TypeError, ValueError):
        return None


def _whole(text: str) -> str:
    octal = text[0] == "0" and text.isdigit() and len(text) > 1
    return str(int(text, 8 if octal and not set(text) & set("89") else 10 if text.isdigit() else 0))


def _inside_function(node: Node) -> bool:
    """Whether a function stands in another's body and not in a class there: what a macro call with a block looks like."""
    while (parent := node.parent) is not None:
        node = parent
        if node.type in ("struct_specifier", "class_specifier"):
            return False
        if node.type == "compound_statement":
            return True
    return False


def _parameter(text: str) -> Parameter:
    bare = _MARKS.sub(" ", _DIRECTIVE.sub(" ", text).split("=")[0]).strip()
    match = re.match(r"(.*?[\s*&>])(\w+)((?:\s*\[[^\]]*\])*)$", bare, re.S)
    if match is None:
        return Parameter(" ".join(bare.split()), "")
    return Parameter(" ".join(match[1].split()).replace(" *", "*") + ("*" if match[3] else ""), match[2])
