"""Sums of products and transforms of tiles, for convolutions on a CPU, in LLVM's own language.

Numba keeps neither a table of sums nor a tile in the processor's registers, so its compiled code calls these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

# What Numba compiles for, by which it also tells cached code apart: not always what this processor has.
_, _, FEATURES = cpu_target.target_context.codegen().magic_tuple()
STRIP, LANES = (8, 32) if "+avx512f" in FEATURES else (4, 16)
"""Pixels beside each other, and output channels, whose sums are computed at once: as many as fit into registers."""
FEWEST_LANES = 16
"""Output channels come in multiples of this."""
VECTOR = LANES // 2
"""Channels that are transformed at once."""
TILE, SPAN = 4, 6
"""Edges of a tile of results and of what they are made of, pixels."""

# Products of polynomials, from their values at 0, NEAR, -NEAR, FAR, -FAR and infinity. With 1 and 2, the usual choice,
# rounding errors are twice as large.
NEAR, FAR = 0.75, 1.5
NEAR_2, FAR_2 = NEAR**2, FAR**2
Matrix = tuple[tuple[float, ...], ...]
MAP_PARTS: Matrix = (
    (NEAR_2 * FAR_2, 0, -NEAR_2 - FAR_2, 0, 1, 0),
    (0, 0, -FAR_2, 0, 1, 0),
    (0, -FAR_2, 0, 1, 0, 0),
    (0, 0, -NEAR_2, 0, 1, 0),
    (0, -NEAR_2, 0, 1, 0, 0),
    (0, NEAR_2 * FAR_2, 0, -NEAR_2 - FAR_2, 0, 1),
)
"""(SPAN, SPAN): from a row or column of a map to what is even and what is odd about six values."""
MAP_VALUES: Matrix = (
    (1, 0, 0, 0, 0, 0),
    (0, 1, NEAR, 0, 0, 0),
    (0, 1, -NEAR, 0, 0, 0),
    (0, 0, 0, 1, FAR, 0),
    (0, 0, 0, 1, -FAR, 0),
    (0, 0, 0, 0, 0, 1),
)
"""(SPAN, SPAN): from these to the values."""
NEAR_SCALE, FAR_SCALE = 2 * NEAR_2 * (NEAR_2 - FAR_2), 2 * FAR_2 * (FAR_2 - NEAR_2)
FILTER_VALUES: Matrix = (
    (1 / (NEAR_2 * FAR_2), 0, 0),
    (1 / NEAR_SCALE, NEAR / NEAR_SCALE, NEAR_2 / NEAR_SCALE),
    (1 / NEAR_SCALE, -NEAR / NEAR_SCALE, NEAR_2 / NEAR_SCALE),
    (1 / FAR_SCALE, FAR / FAR_SCALE, FAR_2 / FAR_SCALE),
    (1 / FAR_SCALE, -FAR / FAR_SCALE, FAR_2 / FAR_SCALE),
    (0, 0, 1),
)
"""(SPAN, 3): from a row or column of a filter to six values."""
PRODUCT_PARTS: Matrix = (
    (1, 0, 0, 0, 0, 0),
    (0, 1, 1, 0, 0, 0),
    (0, 1, -1, 0, 0, 0),
    (0, 0, 0, 1, 1, 0),
    (0, 0, 0, 1, -1, 0),
    (0, 0, 0, 0, 0, 1),
)
"""(SPAN, SPAN): from six products of values to what is even and what is odd about them."""
RESULTS: Matrix = (
    (1, 1, 0, 1, 0, 0),
    (0, 0, NEAR, 0, FAR, 0),
    (0, NEAR_2, 0, FAR_2, 0, 0),
    (0, 0, NEAR**3, 0, FAR**3, 1),
)
"""(TILE, SPAN): from these to a row or column of results."""


INDEX = ir.IntType(64)
TRANSFORMED = ir.VectorType(ir.FloatType(), VECTOR)


def _data(context: Any, builder: Any, signature: Any, arguments: Any, *numbers: int) -> list[Any]:
    """Where the numbers of some arguments that are arrays lie."""
    return [context.make_array(signature.args[number])(context, builder, arguments[number]).data for number in numbers]


def _load(builder: Any, data: Any, at: Any, vector: Any) -> Any:
    loaded = builder.load(builder.bitcast(builder.gep(data, [at]), vector.as_pointer()))
    loaded.align = 4  # of a number, not of a vector
    return loaded


def _store(builder: Any, value: Any, data: Any, at: Any) -> None:
    builder.store(value, builder.bitcast(builder.gep(data, [at]), value.type.as_pointer())).align = 4


def _spread(builder: Any, number: Any, vector: Any) -> Any:
    """A vector of equal numbers."""
    nothing, places = ir.Constant(vector, ir.Undefined), ir.VectorType(ir.IntType(32), vector.count)
    single = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(single, nothing, ir.Constant(places, [0] * vector.count))


def _sum(builder: Any, shares: Sequence[float], vectors: Sequence[Any]) -> Any:
    """The sum of shares of vectors."""
    # What is taken whole comes first, so that the rest is multiplied and added in one.
    total = None
    for share, value in sorted(zip(shares, vectors, strict=True), key=lambda pair: pair[0] != 1):
        if share == -1:
            total = builder.fsub(total, value, flags=["contract"])
        elif share != 0:
            if share != 1:
                value = builder.fmul(value, ir.Constant(value.type, [share] * value.type.count), flags=["contract"])
            total = value if total is None else builder.fadd(total, value, flags=["contract"])
    return total


def _rectified(builder: Any, value: Any, factor: Any) -> Any:
    """The value, times a factor where it is below zero; factor: at most 1."""
    small = builder.fmul(value, factor)
    return builder.select(builder.fcmp_unordered("<", value, small), small, value)


def _strip_of(lanes: int) -> tuple[Any, Any]:
    """What computes sums of products for so many output channels, and what rectifies them with a bias too; in LLVM's
    own language, because Numba does not keep a table of sums in registers.
    """
    vector, index = ir.VectorType(ir.FloatType(), lanes), types.intp

    def add_up(builder: Any, source: Any, places: Sequence[Any], filters: Any, tap: Any, num_out: Any) -> list[Any]:
        place, step, rows, row_step, depth = places
        pixels = [ir.Constant(INDEX, pixel) for pixel in range(STRIP)]
        sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * lanes)) for _ in pixels]
        with cgutils.for_range(builder, rows) as row:
            begin = builder.add(place, builder.mul(row.index, row_step))
            first = builder.add(tap, builder.mul(builder.mul(row.index, depth), num_out))
            with cgutils.for_range(builder, depth) as value:
                weights = _load(builder, filters, builder.add(first, builder.mul(value.index, num_out)), vector)
                here = builder.add(begin, value.index)
                for pixel, total in zip(pixels, sums, strict=True):
                    number = builder.load(builder.gep(source, [builder.add(here, builder.mul(step, pixel))]))
                    product = builder.fmul(_spread(builder, number, vector), weights, flags=["contract"])
                    builder.store(builder.fadd(builder.load(total), product, flags=["contract"]), total)
        return [builder.load(total) for total in sums]

    def write(builder: Any, values: Sequence[Any], out: Any, to: Any, step: Any) -> None:
        for pixel, value in enumerate(values):
            _store(builder, value, out, builder.add(to, builder.mul(step, ir.Constant(INDEX, pixel))))

    @intrinsic
    def multiply_strip(typing, source, place, step, rows, row_step, depth, filters, tap, num_out, out, to, out_step):  # type: ignore[no-untyped-def]
        """Write the sums of source times filters for `lanes` channels of STRIP pixels beside each other.

        A pixel is made from `rows` rows of `depth` values each, `row_step` apart; those of the first pixel begin at
        `place`, those of the next one `step` later. The filters of the first value begin at `tap`, those of the next
        one `num_out` later. Pixels in `out` are `out_step` apart, the first of them at `to`.
        """
        signature = types.void(source, *(index,) * 5, filters, index, index, out, index, index)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source, filters, out = _data(context, builder, signature, arguments, 0, 6, 9)
            sums = add_up(builder, source, arguments[1:6], filters, *arguments[7:9])
            write(builder, sums, out, *arguments[10:])
            return context.get_dummy_value()

        return signature, generate

    @intrinsic
    def convolve_strip(
        typing, source, place, step, rows, row_step, depth, filters, tap, num_out, bias, channel, slope,
        out, to, out_step,
    ):  # type: ignore[no-untyped-def]  # fmt: skip
        """The same, with a bias, of which that of the first channel is at `channel`, and rectified."""
        signature = types.void(
            source, *(index,) * 5, filters, index, index, bias, index, types.float32, out, index, index
        )

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source, filters, bias, out = _data(context, builder, signature, arguments, 0, 6, 9, 12)
            sums = add_up(builder, source, arguments[1:6], filters, *arguments[7:9])
            start, factor = _load(builder, bias, arguments[10], vector), _spread(builder, arguments[11], vector)
            results = [_rectified(builder, builder.fadd(total, start), factor) for total in sums]
            write(builder, results, out, *arguments[13:])
            return context.get_dummy_value()

        return signature, generate

    return multiply_strip, convolve_strip


def _transform(
    builder: Any,
    matrices: Sequence[Matrix],
    source: Any,
    begin: Sequence[Any],
    out: Any,
    to: Sequence[Any],
    finish: Callable[[Any], Any] = lambda value: value,
) -> None:
    """Multiply a tile by matrices in turn, from both sides, VECTOR channels at once.

    begin: where it lies in the source, how far its rows are apart, and how far what lies in a row; to: the same in out.
    """

    def at(places: Sequence[Any], row: int, column: int) -> Any:
        first, row_step, step = places
        row_begin = builder.add(first, builder.mul(row_step, ir.Constant(INDEX, row)))
        return builder.add(row_begin, builder.mul(step, ir.Constant(INDEX, column)))

    size = range(len(matrices[0][0]))
    lines = [[_load(builder, source, at(begin, row, column), TRANSFORMED) for row in size] for column in size]
    for _ in range(2):  # columns, then rows
        for matrix in matrices:
            lines = [[_sum(builder, shares, line) for shares in matrix] for line in lines]
        lines = [list(line) for line in zip(*lines, strict=True)]
    for column, line in enumerate(lines):
        for row, value in enumerate(line):
            _store(builder, finish(value), out, at(to, row, column))


def _tile_by(*matrices: Matrix) -> Any:
    """What transforms a tile by these matrices."""

    @intrinsic
    def transform_tile(typing, source, place, row_step, step, out, to, out_row_step, out_step):  # type: ignore[no-untyped-def]
        index = types.intp
        signature = types.void(source, index, index, index, out, index, index, index)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source, out = _data(context, builder, signature, arguments, 0, 4)
            _transform(builder, matrices, source, arguments[1:4], out, arguments[5:])
            return context.get_dummy_value()

        return signature, generate

    return transform_tile


@intrinsic
def result_tile(typing, source, place, row_step, step, bias, channel, slope, out, to, out_row_step, out_step):
    """From products to results, with a bias and rectified."""
    index = types.intp
    signature = types.void(source, index, index, index, bias, index, types.float32, out, index, index, index)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, bias, out = _data(context, builder, signature, arguments, 0, 4, 7)
        start = _load(builder, bias, arguments[5], TRANSFORMED)
        factor = _spread(builder, arguments[6], TRANSFORMED)

        def finish(value: Any) -> Any:
            return _rectified(builder, builder.fadd(value, start), factor)

        _transform(builder, (PRODUCT_PARTS, RESULTS), source, arguments[1:4], out, arguments[8:], finish)
        return context.get_dummy_value()

    return signature, generate


multiply_strip, convolve_strip = _strip_of(LANES)
multiply_narrow_strip, convolve_narrow_strip = _strip_of(FEWEST_LANES)
map_tile, filter_tile = _tile_by(MAP_PARTS, MAP_VALUES), _tile_by(FILTER_VALUES)
