"""One table: what was measured, ours, the floor beside it, their ratio, the target."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """`unit` is that of both figures. `most` bounds ours, `ratio_most` the ratio, where there is such a target."""

    measure: str
    unit: str
    ours: float
    beside: float | None = None
    """The bare loop, or whatever `beside_is` says."""
    beside_is: str = "bare loop"
    most: float | None = None
    ratio_most: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.ours / self.beside if self.beside else None

    @property
    def held(self) -> bool:
        over = self.most is not None and self.ours > self.most
        return not over and not (
            self.ratio_most is not None and self.ratio is not None and self.ratio > self.ratio_most
        )

    @property
    def target(self) -> str:
        targets = []
        if self.most is not None:
            targets.append(f"≤ {self.most:g} {self.unit}")
        if self.ratio_most is not None:
            targets.append(f"≤ {self.ratio_most:g} x")
        return ", ".join(targets)


HEAD = ("measure", "ours", "beside it", "", "ratio", "target", "")


def table(rows: Sequence[Row]) -> str:
    cells = [HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    right = {1, 2, 4}
    lines = [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.measure,
        f"{number(row.ours)} {row.unit}",
        "" if row.beside is None else f"{number(row.beside)} {row.unit}",
        "" if row.beside is None else row.beside_is,
        "" if row.ratio is None else f"{row.ratio:.2f}",
        row.target,
        "" if not row.target else "held" if row.held else "MISSED",
    )


def number(value: float) -> str:
    """Three digits that count."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
