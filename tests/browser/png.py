"""Makes a browser's PNG small: its most frequent 256 colours, packed well. A page has few; letters' edges have the others."""

import zlib
from collections import Counter
from struct import pack, unpack

MAGIC = b"\x89PNG\r\n\x1a\n"

COLOURS_MAX = 256


def packed(png: bytes) -> bytes:
    """The same picture with a palette; 8 bits of red, green and blue, or with opacity, which is left out."""
    chunks = dict.fromkeys((b"IHDR", b"IDAT"), b"")
    at = len(MAGIC)
    while at < len(png):
        length, kind = unpack(">I4s", png[at : at + 8])
        chunks[kind] = chunks.get(kind, b"") + png[at + 8 : at + 8 + length]
        at += length + 12
    width, height, _, colour = unpack(">IIBB", chunks[b"IHDR"][:10])
    bytes_each = {2: 3, 6: 4}[colour]
    rows = _rows(zlib.decompress(chunks[b"IDAT"]), width * bytes_each, bytes_each)
    pixels = [[*zip(*(row[part::bytes_each] for part in range(3)), strict=True)] for row in rows]
    counts = Counter(pixel for row in pixels for pixel in row)
    palette = [colour for colour, _ in counts.most_common(COLOURS_MAX)]
    number = {colour: n for n, colour in enumerate(palette)}
    for each in counts.keys() - number.keys():
        number[each] = min(
            range(len(palette)),
            key=lambda n: sum((a - b) ** 2 for a, b in zip(palette[n], each, strict=True)),
        )
    data = b"".join(b"\0" + bytes(map(number.__getitem__, row)) for row in pixels)
    head = pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colours = bytes(part for colour in palette for part in colour)
    return MAGIC + b"".join(
        _chunk(kind, body)
        for kind, body in (
            *((b"IHDR", head), (b"PLTE", colours)),
            *((b"IDAT", zlib.compress(data, 9)), (b"IEND", b"")),
        )
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    return pack(">I", len(body)) + kind + body + pack(">I", zlib.crc32(kind + body))


def _rows(data: bytes, length: int, apart: int) -> list[bytes]:
    """The rows without their filters (PNG 1.2, 6)."""
    rows: list[bytes] = []
    above = bytes(length)
    for at in range(0, len(data), length + 1):
        row = bytearray(data[at + 1 : at + 1 + length])
        _unfilter(data[at], row, above, apart)
        above = bytes(row)
        rows.append(above)
    return rows


def _unfilter(kind: int, row: bytearray, above: bytes, apart: int) -> None:
    for n in range(len(row)) if kind else ():
        left = row[n - apart] if n >= apart else 0
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = above[n]
        elif kind == 3:
            guess = (left + above[n]) // 2
        else:
            guess = _paeth(left, above[n], above[n - apart] if n >= apart else 0)
        row[n] = (row[n] + guess) & 255


def _paeth(left: int, up: int, corner: int) -> int:
    sum_ = left + up - corner
    apart = abs(sum_ - left), abs(sum_ - up), abs(sum_ - corner)
    return (left, up, corner)[apart.index(min(apart))]
