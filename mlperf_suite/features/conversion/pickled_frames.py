"""Reads a pickled pandas DataFrame without creating, importing or calling anything that it names.

`pickle.load` executes what a file tells it to. Here Python's own reader asks `find_class` for every
name, and a name that is not in `NAMES` ends the reading. A name of the table stands for a
`PickledPart`, which keeps the arguments and the state that the file gives; nothing else can be
called. The parts know how pandas 1 to 3 and numpy 1 and 2 lay out a table, check it, and rebuild
the arrays from their bytes.

The classes of numpy and pandas stay out of it, because they trust what they unpickle. With nothing
but `numpy.dtype` and `_reconstruct`, a file can change the dtype of an array that it made, so that
any bytes count as the address of an object; `_unpickle_block` accepts a place outside the table.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import mmap

    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]

_PLAIN_DTYPE = re.compile(r"(b1|[iu][1248]|f[248]|[US][1-9]\d{0,5})\Z")
_MAX_LINE_LENGTH = 120


class RefusedPickleError(Exception):
    """The pickle names something that no table needs, or is not a table; the message says what."""


def printable(text: object) -> str:
    """A text from a file for a message: one line, ASCII, truncated to line length."""
    line = ascii(text)
    return line if len(line) <= _MAX_LINE_LENGTH else f"{line[:_MAX_LINE_LENGTH]}…"


class PickledPart:
    """A call or an object that the file asks for: its arguments, and the state to set on it.

    It has no attribute that a file can set: BUILD finds `__setstate__` on a part, and on the class
    itself a function that lacks its first argument.
    """

    __slots__ = ("arguments", "state")
    arguments: tuple[object, ...]
    state: object

    def __new__(cls, *arguments: object) -> PickledPart:
        part = object.__new__(cls)
        part.arguments, part.state = arguments, None
        return part

    def __setstate__(self, state: object) -> None:
        if self.state is not None:
            raise RefusedPickleError("it sets the state of a part twice")
        self.state = state

    def values(self) -> Array:
        """The array that the part stands for. Raises RefusedPickleError."""
        raise RefusedPickleError(f"an array of an unknown form, {type(self).__name__}")


def _values(value: object) -> Array:
    if not isinstance(value, PickledPart):
        raise RefusedPickleError(f"an array of an unknown form, {type(value).__name__}")
    return value.values()


# What numpy writes.


class Dtype(PickledPart):
    def dtype(self) -> np.dtype[Any]:
        """Raises RefusedPickleError for a type other than objects, numbers and texts."""
        import numpy as np

        match self.arguments, self.state:
            case (str(code), *_), None:
                order = "="
            case (str(code), *_), (_, "<" | ">" | "|" | "=" as order, *_):
                pass
            case _:
                raise RefusedPickleError("a dtype of an unknown form")
        if code in ("O", "O8", "O4"):
            return np.dtype(object)
        # The regular expression allows no type of size zero, whose shape would need no bytes.
        if not _PLAIN_DTYPE.match(code):
            raise RefusedPickleError(f"an array of the type {printable(code)}, which is not read")
        return np.dtype(order + code)


class Bytes(PickledPart):
    def raw(self) -> bytes | bytearray:
        return _raw(self.arguments[0]) if self.arguments else b""


class EncodedText(PickledPart):
    """How protocol 2 writes bytes: `_codecs.encode` with a text and the name of an encoding."""

    def raw(self) -> bytes:
        match self.arguments:
            case (str(text), "latin1" | "latin-1"):
                return text.encode("latin-1")
        raise RefusedPickleError("bytes of an unknown form")


class Scalar(PickledPart):
    """A single number in a column of objects."""

    def values(self) -> Array:
        dtype, data = self.arguments
        return _array((1,), dtype, data, "C")


class ReconstructedArray(PickledPart):
    def values(self) -> Array:
        match self.state:
            case (_, tuple(shape), dtype, bool(fortran), data):
                return _array(shape, dtype, data, "F" if fortran else "C")
        raise RefusedPickleError("an array without its values")


class BufferArray(PickledPart):
    def values(self) -> Array:
        match self.arguments:
            case (data, dtype, tuple(shape), "C" | "F" as order, *_):
                return _array(shape, dtype, data, order)
        raise RefusedPickleError("an array of an unknown form")


def _raw(data: object) -> bytes | bytearray:
    if isinstance(data, (Bytes, EncodedText)):
        return data.raw()
    if isinstance(data, (bytes, bytearray)):
        return data
    raise RefusedPickleError("bytes of an unknown form")


def _array(shape: tuple[Any, ...], dtype: object, data: object, order: Any) -> Array:
    import numpy as np

    if not all(type(size) is int and size >= 0 for size in shape) or not 1 <= len(shape) <= 2:
        raise RefusedPickleError("an array that has not one or two axes")
    if not isinstance(dtype, Dtype):
        raise RefusedPickleError("a dtype of an unknown form")
    kind, count = dtype.dtype(), math.prod(shape)
    if kind.kind == "O":
        if not isinstance(data, list) or len(data) != count:
            raise RefusedPickleError("an array of objects without its objects")
        # numpy writes objects row by row, whatever their order in memory.
        return np.fromiter(data, object, count).reshape(shape)
    raw = _raw(data)
    if len(raw) != count * kind.itemsize:
        raise RefusedPickleError("an array whose bytes do not fit its shape")
    flat: Array = np.frombuffer(raw, np.uint8 if kind.kind == "b" else kind)
    if kind.kind == "b":
        # numpy writes only 0 and 1 for truth values; any other byte counts as true.
        flat = flat != 0
    return flat.reshape(shape, order=order)


# What pyarrow writes, for pandas' strings.


class ArrowType(PickledPart):
    pass


class ArrowBuffer(PickledPart):
    pass


class ArrowArray(PickledPart):
    def texts(self) -> list[str | None]:
        import pyarrow as pa

        match self.arguments:
            case (
                (
                    ArrowType(arguments=("string" | "large_string" as name,)),
                    int(length),
                    int(),
                    int(offset),
                    [_, _, _] as buffers,
                    *_,
                ),
            ) if min(length, offset) >= 0 and max(length, offset) < 2**40:
                kind = pa.large_string() if name == "large_string" else pa.string()
                content = [None if b is None else pa.py_buffer(_buffer(b)) for b in buffers]
                try:
                    array = pa.Array.from_buffers(kind, length, content, -1, offset)
                    # The file sets the lengths and offsets: nothing may be read beyond a buffer.
                    array.validate(full=True)
                except pa.ArrowException as error:
                    raise RefusedPickleError(
                        f"an array of texts that arrow refuses: {error}"
                    ) from error
                texts: list[str | None] = array.to_pylist()
                return texts
        raise RefusedPickleError("an array of texts of an unknown form")


def _buffer(buffer: object) -> bytes | bytearray:
    match buffer:
        case ArrowBuffer(arguments=(data,)):
            return _raw(data)
    raise RefusedPickleError("an array of texts of an unknown form")


class ArrowChunks(PickledPart):
    def texts(self) -> list[str | None]:
        match self.arguments:
            case (list(chunks), *_) if all(isinstance(chunk, ArrowArray) for chunk in chunks):
                return [text for chunk in chunks for text in chunk.texts()]
        raise RefusedPickleError("an array of texts of an unknown form")


# What pandas writes.


class MissingValue(PickledPart):
    """pandas.NA, which a file names and does not call."""


class Marker(PickledPart):
    """A class that another part gets as an argument, or only names."""


class StringArray(PickledPart):
    """Texts; since pandas 1.3 only an argument of `BackedArray`."""

    def values(self) -> Array:
        match self.state:
            case {"_ndarray": array}:
                return _values(array)
        return super().values()


class Categorical(PickledPart):
    """A value of a few per cell; since pandas 1.3 only an argument of `BackedArray`."""

    def values(self) -> Array:
        match self.state:
            case {"_dtype": CategoricalDtype() as dtype, "_codes": codes}:
                return dtype.values_by_code(_values(codes))
        return super().values()


class CategoricalDtype(PickledPart):
    def values_by_code(self, codes: Array) -> Array:
        """The value of each code; that of a missing value is -1."""
        import numpy as np

        match self.state:
            case {"categories": NewIndex() as index}:
                labels = [*index.values().tolist(), None]
            case _:
                raise RefusedPickleError("categories of an unknown form")
        if not _are_places(codes + 1, len(labels)):
            raise RefusedPickleError("categories of an unknown form")
        return np.fromiter((labels[code] for code in codes.tolist()), object, len(codes))


class ArrowStringArray(PickledPart):
    def values(self) -> Array:
        import numpy as np

        match self.state:
            case {"_pa_array": ArrowArray() | ArrowChunks() as array} | {
                "_data": ArrowArray() | ArrowChunks() as array
            }:
                texts = array.texts()
                return np.fromiter(texts, object, len(texts))
        raise RefusedPickleError("an array of texts of an unknown form")


class BackedArray(PickledPart):
    """An array of pandas that is kept in one of numpy: texts, or the codes of categories."""

    def values(self) -> Array:
        match self.arguments, self.state:
            case (cls, *_), (_, ReconstructedArray() as array, *_) if cls is StringArray:
                return array.values()
            case (cls, *_), (CategoricalDtype() as dtype, codes, *_) if cls is Categorical:
                return dtype.values_by_code(_values(codes))
        return super().values()


def _are_places(numbers: Array, end: int) -> bool:
    whole = numbers.ndim == 1 and numbers.dtype.kind in "iu"
    return whole and bool(((numbers >= 0) & (numbers < end)).all())


class NewIndex(PickledPart):
    def values(self) -> Array:
        match self.arguments:
            case (_, {"data": data}):
                return _values(data)
        raise RefusedPickleError("the columns have numbers, not names")


class Slice(PickledPart):
    pass


class ColumnBlock(PickledPart):
    """The values of columns of one type, and the places of these columns in the table."""


class BlockManager(PickledPart):
    def axes_and_blocks(self) -> tuple[list[object], list[tuple[object, object]]]:
        """The two axes, and the blocks as pairs of values and places."""
        match self.arguments, self.state:
            case (tuple(blocks), list(axes)), None:
                pairs = [block.arguments[:2] for block in blocks if isinstance(block, ColumnBlock)]
            # Written by pandas before 1.3.
            case _, (*_, {"0.14.1": {"axes": list(axes), "blocks": list(blocks)}}):
                pairs = [(block["values"], block["mgr_locs"]) for block in blocks]
            case _:
                raise RefusedPickleError("a table of a form that pandas 1 to 3 do not write")
        if len(axes) != 2 or len(pairs) != len(blocks) or any(len(pair) != 2 for pair in pairs):
            raise RefusedPickleError("a table of a form that pandas 1 to 3 do not write")
        return axes, [(values, places) for values, places in pairs]


class DataFrame(PickledPart):
    def columns(self, most: int) -> dict[str, Array]:
        """The values of each column, in order; at most `most` cells together."""
        match self.state:
            case {"_mgr": BlockManager() as manager} | {"_data": BlockManager() as manager}:
                axes, blocks = manager.axes_and_blocks()
            case _:
                raise RefusedPickleError("a table of a form that pandas 1 to 3 do not write")
        names = _names(_values(axes[0]))
        columns: dict[int, Array] = {}
        cells = 0
        for part, placement in blocks:
            values = _values(part)
            rows = values if values.ndim == 2 else values[None]
            cells += rows.size
            if cells > most:
                raise RefusedPickleError("it has more cells than bytes")
            places = _places(placement, len(names))
            if len(places) != len(rows) or not columns.keys().isdisjoint(places):
                raise RefusedPickleError("a block of columns that does not fit its places")
            columns.update(zip(places, rows, strict=True))
        if len(columns) != len(names) or not names:
            raise RefusedPickleError("a table with columns that have no values")
        return {name: columns[place] for place, name in enumerate(names)}


def _names(labels: Array) -> list[str]:
    names: list[str] = []
    for label in labels.tolist():
        if not isinstance(label, str):
            raise RefusedPickleError(f"a column is named {printable(label)}, which is not a text")
        if label in names:
            raise RefusedPickleError(f"two columns are named {printable(label)}")
        names.append(label)
    return names


def _places(placement: object, columns: int) -> Sequence[int]:
    """The places of a block's columns. pandas writes those at even distances as a slice, which may
    end behind the last column."""
    if isinstance(placement, Slice):
        return range(*slice(*placement.arguments).indices(columns))
    places = _values(placement)
    if not _are_places(places, columns):
        raise RefusedPickleError("a block of columns in no place of the table")
    numbers: list[int] = places.tolist()
    return numbers


# numpy 2 moved numpy.core to numpy._core; pandas 1 has a class for each index of numbers; protocol
# 2 uses Python 2's names for builtins.
NAMES: Final[Mapping[tuple[str, str], type[PickledPart]]] = {
    ("numpy", "dtype"): Dtype,
    ("numpy", "ndarray"): Marker,
    ("numpy.core.multiarray", "_reconstruct"): ReconstructedArray,
    ("numpy._core.multiarray", "_reconstruct"): ReconstructedArray,
    ("numpy.core.multiarray", "scalar"): Scalar,
    ("numpy._core.multiarray", "scalar"): Scalar,
    ("numpy.core.numeric", "_frombuffer"): BufferArray,
    ("numpy._core.numeric", "_frombuffer"): BufferArray,
    ("builtins", "slice"): Slice,
    ("__builtin__", "slice"): Slice,
    ("builtins", "bytes"): Bytes,
    ("__builtin__", "bytes"): Bytes,
    ("builtins", "bytearray"): Bytes,
    ("__builtin__", "bytearray"): Bytes,
    ("_codecs", "encode"): EncodedText,
    ("pyarrow.lib", "_restore_array"): ArrowArray,
    ("pyarrow.lib", "chunked_array"): ArrowChunks,
    ("pyarrow.lib", "py_buffer"): ArrowBuffer,
    ("pyarrow.lib", "type_for_alias"): ArrowType,
    ("pandas.core.frame", "DataFrame"): DataFrame,
    ("pandas", "DataFrame"): DataFrame,
    ("pandas.core.indexes.base", "_new_Index"): NewIndex,
    ("pandas.core.indexes.base", "Index"): Marker,
    ("pandas", "Index"): Marker,
    ("pandas.core.indexes.numeric", "Int64Index"): Marker,
    ("pandas.core.indexes.numeric", "UInt64Index"): Marker,
    ("pandas.core.indexes.numeric", "Float64Index"): Marker,
    ("pandas.core.indexes.numeric", "NumericIndex"): Marker,
    ("pandas.core.indexes.range", "RangeIndex"): Marker,
    ("pandas", "RangeIndex"): Marker,
    ("pandas.core.internals.managers", "BlockManager"): BlockManager,
    ("pandas.core.internals", "BlockManager"): BlockManager,
    ("pandas._libs.internals", "_unpickle_block"): ColumnBlock,
    ("pandas._libs.arrays", "__pyx_unpickle_NDArrayBacked"): BackedArray,
    ("pandas.core.arrays.string_", "StringArray"): StringArray,
    ("pandas.arrays", "StringArray"): StringArray,
    ("pandas.core.arrays.string_arrow", "ArrowStringArray"): ArrowStringArray,
    ("pandas.core.arrays.string_arrow", "ArrowStringArrayNumpySemantics"): ArrowStringArray,
    ("pandas.arrays", "ArrowStringArray"): ArrowStringArray,
    ("pandas.core.arrays.string_", "StringDtype"): Marker,
    ("pandas", "StringDtype"): Marker,
    ("pandas.core.arrays.categorical", "Categorical"): Categorical,
    ("pandas", "Categorical"): Categorical,
    ("pandas.core.dtypes.dtypes", "CategoricalDtype"): CategoricalDtype,
    ("pandas", "CategoricalDtype"): CategoricalDtype,
    ("pandas._libs.missing", "NA"): MissingValue,
    ("pandas", "NA"): MissingValue,
}
"""Every name that a pickle may contain, by module and name, and the part that it stands for.

The names of pandas 1.0 to 3 and numpy 1 and 2. Nothing matches by prefix: a name is listed or
refused.
"""


class _FrameUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type[PickledPart]:
        part = NAMES.get((module, name))
        if part is None:
            full = printable(f"{module}.{name}")
            raise RefusedPickleError(f"it wants {full}, which no pandas table needs")
        return part


def read_frame(file: mmap.mmap, size: int) -> dict[str, Array]:
    """The columns of the DataFrame in a pickle of `size` bytes: arrays of numbers, or of objects.

    Objects are Python's own and `PickledPart`s. Memory grows with the file; the caller limits the
    memory and the time, which a malicious file can use up. Raises RefusedPickleError; a damaged
    file raises any error.
    """
    frame = _FrameUnpickler(file).load()
    if file.read(1):
        raise ValueError("more than one value")
    if not isinstance(frame, DataFrame):
        raise RefusedPickleError(f"it holds no table but {type(frame).__name__}")
    return frame.columns(size)
