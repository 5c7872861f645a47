"""The wire format of protocol buffers, as far as models need it.

It is described at https://protobuf.dev/programming-guides/encoding. A message is a sequence of
fields. A field is a key, 8 * number + wire type, and a value:

    wire type 0    a varint: seven bits per byte, lowest first, the top bit set except in the last
    wire type 1    eight bytes
    wire type 2    a length and as many bytes: a string, or a message
    wire type 5    four bytes: a float
"""

import struct
from collections.abc import Iterator

_ONE_BYTE = [bytes([number]) for number in range(0x80)]


def varint(number: int) -> bytes:
    """Encode an integer.

    >>> varint(300).hex(), len(varint(-1))
    ('ac02', 10)
    """
    if 0 <= number < 0x80:  # nearly all numbers
        return _ONE_BYTE[number]
    number &= 2**64 - 1  # negative numbers are in two's complement
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def int_field(number: int, value: int) -> bytes:
    return varint(8 * number) + varint(value)


def float_field(number: int, value: float) -> bytes:
    return varint(8 * number + 5) + struct.pack("<f", value)


def bytes_field(number: int, value: bytes) -> bytes:
    return varint(8 * number + 2) + varint(len(value)) + value


def text_field(number: int, value: str) -> bytes:
    return bytes_field(number, value.encode())


def message_fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and contents of a message's strings and messages; skip its numbers."""
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        kind = key & 7
        # Numbers of fixed size.
        size = {1: 8, 5: 4}.get(kind, 0)
        if kind == 0:
            _, place = _read_varint(message, place)
        elif kind == 2:
            size, place = _read_varint(message, place)
            if size > len(message) - place:
                raise ValueError("it is truncated")
            yield key >> 3, message[place : place + size]
        elif not size:
            raise ValueError("it is not a protocol-buffer message")
        place += size


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    """Return a number and the offset after it."""
    # Fast path: a model has tens of thousands of numbers, and most have one byte.
    if place < len(message) and message[place] < 0x80:
        return message[place], place + 1
    number = shift = 0
    # A varint has at most ten bytes.
    while place < len(message) and shift < 70:
        number |= (message[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if message[place - 1] < 0x80:
            return number & (2**64 - 1), place
    raise ValueError("it is truncated")
