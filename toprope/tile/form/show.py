"""A form as text: one node a line, with its type and the line that it comes from."""

from __future__ import annotations

from toprope.tile.form.nodes import Block, For, Form, If, Leave, Say, Set, Statement, Store, Value, While


def show(form: Form) -> str:
    """The whole form."""
    told = ", ".join(f"{a.name}: {'*' if a.is_array else ''}{a.dtype.name}" for a in form.arguments)
    return "\n".join([f"form {form.name}({told})", *_lines(form.body, "  ")]) + "\n"


def _lines(block: Block, indent: str) -> list[str]:
    found: list[str] = []
    for s in block:
        found.append(f"{indent}{_text(s)}" + (f"  # {s.line}" if s.line else ""))
        if isinstance(s, For):
            found += _lines(s.body, indent + "  ")
        elif isinstance(s, While):
            found += [*_lines(s.head, indent + "  "), f"{indent}do while {s.condition}", *_lines(s.body, indent + "  ")]
        elif isinstance(s, If):
            found += _lines(s.body, indent + "  ")
            if s.orelse:
                found += [f"{indent}else", *_lines(s.orelse, indent + "  ")]
    return found


def _text(s: Statement) -> str:
    match s:
        case Value():
            more = "".join(f" {k}={v}" for k, v in s.attributes.items())
            return f"{s}: {s.type} = {s.op} {', '.join(map(str, s.args))}{more}".replace(" = constant  value=", " = ")
        case Store():
            mask = f" where {s.mask}" if s.mask is not None else ""
            return f"{s.atomic or 'store'} {s.array}[{s.offset}] = {s.value}{mask}" + (f" old {s.old}" if s.old else "")
        case Set():
            return f"{s.variable} = {s.value}"
        case For():
            return f"for {s.index} in {s.begin} .. {s.end} by {s.step}"
        case While():
            return "while"
        case If():
            return f"if {s.condition}"
        case Leave():
            return s.kind
        case Say():
            return f"{s.kind} {s.text!r} {', '.join(map(str, s.values))}"
