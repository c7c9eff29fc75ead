"""Resource amounts and limits by resource name.

Amounts are integers: vcore in millicores, memory in bytes, other resources as numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from muster_si import keys


class Resources:
    """An amount per resource name; absent = 0. Immutable.

    Amounts of 0 are not stored, so equal amounts are equal values with equal hashes.
    """

    __slots__ = ("_amounts", "_hash", "_on_nodes")

    _on_nodes: Resources

    def __init__(self, amounts: Mapping[str, int] | None = None) -> None:
        self._amounts = {n: a for n, a in amounts.items() if a} if amounts else {}
        self._hash: int | None = None

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def items(self) -> Iterator[tuple[str, int]]:
        """(name, amount) of every amount that is not 0."""
        return iter(self._amounts.items())

    def __bool__(self) -> bool:
        return bool(self._amounts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and self._amounts == other._amounts

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._amounts.items()))
        return self._hash

    def __add__(self, other: Resources) -> Resources:
        return self.plus(other, 1)

    def __sub__(self, other: Resources) -> Resources:
        return self.plus(other, -1)

    def plus(self, other: Resources, times: int) -> Resources:
        """Returns the sum of this amount and `times` of the other. A negative `times` subtracts."""
        if not self._amounts:
            return other.times(times)
        total = self._amounts.copy()
        for name, amount in other._amounts.items():
            left = total.get(name, 0) + times * amount
            if left:
                total[name] = left
            else:
                total.pop(name, None)
        return _of(total)

    def times(self, count: int) -> Resources:
        """Returns `count` times this amount."""
        if count == 1:
            return self
        return _of({n: a * count for n, a in self._amounts.items()}) if count else NOTHING

    def widened(self, other: Resources) -> Resources:
        """Returns the maximum of both amounts by resource."""
        if not self._amounts:
            return other
        return Resources({**self._amounts, **{n: max(self[n], a) for n, a in other._amounts.items()}})

    def covers(self, other: Resources) -> bool:
        """Whether every amount of `other` is at most the amount here."""
        have = self._amounts
        for name, amount in other._amounts.items():  # noqa: SIM110 - half the time of `all` with a generator
            if have.get(name, 0) < amount:
                return False
        return True

    @property
    def on_nodes(self) -> Resources:
        """The part that counts on nodes: all but the devices of claims, which only quotas count."""
        try:
            return self._on_nodes
        except AttributeError:  # the first time
            kept = {name: amount for name, amount in self._amounts.items() if not is_of_devices(name)}
            self._on_nodes = self if len(kept) == len(self._amounts) else _of(kept)
            return self._on_nodes

    def __repr__(self) -> str:
        inside = ", ".join(f"{n}={a}" for n, a in sorted(self._amounts.items()))
        return f"Resources({inside})"


def is_of_devices(name: str) -> bool:
    """Whether the resource is the number of devices of a DeviceClass in claims. No node has such a resource."""
    return name.endswith(keys.DEVICES_OF_CLASS)


def _of(amounts: dict[str, int]) -> Resources:
    """Creates Resources without a copy. The amounts must not be 0 or shared. Called very often."""
    found = Resources.__new__(Resources)
    found._amounts = amounts  # noqa: SLF001 - a second constructor
    found._hash = None  # noqa: SLF001
    return found


class Limit:
    """An upper bound per resource name; absent = unlimited, 0 = forbidden. Immutable."""

    __slots__ = ("_bounds",)

    def __init__(self, bounds: Mapping[str, int] | None = None) -> None:
        self._bounds = dict(bounds) if bounds else {}

    def get(self, name: str) -> int | None:
        """Returns the bound of the resource, or None."""
        return self._bounds.get(name)

    def items(self) -> Iterator[tuple[str, int]]:
        """(name, bound) of every resource with a bound."""
        return iter(self._bounds.items())

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limit) and self._bounds == other._bounds

    def __hash__(self) -> int:
        return hash(frozenset(self._bounds.items()))

    def room(self, used: Resources) -> Limit:
        """Returns what is left of this limit after `used`. May be negative. Called very often."""
        if not used or not self._bounds:
            return self
        left = Limit(self._bounds)
        bounds = left._bounds
        for name, amount in used.items():
            if name in bounds:
                bounds[name] -= amount
        return left

    def narrowed(self, other: Limit) -> Limit:
        """Returns the minimum of both limits by resource."""
        bounds = dict(self._bounds)
        for name, bound in other._bounds.items():
            bounds[name] = min(bound, bounds.get(name, bound))
        return Limit(bounds)

    def limited(self, amount: Resources) -> Resources:
        """Returns the part of `amount` that this limit is about."""
        return _of({name: amount[name] for name in self._bounds if amount[name]})

    def allows(self, amount: Resources) -> bool:
        """Whether the amount is within this limit."""
        return not self.excess(amount)

    def excess(self, amount: Resources) -> Resources:
        """Returns the part of `amount` above this limit by resource; empty = it is within the limit.

        A resource that `amount` does not have is never in excess, even with a negative bound.
        """
        bounds, over = self._bounds, {}
        for name, wanted in amount.items() if bounds else ():
            bound = bounds.get(name)
            if bound is not None and bound < wanted:
                over[name] = wanted - bound
        return _of(over) if over else NOTHING

    def count(self, each: Resources, at_most: int) -> int:
        """Returns how many of `each` are within this limit, at most `at_most`."""
        count, bounds = at_most, self._bounds
        for name, amount in each.items() if bounds else ():
            bound = bounds.get(name)
            if bound is not None and amount > 0:
                count = min(count, bound // amount)
        return max(count, 0)

    def __repr__(self) -> str:
        inside = ", ".join(f"{n}<={b}" for n, b in sorted(self._bounds.items()))
        return f"Limit({inside})"


NOTHING: Final = Resources()
UNLIMITED: Final = Limit()
