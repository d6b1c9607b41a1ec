"""Random numbers as Triton draws them: Philox 4x32 with ten rounds, in 32-bit lanes without sign."""

from __future__ import annotations

import math
from typing import Any

from toprope.tile.form.nodes import Value, f32, i32, i64, u32, u64

_ROUND_A, _ROUND_B, _KEY_A, _KEY_B = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85


class RandomWords:
    """tl.rand and its like."""

    b: Any
    arith: Any
    in_type: Any
    lanes: Any
    word_where: Any
    ordered: Any
    product: Any
    word_cos: Any
    word_sin: Any

    def word_philox_impl(
        self, c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: int = 10
    ) -> tuple[Any, ...]:
        for _ in range(int(n_rounds)):
            a, b = c0, c2
            c0 = self.in_type("xor", u32, self.in_type("xor", u32, self.in_type("mulhi", u32, b, _ROUND_B), c1), k0)
            c2 = self.in_type("xor", u32, self.in_type("xor", u32, self.in_type("mulhi", u32, a, _ROUND_A), c3), k1)
            c1 = self.in_type("mul", u32, b, _ROUND_B)
            c3 = self.in_type("mul", u32, a, _ROUND_A)
            k0 = self.in_type("add", u32, k0, _KEY_A)
            k1 = self.in_type("add", u32, k1, _KEY_B)
        return c0, c1, c2, c3

    def word_philox(
        self, seed: Any, c0: Any, c1: Any = 0, c2: Any = 0, c3: Any = 0, n_rounds: int = 10
    ) -> tuple[Any, ...]:
        seed = self.b.cast(seed if isinstance(seed, Value) else self.b.constant(int(seed), i64), u64)
        high = self.b.cast(self.b.apply("shr", seed, self.lanes(32, u64, seed.shape)), u32)
        shape = getattr(c0, "shape", ())
        counters = [
            self.lanes(self.b.cast(c, u32) if isinstance(c, Value) else c, u32, shape) for c in (c0, c1, c2, c3)
        ]
        c0, c1, c2, c3 = counters
        return self.word_philox_impl(c0, c1, c2, c3, self.b.cast(seed, u32), high, n_rounds)

    def word_randint4x(self, seed: Any, offset: Any, n_rounds: int = 10, **_: Any) -> tuple[Any, ...]:
        return self.word_philox(seed, offset, 0, 0, 0, n_rounds)

    def word_randint(self, seed: Any, offset: Any, n_rounds: int = 10, **_: Any) -> Any:
        return self.word_randint4x(seed, offset, n_rounds)[0]

    def word_uint_to_uniform_float(self, x: Any, **_: Any) -> Any:
        signed = self.b.value("bitcast", type(x.type)(i32, x.shape), x) if x.dtype != i32 else x
        turned = self.arith("sub", self.arith("mul", signed, -1), 1)
        kept = self.word_where(self.ordered("lt", signed, 0), turned, signed)
        return self.product(self.b.cast(kept, f32), 4.6566127342e-10)

    def word_rand(self, seed: Any, offset: Any, n_rounds: int = 10, **_: Any) -> Any:
        return self.word_uint_to_uniform_float(self.word_randint(seed, offset, n_rounds))

    def word_rand4x(self, seed: Any, offset: Any, n_rounds: int = 10, **_: Any) -> tuple[Any, ...]:
        return tuple(self.word_uint_to_uniform_float(x) for x in self.word_randint4x(seed, offset, n_rounds))

    def word_pair_uniform_to_normal(self, u1: Any, u2: Any) -> tuple[Any, Any]:
        u1 = self.arith("max", u1, 1.0e-7)
        theta = self.product(u2, 2 * math.pi)
        r = self.b.apply("sqrt", self.product(self.b.apply("log", u1), -2.0))
        return self.product(r, self.word_cos(theta)), self.product(r, self.word_sin(theta))

    def word_randn4x(self, seed: Any, offset: Any, n_rounds: int = 10, **_: Any) -> tuple[Any, ...]:
        u = self.word_rand4x(seed, offset, n_rounds)
        return (*self.word_pair_uniform_to_normal(u[0], u[1]), *self.word_pair_uniform_to_normal(u[2], u[3]))

    def word_randn(self, seed: Any, offset: Any, n_rounds: int = 10, **_: Any) -> Any:
        u = self.word_rand4x(seed, offset, n_rounds)
        return self.word_pair_uniform_to_normal(u[0], u[1])[0]
