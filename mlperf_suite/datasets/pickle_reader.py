"""Reads a pickle as data: nothing that it names is imported, called or created.

`pickle.load` executes what a file tells it to. This reader only interprets the opcodes (described
in Python's `Lib/pickletools.py`). Instead of calling a function or creating an object, it records a
`Made`: the name, the arguments and the state. A name that is not in `NAMES` is an error, and so is
an opcode that pandas and numpy do not use. `pickled_frames.py` interprets the records.
"""

from __future__ import annotations

import mmap
import pickletools
from array import array
from collections.abc import Callable
from struct import Struct
from typing import Final, NoReturn, cast

from mlperf_suite.errors import DatasetError

Bytes = bytes | mmap.mmap

_PANDAS_NAMES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "DataFrame": (("pandas.core.frame", "DataFrame"), ("pandas", "DataFrame")),
    "Index": (("pandas.core.indexes.base", "Index"), ("pandas", "Index")),
    # pandas 1 has separate classes for an index of numbers.
    "NumericIndex": (
        ("pandas.core.indexes.numeric", "Int64Index"),
        ("pandas.core.indexes.numeric", "UInt64Index"),
        ("pandas.core.indexes.numeric", "Float64Index"),
        ("pandas.core.indexes.numeric", "NumericIndex"),
    ),
    "RangeIndex": (("pandas.core.indexes.range", "RangeIndex"), ("pandas", "RangeIndex")),
    "new_index": (("pandas.core.indexes.base", "_new_Index"),),
    "BlockManager": (
        ("pandas.core.internals.managers", "BlockManager"),
        ("pandas.core.internals", "BlockManager"),
        ("pandas.core.internals.managers", "SingleBlockManager"),
        ("pandas.core.internals", "SingleBlockManager"),
    ),
    "block": (("pandas._libs.internals", "_unpickle_block"),),
    "array_backed": (("pandas._libs.arrays", "__pyx_unpickle_NDArrayBacked"),),
    "StringArray": (
        ("pandas.core.arrays.string_", "StringArray"),
        ("pandas.arrays", "StringArray"),
    ),
    "ArrowStringArray": (
        ("pandas.core.arrays.string_arrow", "ArrowStringArray"),
        ("pandas.core.arrays.string_arrow", "ArrowStringArrayNumpySemantics"),
        ("pandas.arrays", "ArrowStringArray"),
    ),
    "StringDtype": (("pandas.core.arrays.string_", "StringDtype"), ("pandas", "StringDtype")),
    "Categorical": (
        ("pandas.core.arrays.categorical", "Categorical"),
        ("pandas", "Categorical"),
    ),
    "CategoricalDtype": (
        ("pandas.core.dtypes.dtypes", "CategoricalDtype"),
        ("pandas", "CategoricalDtype"),
    ),
    "NA": (("pandas._libs.missing", "NA"), ("pandas", "NA")),
}
_OTHER_NAMES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    # numpy 2 moved numpy.core to numpy._core.
    "ndarray": (("numpy", "ndarray"),),
    "dtype": (("numpy", "dtype"),),
    "empty_array": (
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
    ),
    "scalar": (("numpy.core.multiarray", "scalar"), ("numpy._core.multiarray", "scalar")),
    "array_of_buffer": (
        ("numpy.core.numeric", "_frombuffer"),
        ("numpy._core.numeric", "_frombuffer"),
    ),
    "arrow_array": (("pyarrow.lib", "_restore_array"),),
    "arrow_chunks": (("pyarrow.lib", "chunked_array"),),
    "arrow_buffer": (("pyarrow.lib", "py_buffer"),),
    "arrow_type": (("pyarrow.lib", "type_for_alias"),),
    # Protocol 2 uses Python 2's names for builtins.
    "slice": (("builtins", "slice"), ("__builtin__", "slice")),
    "bytes": (("builtins", "bytes"), ("__builtin__", "bytes")),
    "bytearray": (("builtins", "bytearray"), ("__builtin__", "bytearray")),
    # How protocol 2 writes bytes. Here it stands for a text and the name of an encoding.
    "encode": (("_codecs", "encode"),),
}
NAMES: Final[dict[tuple[str, str], str]] = {
    name: kind
    for table in (_PANDAS_NAMES, _OTHER_NAMES)
    for kind, names in table.items()
    for name in names
}
"""Every name that a pickle may contain, by module and name, and its kind in a `Made`.

Those of pandas 1.0 to 3 and numpy 1 and 2. Nothing matches by prefix: a name is listed or refused.
"""

_PROTOCOLS = range(2, 6)
# pandas writes lists in chunks of a thousand and no large tuples: a deeper stack means a file made
# to exhaust memory.
_MOST_ON_STACK = 4_000_000
_LONGEST_NAME_SHOWN = 120


class Name:
    """A name of `NAMES` found in the file; `kind` is its kind in that table."""

    __slots__ = ("full", "kind")

    def __init__(self, kind: str, full: str) -> None:
        self.kind = kind
        self.full = full


class Made:
    """A call or object of `name` that the file asks for, and the state to set on it."""

    __slots__ = ("arguments", "name", "state")

    def __init__(self, name: Name, arguments: tuple[object, ...]) -> None:
        self.name = name
        self.arguments = arguments
        self.state: object = None

    @property
    def kind(self) -> str:
        return self.name.kind


class Listed:
    """A list in the file. If it has only integers, they are stored as a 64-bit array, eight bytes
    each."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[object] | array[int] = []

    def extend(self, items: list[object]) -> None:
        if (not self.items or isinstance(self.items, array)) and set(map(type, items)) == {int}:
            try:
                numbers = array("q", cast("list[int]", items))
            except OverflowError:
                pass
            else:
                if isinstance(self.items, array):
                    self.items.extend(numbers)
                else:
                    self.items = numbers
                return
        if isinstance(self.items, array):
            self.items = list(self.items)
        self.items.extend(items)


class _RefusedError(Exception):
    """Why reading stops; `read_pickle` adds the file and the position."""


def shown(name: object) -> str:
    """A text from a file for a message: one line, ASCII, truncated to line length."""
    text = ascii(name)
    return text if len(text) <= _LONGEST_NAME_SHOWN else f"{text[:_LONGEST_NAME_SHOWN]}…"


def read_pickle(data: Bytes, where: str) -> object:
    """The content of the pickle in `data`: numbers, texts, bytes, tuples, dicts, `Listed`, `Made`.

    Memory grows with the file, up to about sixty times its size for a malicious file. `where`
    begins each message. Raises DatasetError for a name that is not in `NAMES`, an opcode that no
    table needs, and a damaged file.
    """
    if len(data) < 2 or data[0] != 0x80 or data[1] not in _PROTOCOLS:
        packed = ", but of gzip: unpack it first" if data[:2] == b"\x1f\x8b" else ""
        raise DatasetError(f"{where}: not a pickle of protocol 2 to 5{packed}")
    reader = _Reader(data)
    try:
        return reader.read()
    except _RefusedError as error:
        raise DatasetError(
            f"{where}: at byte {reader.began}: {error}; nothing in the file was run"
        ) from None
    # The errors of a truncated or corrupt file: too few bytes, too few values.
    except (LookupError, ValueError) as error:
        raise DatasetError(f"{where}: damaged at byte {reader.began}") from error


_UINT2, _INT4, _UINT4, _UINT8 = Struct("<H"), Struct("<i"), Struct("<I"), Struct("<Q")
_FLOAT = Struct(">d")


class _Reader:
    """The pickle virtual machine, without anything that creates or calls."""

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self.at = 0
        self.began = 0
        self.stack: list[object] = []
        self.marks: list[int] = []
        self.memo: dict[int, object] = {}

    def read(self) -> object:
        data, stack, steps = self.data, self.stack, _STEPS
        end = len(data)
        while self.at < end:
            at = self.began = self.at
            code = data[at]
            # A large file is nearly all token ids: these three opcodes are inlined to save a call
            # each.
            if code == _BININT2 and at + 3 <= end:
                stack.append(data[at + 1] | data[at + 2] << 8)
                self.at = at + 3
            elif code == _BININT1 and at + 2 <= end:
                stack.append(data[at + 1])
                self.at = at + 2
            elif code == _BININT and at + 5 <= end:
                stack.append(_INT4.unpack_from(data, at + 1)[0])
                self.at = at + 5
            elif code == _STOP:
                return self._result()
            else:
                self.at = at + 1
                step = steps.get(code)
                if step is None:
                    self._refuse_opcode(code)
                step(self)
            if len(stack) > _MOST_ON_STACK:
                raise _RefusedError(f"it stacks more than {_MOST_ON_STACK} values")
        raise LookupError("no end")

    def _result(self) -> object:
        if self.marks or len(self.stack) != 1 or self.at + 1 != len(self.data):
            raise LookupError("more or less than one value")
        return self.stack[0]

    def _refuse_opcode(self, code: int) -> NoReturn:
        opcode = next((one for one in pickletools.opcodes if one.code == chr(code)), None)
        if opcode is None:
            raise LookupError("no such opcode")
        wanted = ""
        if opcode.name in ("INST", "PERSID"):
            lines = 2 if opcode.name == "INST" else 1
            wanted = f" of {shown('.'.join(self._line() for _ in range(lines)))}"
        elif opcode.name == "BINPERSID":
            wanted = f" of {shown(self.stack[-1])}" if isinstance(self.stack[-1], str) else ""
        elif opcode.name.startswith("EXT"):
            number = int.from_bytes(self._take(int(opcode.name[3:])), "little")
            wanted = f" of extension code {number}"
        elif opcode.name in ("OBJ", "NEWOBJ_EX"):
            names = (one.full for one in reversed(self.stack) if isinstance(one, Name))
            wanted = f" of {shown(next(names, ''))}"
        raise _RefusedError(
            f"it uses the opcode {opcode.name}{wanted}, which no pandas table needs"
        )

    def _take(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        if len(taken) != count:
            raise LookupError("cut off")
        self.at += count
        return taken

    def _line(self) -> str:
        # Names are short: a longer line is truncated.
        line = self.data[self.at : self.at + 4 * _LONGEST_NAME_SHOWN].partition(b"\n")[0]
        self.at += len(line) + 1
        return line.decode("utf-8", "replace")

    def _number(self, form: Struct) -> int:
        number: int = form.unpack(self._take(form.size))[0]
        return number

    def _above_mark(self) -> list[object]:
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def _pop(self) -> object:
        if self.marks and len(self.stack) <= self.marks[-1]:
            raise LookupError("a mark where a value was expected")
        return self.stack.pop()

    def _pop_call(self) -> Made:
        arguments, function = self._pop(), self._pop()
        if not isinstance(function, Name):
            raise _RefusedError("it calls something other than a name that it loaded")
        if not isinstance(arguments, tuple):
            raise LookupError("arguments that are not a tuple")
        return Made(function, arguments)

    # One method per opcode, named as in pickletools.

    def proto(self) -> None:
        if self._take(1)[0] not in _PROTOCOLS:
            raise LookupError("unknown protocol")

    def frame(self) -> None:
        self._take(8)

    def mark(self) -> None:
        self.marks.append(len(self.stack))
        if len(self.marks) > _MOST_ON_STACK:
            raise _RefusedError(f"it stacks more than {_MOST_ON_STACK} marks")

    def long1(self) -> None:
        size = self._take(1)[0]
        self.stack.append(int.from_bytes(self._take(size), "little", signed=True))

    def binfloat(self) -> None:
        self.stack.append(_FLOAT.unpack(self._take(8))[0])

    def text(self, form: Struct | None) -> None:
        size = self._number(form) if form else self._take(1)[0]
        self.stack.append(str(self._take(size), "utf-8", "surrogatepass"))

    def raw(self, form: Struct | None) -> None:
        size = self._number(form) if form else self._take(1)[0]
        self.stack.append(self._take(size))

    def empty_list(self) -> None:
        self.stack.append(Listed())

    def append(self) -> None:
        item, target = self._pop(), self.stack[-1]
        self._extend(target, [item])

    def appends(self) -> None:
        items = self._above_mark()
        self._extend(self.stack[-1], items)

    @staticmethod
    def _extend(target: object, items: list[object]) -> None:
        if not isinstance(target, Listed):
            raise _RefusedError("it appends to something that is not a list")
        if items:
            target.extend(items)

    def setitem(self) -> None:
        value, key = self._pop(), self._pop()
        self._put([key, value])

    def setitems(self) -> None:
        self._put(self._above_mark())

    def _put(self, items: list[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise _RefusedError("it adds items to something that is not a dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):
                raise _RefusedError("it has a dictionary with a key that is not a text")
            target[key] = value

    def tuple_of(self, count: int | None) -> None:
        items = self._above_mark() if count is None else [self._pop() for _ in range(count)][::-1]
        self.stack.append(tuple(items))

    def global_(self) -> None:
        self._push_name(self._line(), self._line())

    def stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise _RefusedError(
                f"it wants a name that is made while it is read, {_described(module)} "
                f"and {_described(name)}, not written in it"
            )
        self._push_name(module, name)

    def _push_name(self, module: str, name: str) -> None:
        full = f"{module}.{name}"
        kind = NAMES.get((module, name))
        if kind is None:
            raise _RefusedError(f"it wants {shown(full)}, which no pandas table needs")
        self.stack.append(Name(kind, full))

    def call(self) -> None:
        self.stack.append(self._pop_call())

    def build(self) -> None:
        state, target = self._pop(), self.stack[-1]
        if not isinstance(target, Made) or target.state is not None:
            raise _RefusedError("it sets the state of something that has none")
        target.state = state

    def memoize(self) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def put(self, form: Struct | None) -> None:
        self.memo[self._number(form) if form else self._take(1)[0]] = self.stack[-1]

    def get(self, form: Struct | None) -> None:
        self.stack.append(self.memo[self._number(form) if form else self._take(1)[0]])


def _described(part: object) -> str:
    if isinstance(part, str):
        return shown(part)
    return f"a result of {shown(part.name.full)}" if isinstance(part, Made) else "something else"


def _code(name: str) -> int:
    return next(ord(op.code) for op in pickletools.opcodes if op.name == name)


_BININT, _BININT1, _BININT2, _STOP = map(_code, ("BININT", "BININT1", "BININT2", "STOP"))
_STEPS: Final[dict[int, Callable[[_Reader], None]]] = {
    _code(name): step
    for name, step in (
        ("PROTO", _Reader.proto),
        ("FRAME", _Reader.frame),
        ("MARK", _Reader.mark),
        ("NONE", lambda r: r.stack.append(None)),
        ("NEWTRUE", lambda r: r.stack.append(True)),
        ("NEWFALSE", lambda r: r.stack.append(False)),
        ("LONG1", _Reader.long1),
        ("BINFLOAT", _Reader.binfloat),
        ("SHORT_BINUNICODE", lambda r: r.text(None)),
        ("BINUNICODE", lambda r: r.text(_UINT4)),
        ("BINUNICODE8", lambda r: r.text(_UINT8)),
        ("SHORT_BINBYTES", lambda r: r.raw(None)),
        ("BINBYTES", lambda r: r.raw(_UINT4)),
        ("BINBYTES8", lambda r: r.raw(_UINT8)),
        ("BYTEARRAY8", lambda r: r.raw(_UINT8)),
        ("EMPTY_LIST", _Reader.empty_list),
        ("APPEND", _Reader.append),
        ("APPENDS", _Reader.appends),
        ("EMPTY_DICT", lambda r: r.stack.append({})),
        ("SETITEM", _Reader.setitem),
        ("SETITEMS", _Reader.setitems),
        ("EMPTY_TUPLE", lambda r: r.tuple_of(0)),
        ("TUPLE1", lambda r: r.tuple_of(1)),
        ("TUPLE2", lambda r: r.tuple_of(2)),
        ("TUPLE3", lambda r: r.tuple_of(3)),
        ("TUPLE", lambda r: r.tuple_of(None)),
        ("GLOBAL", _Reader.global_),
        ("STACK_GLOBAL", _Reader.stack_global),
        ("REDUCE", _Reader.call),
        ("NEWOBJ", _Reader.call),
        ("BUILD", _Reader.build),
        ("MEMOIZE", _Reader.memoize),
        ("BINPUT", lambda r: r.put(None)),
        ("LONG_BINPUT", lambda r: r.put(_UINT4)),
        ("BINGET", lambda r: r.get(None)),
        ("LONG_BINGET", lambda r: r.get(_UINT4)),
    )
}
"""Every opcode that may occur in a file, besides those that `_Reader.read` handles itself."""
