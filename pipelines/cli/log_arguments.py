"""Arguments of the verbs that read a request log: times, columns, edges, windows, cache sizes."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pipelines.declarations.typed import ColumnMap, PrefixCache

ROLES = ("arrival", "unit", "prompt_tokens", "output_tokens", "cached_prompt_tokens", "model", "adapter", "priority")
UNITS = ("s", "ms", "us", "ns", "datetime")


class Duration(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """A time with its unit, as whole nanoseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """``3 s`` as 3,000,000,000."""
        from pipelines.declarations.units import QuantityError, whole_ns

        if isinstance(value, int):
            return value
        try:
            return whole_ns(value, str(value), "positive")
        except QuantityError as error:
            self.fail(error.message + (f" ({error.hint})" if error.hint else ""), param, ctx)


class Columns(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """Where a log of no known format holds what is read: ``role=column`` pairs with commas between them."""

    name = "columns"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "ColumnMap":
        """``arrival=ts,unit=ms,prompt_tokens=in,output_tokens=out`` as a column map."""
        from pipelines.declarations.problems import did_you_mean, show
        from pipelines.declarations.typed import ColumnMap

        if isinstance(value, ColumnMap):
            return value
        named: dict[str, str] = {}
        for pair in str(value).split(","):
            role, equals, column = pair.partition("=")
            role = role.strip()
            if not equals or not column.strip():
                self.fail(f"{show(pair)} names no column; expected role=column, as in prompt_tokens=in", param, ctx)
            if role not in ROLES:
                hint = did_you_mean(role, ROLES)
                expected = f"expected {', '.join(ROLES)}"
                self.fail(f"unknown role {show(role)}; {expected}{f' ({hint})' if hint else ''}", param, ctx)
            if role in named:
                self.fail(f"{role} is given twice", param, ctx)
            named[role] = column.strip()
        self._check(named, param, ctx)
        return ColumnMap(**{role: named.get(role) for role in ROLES})  # type: ignore[arg-type]

    def _check(self, named: dict[str, str], param: click.Parameter | None, ctx: click.Context | None) -> None:
        for role in ("prompt_tokens", "output_tokens"):
            if role not in named:
                self.fail(f"{role} is missing; expected {role}=column", param, ctx)
        if ("arrival" in named) != ("unit" in named):
            self.fail("arrival and unit go together; expected both or neither, as in arrival=ts,unit=ms", param, ctx)
        if named.get("unit", "s") not in UNITS:
            self.fail(f"unknown unit of arrival; expected one of {', '.join(UNITS)}", param, ctx)
        columns = [column for role, column in named.items() if role != "unit"]
        if len(set(columns)) < len(columns):
            self.fail("one column is named for two roles; expected a column of its own for each", param, ctx)


class Edges(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """Bucket edges in tokens, ascending, with commas between them."""

    name = "edges"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """``512,2048`` as numbers."""
        if isinstance(value, tuple):
            return value
        written = [edge.strip() for edge in str(value).split(",")]
        if not all(edge.isascii() and edge.isdigit() for edge in written):
            self.fail("expected whole tokens with commas between them, as in 512,2048", param, ctx)
        edges = tuple(int(edge) for edge in written)
        if list(edges) != sorted(set(edges)) or any(not 2 <= edge < 2**31 for edge in edges):
            self.fail("expected edges of 2 tokens or more, each once, in ascending order", param, ctx)
        return edges


class Window(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """A part of a log's time: from and to, in nanoseconds since its first arrival; either may be left out."""

    name = "window"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | None, int | None]:
        """``2 h..3 h`` as whole nanoseconds."""
        if isinstance(value, tuple):
            return value
        start, dots, end = (part.strip() for part in str(value).partition(".."))
        if not dots or not (start or end):
            self.fail("expected FROM..TO, as in '2 h..3 h', '..30 min' or '2 h..'", param, ctx)
        low = None if start in ("", "0") else Duration().convert(start, param, ctx)
        high = Duration().convert(end, param, ctx) if end else None
        if low is not None and high is not None and low >= high:
            self.fail("holds nothing, since TO is not included; expected FROM before TO", param, ctx)
        return low, high


class CacheSize(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """The capacity of a prefix cache in tokens; None is without limit."""

    name = "cache"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "PrefixCache":
        """``unlimited`` or a whole number of tokens as a shared cache."""
        from pipelines.declarations.typed import PrefixCache

        if isinstance(value, PrefixCache):
            return value
        if value == "unlimited":
            return PrefixCache(None, "shared", 1)
        if not str(value).isascii() or not str(value).isdigit() or not 1 <= int(value) < 2**53:
            self.fail("expected unlimited, or a whole number of tokens, as in 2000000", param, ctx)
        return PrefixCache(int(value), "shared", 1)
