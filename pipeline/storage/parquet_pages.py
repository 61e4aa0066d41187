"""Page headers of a Parquet column chunk, read without decoding a page.

The footer says how many values and bytes a column chunk holds, and every page header says it for
its page; decoders trust the page. A page of a hundred bytes can hold two thousand million
run-length encoded values, so both are compared before anything is decoded.

Source: Apache Parquet format, parquet.thrift (PageHeader), in Thrift's compact protocol.
"""

from typing import Any, BinaryIO, Final

_BYTES: Final = {  # of a decoded value, by physical type; strings are bounded by their pages
    "BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 16,
    "FIXED_LEN_BYTE_ARRAY": 16,
}  # fmt: skip
_LEVELS: Final = 4  # bytes of a definition and a repetition level
_HEADER: Final = 1 << 10  # most headers are smaller; those with long statistics are read again
_LONGEST_HEADER: Final = 1 << 20
_DEEPEST: Final = 8
# fields of PageHeader, and of the headers inside it
_TYPE, _UNCOMPRESSED, _COMPRESSED, _DATA, _DICTIONARY_HEADER, _DATA_V2 = 1, 2, 3, 5, 7, 8
_NUM_VALUES: Final = 1
_DICTIONARY_PAGE: Final = 2
_HEADER_OF: Final = {0: _DATA, _DICTIONARY_PAGE: _DICTIONARY_HEADER, 3: _DATA_V2}  # by page type


class DamagedPage(Exception):
    """Error: a column chunk differs from the footer."""


def check_chunk(handle: BinaryIO, column: Any, size: int) -> int:
    """Return the most bytes that a column chunk decodes to; raise DamagedPage if pages differ.

    `column` is the pyarrow ColumnChunkMetaData, `size` the bytes of the file.
    """
    name = column.path_in_schema
    if column.file_path:
        raise DamagedPage(f"column {name} is kept in another file")
    offsets = [column.data_page_offset]
    if column.has_dictionary_page:
        offsets.append(column.dictionary_page_offset)
    starts = [offset for offset in offsets if offset]  # without rows there is no data page
    if not starts and column.num_values == 0:
        return 0
    at = min(starts, default=0)
    stop = at + column.total_compressed_size
    if not (0 < at <= stop <= size and column.num_values >= 0):
        raise DamagedPage(f"column {name} lies outside the file")
    values = uncompressed = 0
    while at < stop:
        header, length = _page_header(handle, at, stop)
        kind, page, packed = (header.get(n, -1) for n in (_TYPE, _UNCOMPRESSED, _COMPRESSED))
        if not all(isinstance(number, int) and number >= 0 for number in (kind, page, packed)):
            raise DamagedPage(f"column {name} has a page without a type or a size")
        # A decoder reads the header that belongs to the type, so that one is counted.
        count = _count(header.get(_HEADER_OF[kind]) if kind in _HEADER_OF else None, name)
        if kind != _DICTIONARY_PAGE:
            values += count
        elif count > page:
            raise DamagedPage(f"column {name} has a dictionary of more values than bytes")
        uncompressed += page
        at += length + packed
    if at != stop or values != column.num_values or uncompressed > column.total_uncompressed_size:
        raise DamagedPage(f"pages of column {name} differ from the footer")
    return int(uncompressed + values * (_BYTES.get(column.physical_type, 16) + _LEVELS))


def _count(header: Any, name: str) -> int:
    count = header.get(_NUM_VALUES) if isinstance(header, dict) else None
    if not isinstance(count, int) or count < 0:
        raise DamagedPage(f"column {name} has a page without a count")
    return count


def _page_header(handle: BinaryIO, at: int, stop: int) -> tuple[dict[int, Any], int]:
    """Return the fields of the PageHeader at an offset, and its length."""
    length = _HEADER
    while True:
        handle.seek(at)
        buffer = handle.read(min(length, stop - at))
        try:
            return _struct(buffer, 0, 0)
        except IndexError as error:
            if length >= min(stop - at, _LONGEST_HEADER):
                raise DamagedPage("a page header does not end") from error
            length = _LONGEST_HEADER


def _struct(buffer: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct by number: whole numbers, booleans, structs; else None."""
    if depth > _DEEPEST:
        raise DamagedPage("a page header is nested too deep")
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head = buffer[at]
        at += 1
        if head == 0:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _integer(buffer, at)
        if number in fields:  # decoders differ in which of them counts
            raise DamagedPage("a page header has a field twice")
        fields[number], at = _value(buffer, at, head & 15, depth)


def _value(buffer: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """Return the value at an offset, and its end; `kind` is a type of Thrift's compact protocol.

    Doubles and texts, which no check needs, are None.
    """
    if kind in {1, 2}:  # true, false: in the type itself
        return kind == 1, at
    if kind == 3:  # byte
        return buffer[at], at + 1
    if kind in {4, 5, 6}:  # whole numbers of 16, 32 and 64 bits
        return _integer(buffer, at)
    if kind == 7:  # double
        return None, at + 8
    if kind == 8:  # text
        length, at = _varint(buffer, at)
        return None, at + length
    if kind == 12:
        return _struct(buffer, at, depth + 1)
    raise DamagedPage(f"a page header has a field of type {kind}")


def _integer(buffer: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(buffer, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(buffer: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise DamagedPage("a page header has a number that is too long")
