#!/usr/bin/env python3
"""A small reader of the NRA format, version 5, written from docs/format/nra.md and nothing else.

It is meant for comparison and for proof that the page suffices, not for speed. Section numbers in comments are those
of the page. Recovery data (19) are checked, but nothing is restored by them.

    nra5.py list FILE           one line per entry
    nra5.py cat FILE PATH       content of one file
    nra5.py check FILE          verify everything; exit status 1 if there is any problem
    nra5.py scan FILE           list entries by the block directories alone, as if the index were lost
    nra5.py json FILE           one JSON document with all entries (--scan: by the block directories)

Needs the packages zstandard, lz4 and xxhash. Without the package blake3 digests are not verified.
"""

import argparse
import collections
import hashlib
import json
import os
import struct
import sys
from dataclasses import dataclass, field, replace

import lz4.block
import xxhash
import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

try:
    from blake3 import blake3
except ImportError:  # digests are then not verified
    blake3 = None

VERSION = 5
HEAD_LEN = 256
SLOT_OFFSETS = (64, 128)
TAIL_LEN = 64
FRAME_LEN = 64
SYNC = b"\x8aN\r\n"
SEALED_SYNC = b"\x8aS\r\n\0\0\0\0"
SEALED_LEN = 112
SEGMENT, TAG = 16384, 16
DIGEST_LEN = 24
KEY_LEN = 5  # bytes of a digest that are the key in a chunk run
MASK = (1 << 64) - 1
MAX_63 = (1 << 63) - 1

# Kinds of frames (section 6)
BLOCK, DICTIONARY, ENTRY_PAGE, EXTENT_PAGE, CHUNK_PAGE, ATTRIBUTES, COMMIT, KEYS, RECOVERY = range(1, 10)
FRAME_NAMES = {BLOCK: "block", DICTIONARY: "dictionary", ENTRY_PAGE: "entry page", EXTENT_PAGE: "extent page",
               CHUNK_PAGE: "chunk page", ATTRIBUTES: "attributes", COMMIT: "commit", KEYS: "keys",
               RECOVERY: "recovery"}
PAGE_CODECS = (0, 1)
CODECS = {BLOCK: (0, 1, 2), DICTIONARY: (0,), ENTRY_PAGE: PAGE_CODECS, EXTENT_PAGE: PAGE_CODECS,
          CHUNK_PAGE: PAGE_CODECS, ATTRIBUTES: PAGE_CODECS, COMMIT: (0,), KEYS: (0,), RECOVERY: (0,)}

# Kinds of entries (section 8.2)
FILE, DIR, SYMLINK, FIFO, CHAR_DEVICE, BLOCK_DEVICE = range(1, 7)
KIND_NAMES = {FILE: "file", DIR: "directory", SYMLINK: "symlink", FIFO: "fifo", CHAR_DEVICE: "character-device",
              BLOCK_DEVICE: "block-device"}

# Forms of content (section 8.4)
NONE, EXTENT, RAW, LIST, MAP = range(5)

# Limits (section 20)
MAX_BLOCK_RAW = 67108864
MAX_PAGE_RAW = 16777216
MAX_DIRECTORY = 67108864
MAX_DICTIONARY = 131072
MAX_COMMIT = 131072
MAX_PATH = 65535
MAX_TARGET = 65535
MAX_ATTRIBUTE_NAME = 255
MAX_ATTRIBUTE_VALUE = 1048576
MAX_OWNER_NAME = 255
MAX_LEVEL = 15
MAX_RUNS = 16
MAX_LIST_ENTRIES = 65536
MAX_LIST_EXTENTS = 1024
MAX_LIST_SEGMENTS = 4194304
MAX_MAP_CHILDREN = 4096
MAX_KEYS = 2112
MAX_KEY_SLOTS = 16
MAX_ARGON2_MEMORY = 1048576
MAX_ARGON2_WORK = 4194304
MAX_ARGON2_LANES = 16
MAX_RECOVERY = 134217728
MAX_PAD = 4095
RAW_LIMIT = {BLOCK: MAX_BLOCK_RAW, DICTIONARY: MAX_DICTIONARY, ENTRY_PAGE: MAX_PAGE_RAW, EXTENT_PAGE: MAX_PAGE_RAW,
             CHUNK_PAGE: MAX_PAGE_RAW, ATTRIBUTES: MAX_PAGE_RAW, COMMIT: MAX_COMMIT, KEYS: MAX_KEYS,
             RECOVERY: MAX_RECOVERY}


class Refused(Exception):
    """A structure is damaged or breaks a rule of the page; nothing of it may be used."""


class Unsupported(Refused):
    """The archive is fine as far as we know, but needs something that this reader doesn't do."""


def need(condition, message):
    if not condition:
        raise Refused(message)


def checksum(data, place):
    """Section 2: XXH3-64 of data with the place of the structure as the seed."""
    return xxhash.xxh3_64_intdigest(data, seed=place)


def digest_of(data):
    """Section 1: the first 24 bytes of BLAKE3. Only where the package is there."""
    return blake3(data).digest(DIGEST_LEN)


def path_key(path):
    """Section 8.1: `/` sorts in front of every other byte. NUL is not in paths, so it can stand in for it."""
    return path.replace(b"/", b"\0")


def common(a, b):
    """Number of bytes that a and b share at their beginnings."""
    return len(os.path.commonprefix([a, b]))


# --- primitive values (section 2) ------------------------------------------------------------------------------------


class Cursor:
    """Reads values from bytes, in order."""

    def __init__(self, data, what):
        self.data = data
        self.pos = 0
        self.what = what

    def take(self, length):
        end = self.pos + length
        need(end <= len(self.data), f"{self.what}: too short")
        piece = self.data[self.pos:end]
        self.pos = end
        return piece

    def rest(self):
        return self.take(len(self.data) - self.pos)

    def u8(self):
        return self.take(1)[0]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def u64(self):
        return struct.unpack("<Q", self.take(8))[0]

    def uv(self):
        value = 0
        for number in range(10):
            byte = self.u8()
            value |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                need(byte != 0 or number == 0, f"{self.what}: uv is not the shortest encoding")
                need(value <= MASK, f"{self.what}: uv is longer than 64 bits")
                return value
        raise Refused(f"{self.what}: uv is longer than 10 bytes")

    def sv(self):
        value = self.uv()
        return (value >> 1) ^ -(value & 1)

    def bytes(self, limit=None):
        """`uv` length, then that many bytes."""
        length = self.uv()
        need(limit is None or length <= limit, f"{self.what}: {length} bytes are over the limit")
        return self.take(length)

    def column(self, name):
        return Cursor(self.bytes(), f"{self.what}, {name}")

    def count(self, low, high):
        value = self.uv()
        need(low <= value <= high, f"{self.what}: count {value} is not in {low} to {high}")
        return value

    def done(self):
        need(self.pos == len(self.data), f"{self.what}: {len(self.data) - self.pos} bytes left over")


# --- the file and its fixed structures (sections 4, 5, 6, 13, 14) ----------------------------------------------------


class Source:
    """Random access to a file, or to bytes in memory."""

    def __init__(self, file):
        if isinstance(file, (bytes, bytearray)):
            self.data, self.file, self.size = bytes(file), None, len(file)
        else:
            self.data, self.file, self.size = None, file, os.path.getsize(file)
        self.keys = None  # what opens sealed frames

    def read(self, offset, length):
        need(offset + length <= self.size, f"bytes {offset} to {offset + length} are beyond the end of the file")
        if self.file is None:
            return self.data[offset:offset + length]
        with open(self.file, "rb") as file:
            file.seek(offset)
            data = file.read(length)
        need(len(data) == length, f"file is shorter than it was at {offset}")
        return data


@dataclass(frozen=True)
class Reference:
    offset: int
    length: int
    check: int

    @staticmethod
    def parse(cursor):
        """Fixed form; None if it is all zero."""
        offset, length, check = cursor.u64(), cursor.u64(), cursor.u64()
        if offset == length == check == 0:
            return None
        return Reference(offset, length, check).valid()

    def valid(self):
        need(self.offset >= HEAD_LEN and self.offset % 8 == 0 and self.offset <= MAX_63, "reference: bad offset")
        need(self.length >= FRAME_LEN and self.length % 8 == 0 and self.length <= MAX_63, "reference: bad length")
        return self


@dataclass(frozen=True)
class Head:
    required: int
    optional: int
    keys_offset: int
    keys_length: int

    @staticmethod
    def parse(source):
        need(source.size >= HEAD_LEN, "head: file is too short")
        data = source.read(0, HEAD_LEN)
        need(data[:4] == b"NRA\0", "head: not an NRA file")
        version, reserved = struct.unpack_from("<HH", data, 4)
        if version != VERSION:
            raise Unsupported(f"head: version {version}")
        required, optional, keys_offset, keys_length = struct.unpack_from("<IIQQ", data, 8)
        need(struct.unpack_from("<Q", data, 56)[0] == checksum(data[:56], 0), "head: wrong checksum")
        need(reserved == 0 and not any(data[32:56]) and not any(data[192:]), "head: reserved bytes are not zero")
        need((keys_offset, keys_length) == (0, 0) or (keys_offset == 256 and keys_length), "head: bad keys fields")
        return Head(required, optional, keys_offset, keys_length)


@dataclass(frozen=True)
class Slot:
    number: int
    end: int

    @staticmethod
    def parse(source, offset):
        """None for an empty slot."""
        data = source.read(offset, 64)
        if not any(data):
            return None
        need(data[:8] == b"NRASLOT\n", f"slot at {offset}: neither empty nor a slot")
        need(struct.unpack_from("<Q", data, 56)[0] == checksum(data[:56], offset), f"slot at {offset}: wrong checksum")
        need(not any(data[24:56]), f"slot at {offset}: reserved bytes are not zero")
        number, end = struct.unpack_from("<QQ", data, 8)
        need(number >= 1, f"slot at {offset}: number is 0")
        return Slot(number, end)


@dataclass(frozen=True)
class Tail:
    offset: int
    required: int
    commit_offset: int
    commit_length: int
    keys_offset: int
    keys_length: int
    number: int

    @staticmethod
    def parse(source, offset):
        need(offset >= HEAD_LEN, "tail: file is too short")
        data = source.read(offset, TAIL_LEN)
        need(data[:8] == b"NRATAIL\n", f"tail at {offset}: not a tail")
        version, reserved, required, *rest = struct.unpack_from("<HHIQQQQQQ", data, 8)
        need(rest.pop() == checksum(data[:56], offset), f"tail at {offset}: wrong checksum")
        if version != VERSION:
            raise Unsupported(f"tail at {offset}: version {version}")
        tail = Tail(offset, required, *rest)
        need(reserved == 0, f"tail at {offset}: reserved bytes are not zero")
        need(tail.number >= 1, f"tail at {offset}: number is 0")
        need(required & 1 or (tail.keys_offset, tail.keys_length) == (0, 0), f"tail at {offset}: bad keys fields")
        need(tail.commit_offset + tail.commit_length <= offset, f"tail at {offset}: commit is not in front of it")
        need(tail.commit_offset >= HEAD_LEN and offset % 8 == 0 and tail.commit_offset % 8 == 0,
             f"tail at {offset}: bad offset of the commit")
        return tail


@dataclass(frozen=True)
class Frame:
    """The header of a frame."""
    offset: int
    kind: int
    codec: int
    raw_len: int
    stored_len: int
    pad_len: int
    directory_len: int
    dictionary: int
    payload_checksum: int
    directory_checksum: int
    commit: int
    check: int
    sealed: object = None  # the key of a sealed frame
    salt: object = None

    @staticmethod
    def parse(source, offset):
        """A header that is valid as such: what a scan asks for."""
        data = source.read(offset, FRAME_LEN)
        what = f"frame at {offset}"
        if source.keys is not None and data[:8] == SEALED_SYNC:
            return Frame.parse_sealed(source.read(offset, SEALED_LEN), source.keys, offset)
        need(data[:4] == SYNC, f"{what}: no sync bytes")
        kind, codec, reserved, *rest = struct.unpack_from("<BBHIIIIQQQQQ", data, 4)
        frame = Frame(offset, kind, codec, *rest)
        need(frame.check == checksum(data[:56], offset), f"{what}: wrong header checksum")
        need(reserved == 0, f"{what}: reserved bytes are not zero")
        need(source.keys is None or kind in (KEYS, RECOVERY), f"{what}: plain, in an encrypted archive")
        return frame

    @staticmethod
    def parse_sealed(data, keys, offset):
        """Section 18.4."""
        what = f"frame at {offset}"
        salt = data[8:32]
        key, told = keys.frame_key(salt, offset)
        header = open_segment(key, 0, 0, data[32:], what)
        need(header[:4] == SYNC, f"{what}: no sync bytes in the sealed header")
        kind, codec, reserved, *rest = struct.unpack_from("<BBHIIIIQQQQQ", header, 4)
        frame = Frame(offset, kind, codec, *rest, sealed=key, salt=salt)
        need(frame.check == told, f"{what}: wrong check")
        need(reserved == 0, f"{what}: reserved bytes are not zero")
        need(kind not in (KEYS, RECOVERY), f"{what}: a kind that is never sealed")
        return frame

    def follow_rules(self):
        """What section 6 and the limits say of the fields, so that the content may be touched."""
        what = f"frame at {self.offset}"
        need(self.kind in FRAME_NAMES, f"{what}: unknown kind {self.kind}")
        what = f"{FRAME_NAMES[self.kind]} at {self.offset}"
        need(self.offset % 8 == 0, f"{what}: offset is not a multiple of 8")
        need(self.codec in CODECS[self.kind], f"{what}: codec {self.codec} is not allowed")
        need(self.raw_len <= RAW_LIMIT[self.kind], f"{what}: raw_len is over the limit")
        need(self.codec != 0 or self.raw_len == self.stored_len, f"{what}: raw_len and stored_len differ")
        need(self.codec == 0 or self.stored_len < self.raw_len, f"{what}: stored_len is not less than raw_len")
        need(self.codec == 0 or (self.raw_len > 0 and self.stored_len > 0), f"{what}: empty payload with a codec")
        need(self.pad_len <= MAX_PAD and (self.pad_len == 0 or self.kind == BLOCK), f"{what}: bad pad_len")
        need(self.directory_len >= 3 if self.kind == BLOCK else self.directory_len == 0, f"{what}: bad directory_len")
        need(self.directory_len <= MAX_DIRECTORY, f"{what}: directory_len is over the limit")
        need(self.directory_len > 0 or self.directory_checksum == 0, f"{what}: checksum of no directory")
        need(self.dictionary == 0 or (self.kind == BLOCK and self.codec == 1), f"{what}: must not use a dictionary")
        need(self.dictionary < self.offset and self.dictionary % 8 == 0, f"{what}: bad offset of the dictionary")
        need(self.commit >= 1, f"{what}: commit is 0")
        return self

    @property
    def start_len(self):
        return SEALED_LEN if self.sealed else FRAME_LEN

    def span(self, length):
        """Bytes in the file for a payload or directory of this length."""
        return length + TAG * -(-length // SEGMENT) if self.sealed else length

    def part(self, source, number):
        """The bytes of the payload (1) or directory (2), opened if they are sealed."""
        offset, length = {1: (self.payload_offset, self.stored_len), 2: (self.directory_offset, self.directory_len)}[number]
        data = source.read(offset, self.span(length))
        if not self.sealed:
            return data
        step, what = SEGMENT + TAG, f"frame at {self.offset}"
        return b"".join(open_segment(self.sealed, number, at // step, data[at:at + step], what)
                        for at in range(0, len(data), step))

    def extent(self, source, offset, length):
        """Bytes of the stored payload, without reading the rest of it (sections 7.1 and 18.5)."""
        if not self.sealed:
            return source.read(self.payload_offset + offset, length)
        step, first, last = SEGMENT + TAG, offset // SEGMENT, (offset + length - 1) // SEGMENT
        stop = min((last + 1) * step, self.span(self.stored_len))
        data = source.read(self.payload_offset + first * step, stop - first * step)
        what = f"frame at {self.offset}"
        plain = b"".join(open_segment(self.sealed, 1, first + at // step, data[at:at + step], what)
                         for at in range(0, len(data), step))
        return plain[offset - first * SEGMENT:][:length]

    @property
    def payload_offset(self):
        return self.offset + self.start_len + self.pad_len

    @property
    def directory_offset(self):
        return self.payload_offset + self.span(self.stored_len)

    @property
    def content_end(self):
        return self.directory_offset + self.span(self.directory_len)

    @property
    def end(self):
        return (self.content_end + 7) // 8 * 8

    @property
    def reference(self):
        return Reference(self.offset, self.end - self.offset, self.check)


def decompress(codec, data, raw_len, dictionary=None, what="payload"):
    """Sections 6 and 7: exactly raw_len bytes and nothing left over."""
    if codec == 0:
        need(len(data) == raw_len, f"{what}: wrong length")
        return data
    try:
        if codec == 1:
            need(data[:4] == b"\x28\xb5\x2f\xfd", f"{what}: not a zstd frame")
            size = zstandard.get_frame_parameters(data).content_size
            need(size in (raw_len, zstandard.CONTENTSIZE_UNKNOWN), f"{what}: wrong length in the zstd frame")
            decoder = zstandard.ZstdDecompressor(
                dict_data=dictionary and zstandard.ZstdCompressionDict(dictionary, zstandard.DICT_TYPE_FULLDICT),
                max_window_size=1 << 27)
            raw = decoder.decompress(data, max_output_size=raw_len, allow_extra_data=False)
        elif codec == 2:
            raw = lz4.block.decompress(data, uncompressed_size=raw_len)
        else:
            raise Refused(f"{what}: unknown codec {codec}")
    except (zstandard.ZstdError, lz4.block.LZ4BlockError, MemoryError) as error:
        raise Refused(f"{what}: {error}") from error
    need(len(raw) == raw_len, f"{what}: decompresses to {len(raw)} bytes instead of {raw_len}")
    return raw


@dataclass(frozen=True)
class Commit:
    frame: Frame
    archive_id: bytes
    number: int
    time: object
    entries: int
    files: int
    content_bytes: int
    piece_bytes: int
    stored_bytes: int
    blocks: int
    pieces: int
    entry_root: object
    previous: object
    attributes: object
    link_groups: int
    runs: tuple
    message: str

    @staticmethod
    def parse(frame, data):
        cursor = Cursor(data, f"commit at {frame.offset}")
        archive_id = cursor.take(16)
        number, seconds = cursor.u64(), struct.unpack("<q", cursor.take(8))[0]
        nanoseconds, flags = cursor.u32(), cursor.u32()
        need(flags in (0, 1), f"{cursor.what}: unknown flags")
        need(nanoseconds <= 999_999_999, f"{cursor.what}: bad nanoseconds")
        need(flags or (seconds == 0 and nanoseconds == 0), f"{cursor.what}: time without its flag")
        counts = [cursor.u64() for _ in range(7)]
        references = [Reference.parse(cursor) for _ in range(3)]
        need(not any(cursor.take(24)), f"{cursor.what}: reserved bytes are not zero")
        link_groups = cursor.u64()
        runs, message_len = cursor.u32(), cursor.u32()
        need(runs <= MAX_RUNS and message_len <= 65535, f"{cursor.what}: over a limit")
        run_list = tuple(Reference.parse(cursor) for _ in range(runs))
        need(None not in run_list, f"{cursor.what}: a chunk run is none")
        try:
            message = cursor.take(message_len).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused(f"{cursor.what}: message is not UTF-8") from error
        cursor.done()
        commit = Commit(frame, archive_id, number, (seconds, nanoseconds) if flags else None, *counts, *references,
                        link_groups, run_list, message)
        need(number == frame.commit, f"{cursor.what}: number differs from that of its frame")
        need((number == 1) == (commit.previous is None), f"{cursor.what}: bad reference to the commit before")
        need((commit.entries == 0) == (commit.entry_root is None), f"{cursor.what}: entries and root do not fit")
        return commit


# --- record lists (section 8) ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BlockPlace:
    """An item of a block table."""
    offset: int
    raw_len: int
    stored_len: int
    pad_len: int
    check: int


@dataclass(frozen=True)
class Extent:
    """A run of content; block None is a hole."""
    block: object
    offset: int
    length: int


@dataclass(frozen=True)
class Entry:
    path: bytes
    kind: int
    implied: bool
    mode: int
    owner: object  # (user id, group id) or None
    names: object  # (user name, group name) or None
    attributes: tuple  # of (namespace, name, value)
    time: object  # (seconds, nanoseconds) or None
    form: int = NONE
    size: int = 0
    link_group: int = 0
    target: object = None
    device: object = None
    extents: tuple = ()
    content_checksum: object = None
    extent_map: object = None
    digest: object = None

    @property
    def metadata(self):
        return (self.mode, self.owner, self.names, self.attributes, self.time)


def as_recorded(entry):
    """Section 7: what the directory of a block says of an entry of the tree."""
    return replace(entry, form=EXTENT, content_checksum=None) if entry.form == RAW else entry


def check_path(path):
    need(1 <= len(path) <= MAX_PATH, "path: bad length")
    need(b"\0" not in path, "path: has a NUL byte")
    need(all(part not in (b"", b".", b"..") for part in path.split(b"/")), f"path {path!r}: bad component")
    return path


def front_coded(shared, lengths, rest, count, limit):
    """Strings of which each begins with a part of the one before; the shared part is as long as can be."""
    before, result = b"", []
    for _ in range(count):
        keep, length = shared.uv(), lengths.uv()
        need(keep <= len(before) and keep + length <= limit, f"{shared.what}: bad length")
        text = before[:keep] + rest.take(length)
        need(keep == common(before, text), f"{shared.what}: more bytes are shared")
        result.append(text)
        before = text
    for cursor in (shared, lengths, rest):
        cursor.done()
    return result


def read_attribute_set(cursor):
    """Sections 8.3 and 12: one attribute set."""
    items = []
    for _ in range(cursor.count(1, len(cursor.data))):
        namespace = cursor.u8()
        need(namespace <= 3, f"{cursor.what}: unknown namespace {namespace}")
        name = cursor.bytes(MAX_ATTRIBUTE_NAME)
        value = cursor.bytes(MAX_ATTRIBUTE_VALUE)
        need(not items or items[-1][:2] < (namespace, name), f"{cursor.what}: attributes are not in order")
        items.append((namespace, name, value))
    return tuple(items)


def read_block_table(cursor, own=None):
    """Column 13. `own` is the frame whose directory is read: its check is zero there and is filled in here."""
    blocks, offset = [], 0
    for _ in range(cursor.count(0, len(cursor.data))):
        offset = (offset + cursor.sv()) & MASK
        raw_len, stored_len, pad_len, check = cursor.uv(), cursor.uv(), cursor.uv(), cursor.u64()
        need(HEAD_LEN <= offset <= MAX_63 and offset % 8 == 0, f"{cursor.what}: bad offset of a block")
        need(1 <= raw_len <= MAX_BLOCK_RAW and 1 <= stored_len <= raw_len, f"{cursor.what}: bad length")
        need(pad_len <= MAX_PAD, f"{cursor.what}: bad pad_len")
        if own is not None:
            need(offset <= own.offset, f"{cursor.what}: block lies behind the directory")
            if offset == own.offset:
                need(check == 0, f"{cursor.what}: check of the block itself is not zero")
                check = own.check
        blocks.append(BlockPlace(offset, raw_len, stored_len, pad_len, check))
    need(len({block.offset for block in blocks}) == len(blocks), f"{cursor.what}: a block stands twice")
    cursor.done()
    return blocks


class ExtentColumns:
    """Columns 13 to 15 of a record list, or the same parts of a leaf of an extent map."""

    def __init__(self, blocks, indexes, offsets):
        self.blocks, self.indexes, self.offsets = blocks, indexes, offsets
        self.index, self.end_before, self.index_before, self.used = 0, 0, None, 0
        self.room = MAX_LIST_SEGMENTS

    def extent(self, length):
        what = self.indexes.what
        self.index = (self.index + self.indexes.sv()) & MASK
        need(self.index < len(self.blocks) and self.index <= self.used, f"{what}: bad index")
        self.used = max(self.used, self.index + 1)
        expected = self.end_before if self.index == self.index_before else 0
        offset = (expected + self.offsets.sv()) & MASK
        block = self.blocks[self.index]
        need(offset + length <= block.raw_len, f"{what}: extent exceeds its block")
        self.index_before, self.end_before = self.index, offset + length
        return Extent(block, offset, length)

    def extent_list(self, cursor):
        """One item of column 17, with its values in columns 14 and 15."""
        items = []
        count = cursor.count(1, MAX_LIST_EXTENTS)
        self.room -= count
        need(self.room >= 0, f"{cursor.what}: too many extents and holes in all")
        for _ in range(count):
            value = cursor.uv()
            length, hole = value >> 1, value & 1
            need(length >= 1, f"{cursor.what}: length 0")
            items.append(Extent(None, 0, length) if hole else self.extent(length))
        return items

    def done(self):
        self.indexes.done()
        self.offsets.done()
        need(self.used == len(self.blocks), f"{self.indexes.what}: block table has unused blocks")


def check_neighbours(extents, what):
    for first, second in zip(extents, extents[1:]):
        one = (first.block is second.block if first.block is None or second.block is None else
               first.block.offset == second.block.offset and first.offset + first.length == second.offset)
        need(not one, f"{what}: two neighbouring extents or holes are one")


def read_record_list(cursor, own=None):
    """Section 8. `own`: the block in whose directory the list stands."""
    count = cursor.count(1, MAX_LIST_ENTRIES)
    names = ("path shared", "path rest length", "path rest", "kind", "metadata", "metadata table", "attribute table",
             "seconds", "nanoseconds", "size", "link group", "target", "device", "block table", "extent block",
             "extent offset", "content checksum", "extent lists", "extent maps", "file digest")
    columns = [cursor.column(f"column {number} ({name})") for number, name in enumerate(names)]
    paths = [check_path(path) for path in front_coded(*columns[:3], count, MAX_PATH)]

    # Attribute and metadata tables; both list no item twice, and in the order of first use.
    attribute_sets = [read_attribute_set(columns[6]) for _ in range(columns[6].count(0, len(columns[6].data)))]
    need(len(set(attribute_sets)) == len(attribute_sets), f"{columns[6].what}: a set stands twice")
    table, sets_used = [], 0
    for _ in range(columns[5].count(1, count)):
        flags, mode = columns[5].u8(), columns[5].uv()
        need(flags <= 7 and mode <= 0o7777, f"{columns[5].what}: bad flags or mode")
        owner = (columns[5].uv(), columns[5].uv()) if flags & 2 else None
        owner_names = tuple(columns[5].bytes(MAX_OWNER_NAME) for _ in range(2)) if flags & 4 else None
        number = columns[5].uv()
        need(number <= len(attribute_sets) and number <= sets_used + 1, f"{columns[5].what}: bad attribute set")
        sets_used = max(sets_used, number)
        table.append((bool(flags & 1), mode, owner, owner_names, attribute_sets[number - 1] if number else ()))
    need(sets_used == len(attribute_sets), f"{columns[6].what}: a set is not used")
    need(len(set(table)) == len(table), f"{columns[5].what}: an item stands twice")

    extents_from = ExtentColumns(read_block_table(columns[13], own), columns[14], columns[15])
    entries, seconds, used = [], 0, 0
    for path in paths:
        what = f"entry {path!r}"
        bits = columns[3].u8()
        kind, form, implied = bits & 15, bits >> 4 & 7, bool(bits & 128)
        need(kind in KIND_NAMES, f"{what}: unknown kind {kind}")
        need(form == NONE or (kind == FILE and form <= MAP), f"{what}: bad form {form}")
        need(form != RAW or own is None, f"{what}: form 2 in the directory of a block")
        need(not implied or kind == DIR, f"{what}: implied, but no directory")
        index = columns[4].uv()
        need(index < len(table) and index <= used, f"{columns[4].what}: bad index")
        used = max(used, index + 1)
        has_time, mode, owner, owner_names, attributes = table[index]
        need(not implied or (mode == 0o755 and not has_time), f"{what}: implied, but with metadata")
        time = None
        if has_time:
            seconds = (seconds + columns[7].sv()) & MASK
            nanoseconds = columns[8].uv()
            need(nanoseconds <= 999_999_999, f"{columns[8].what}: bad value")
            time = (seconds - (1 << 64) if seconds >> 63 else seconds, nanoseconds)
        more = {}
        if kind == FILE:
            more["link_group"] = columns[10].uv()
        elif kind == SYMLINK:
            target = columns[11].bytes(MAX_TARGET)
            need(len(target) >= 1 and b"\0" not in target, f"{what}: bad target")
            more["target"] = target
        elif kind in (CHAR_DEVICE, BLOCK_DEVICE):
            more["device"] = (columns[12].uv(), columns[12].uv())
        if form != NONE:
            size = more["size"] = columns[9].uv()
            need(1 <= size <= MAX_63, f"{what}: bad size")
            if form in (EXTENT, RAW):
                more["extents"] = (extents_from.extent(size),)
            if form == RAW:
                more["content_checksum"] = columns[16].u32()
            if form == LIST:
                extents = more["extents"] = tuple(extents_from.extent_list(columns[17]))
                need(sum(extent.length for extent in extents) == size, f"{what}: extents do not add up to its size")
                need(len(extents) > 1 or extents[0].block is None, f"{what}: one extent needs no list")
                check_neighbours(extents, what)
            if form == MAP:
                more["extent_map"] = Reference(columns[18].uv(), columns[18].uv(), columns[18].u64()).valid()
            if form in (LIST, MAP):
                known = columns[19].u8()
                need(known <= 1, f"{columns[19].what}: bad value")
                more["digest"] = columns[19].take(DIGEST_LEN) if known else None
        entries.append(Entry(path, kind, implied, mode, owner, owner_names, attributes, time, form, **more))
    need(used == len(table), f"{columns[5].what}: an item is not used")
    extents_from.done()
    for column in columns:
        column.done()
    return entries


# --- block directories (section 7) -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    offset: int
    length: int
    digest: bytes


@dataclass
class Directory:
    pieces: list
    records: list
    gaps: list = field(default_factory=list)  # (offset, length)


def read_directory(frame, data):
    cursor = Cursor(data, f"directory of the block at {frame.offset}")
    count = cursor.count(0, len(data) // DIGEST_LEN)
    digests = [cursor.take(DIGEST_LEN) for _ in range(count)]
    codec, raw_len = cursor.u8(), cursor.uv()
    need(codec in (0, 1) and raw_len <= MAX_DIRECTORY, f"{cursor.what}: bad codec or length of the rest")
    need(codec == 0 or len(cursor.data) - cursor.pos < raw_len, f"{cursor.what}: compressed rest that is not shorter")
    rest = Cursor(decompress(codec, cursor.rest(), raw_len, what=cursor.what), cursor.what)
    lengths = [rest.uv() for _ in range(count)]
    pieces, gaps, offset = [], [], 0
    for digest, length in zip(digests, lengths):
        gap = rest.uv()
        need(length >= 1, f"{cursor.what}: empty piece")
        if gap:
            gaps.append((offset, gap))
        pieces.append(Piece(offset + gap, length, digest))
        offset += gap + length
    need(offset == frame.raw_len, f"{cursor.what}: pieces do not add up to raw_len")
    records = read_record_list(rest, frame) if rest.pos < raw_len else []
    rest.done()
    return Directory(pieces, records, gaps)


# --- the archive -----------------------------------------------------------------------------------------------------


def check_features(required):
    """Section 21."""
    for bit in range(1, 32):
        if required >> bit & 1:
            raise Unsupported(f"required feature {bit} is not known")


def hkdf(key, salt, info, length):
    return HKDF(SHA256(), length, salt, info).derive(key)


def open_segment(key, part, number, data, what):
    """Section 18.4: the bytes and their tag."""
    need(len(data) > TAG, f"{what}: a segment without content")
    try:
        return AESGCM(key).decrypt(struct.pack("<IQ", part, number), bytes(data), None)
    except InvalidTag:
        raise Refused(f"{what}: it does not open") from None


class Keys:
    """A key frame that was unlocked (section 18.3)."""

    def __init__(self, frame, archive_key, salt, required=1):
        self.frame, self.archive_key, self.salt, self.required = frame, archive_key, salt, required

    def frame_key(self, salt, offset):
        info = b"nra5 frame" + struct.pack("<IQ", self.required, offset)
        made = hkdf(self.archive_key, salt, info, 40)
        return made[:32], struct.unpack("<Q", made[32:])[0]

    def code(self, frame, data):
        """Section 18.2: what authenticates a key frame."""
        info = b"nra5 keys" + struct.pack("<QQ", frame.offset, frame.commit) + data[:32] + data[64:]
        return hkdf(self.archive_key, b"", info, 32)

    @staticmethod
    def read(source, offset):
        frame = Frame.parse(source, offset).follow_rules()
        need(frame.kind == KEYS, f"frame at {offset}: no keys")
        data = frame.part(source, 1)
        need(checksum(data, offset) == frame.payload_checksum, f"keys at {offset}: damaged")
        need(len(data) >= 64, f"keys at {offset}: too short")
        count = struct.unpack_from("<H", data)[0]
        need(1 <= count <= MAX_KEY_SLOTS and len(data) == 64 + 128 * count and not any(data[2:8]), f"keys at {offset}: bad length")
        for number in range(count):
            archive_key = Keys.try_slot(data[64 + 128 * number:][:128])
            if archive_key is None:
                continue
            keys = Keys(frame, archive_key, data[8:32])
            need(keys.code(frame, data) == data[32:64], f"keys at {offset}: wrong code")
            return keys
        raise Unsupported("archive is encrypted, and neither NRA_ENCRYPTION_KEY nor NRA_PASSWORD opens it")

    @staticmethod
    def try_slot(slot):
        kind, memory, passes, lanes = slot[0], *struct.unpack_from("<III", slot, 4)
        need(not any(slot[1:4]) and not any(slot[112:]), "key slot: reserved bytes are not zero")
        salt, wrapped, associated = slot[16:48], slot[48:96], slot[:48] + slot[96:]
        if kind == 1:
            need(1 <= lanes <= MAX_ARGON2_LANES and passes >= 1 and 8 * lanes <= memory <= MAX_ARGON2_MEMORY
                 and memory * passes <= MAX_ARGON2_WORK, "key slot: cost is over the limit")
            password = os.environ.get("NRA_PASSWORD")
            if not password:
                return None
            secret = Argon2id(salt=salt, length=32, iterations=passes, lanes=lanes, memory_cost=memory).derive(os.fsencode(password))
        else:
            need(kind == 2 and memory == passes == lanes == 0, "key slot: unknown kind")
            secret = bytes.fromhex(os.environ.get("NRA_ENCRYPTION_KEY", ""))
            if len(secret) != 32:
                return None
        try:
            return AESGCM(hkdf(secret, salt, b"nra5 wrap", 32)).decrypt(bytes(12), wrapped, associated)
        except InvalidTag:
            return None


class Blocks:
    """Content by frames, without any index: what both ways of reading share."""

    def __init__(self, source):
        self.source = source
        self.cache = collections.OrderedDict()
        self.dictionaries = {}

    def stored(self, frame):
        """The stored payload, checked."""
        data = frame.part(self.source, 1)
        need(checksum(data, frame.offset) == frame.payload_checksum, f"frame at {frame.offset}: payload is damaged")
        return data

    def payload(self, frame):
        frame.follow_rules()
        dictionary = self.dictionary(frame.dictionary) if frame.dictionary else None
        return decompress(frame.codec, self.stored(frame), frame.raw_len, dictionary, f"frame at {frame.offset}")

    def dictionary(self, offset):
        if offset not in self.dictionaries:
            frame = Frame.parse(self.source, offset).follow_rules()
            need(frame.kind == DICTIONARY, f"frame at {offset}: not a dictionary")
            data = self.stored(frame)
            need(data[:4] == b"\x37\xa4\x30\xec", f"dictionary at {offset}: not in the zstd dictionary format")
            self.dictionaries[offset] = data
        return self.dictionaries[offset]

    def directory(self, frame):
        frame.follow_rules()
        data = frame.part(self.source, 2)
        need(checksum(data, frame.offset) == frame.directory_checksum,
             f"block at {frame.offset}: directory is damaged")
        return read_directory(frame, data)

    def frame(self, reference, kind):
        """Follow a reference (section 2)."""
        frame = Frame.parse(self.source, reference.offset).follow_rules()
        need(frame.reference == reference, f"frame at {reference.offset}: not the one referred to")
        need(frame.kind == kind, f"frame at {reference.offset}: not of kind {FRAME_NAMES[kind]}")
        need(frame.end <= self.source.size, f"frame at {reference.offset}: beyond the end of the file")
        return frame

    def block_frame(self, place):
        """The frame of an item of a block table (section 8.4)."""
        frame = Frame.parse(self.source, place.offset).follow_rules()
        need(frame.kind == BLOCK, f"frame at {place.offset}: not a block")
        told = BlockPlace(frame.offset, frame.raw_len, frame.stored_len, frame.pad_len, frame.check)
        need(told == place, f"block at {place.offset}: not the one referred to")
        return frame

    def block(self, place):
        """Raw payload of a block; the last few are kept."""
        if place in self.cache:
            self.cache.move_to_end(place)
        else:
            self.cache[place] = self.payload(self.block_frame(place))
            while len(self.cache) > 4:
                self.cache.popitem(last=False)
        return self.cache[place]

    def page(self, reference, kind):
        """(level, cursor behind the level)."""
        frame = self.frame(reference, kind)
        cursor = Cursor(self.payload(frame), f"{FRAME_NAMES[kind]} at {frame.offset}")
        level = cursor.u8()
        need(level <= MAX_LEVEL, f"{cursor.what}: bad level")
        return level, cursor

    # Content

    def extents(self, entry):
        """All extents and holes of a file."""
        if entry.form != MAP:
            return list(entry.extents)
        extents = []
        content = self.walk_extent_map(entry.extent_map, None, extents, leaves=[])
        need(content == entry.size, f"entry {entry.path!r}: extent map does not add up to its size")
        need(len(extents) > MAX_LIST_EXTENTS, f"entry {entry.path!r}: too few extents for an extent map")
        check_neighbours(extents, f"extent map at {entry.extent_map.offset}")
        return extents

    def walk_extent_map(self, reference, level, extents, leaves):
        """Section 10: appends the extents below a page and the offsets of leaves, returns the length of their content."""
        found, cursor = self.page(reference, EXTENT_PAGE)
        need(level in (None, found), f"{cursor.what}: wrong level")
        if found == 0:
            need(not leaves or leaves[-1] < reference.offset, f"{cursor.what}: not behind the leaf before it")
            leaves.append(reference.offset)
            blocks = read_block_table(cursor.column("block table"))
            columns = ExtentColumns(blocks, cursor.column("extent block"), cursor.column("extent offset"))
            items = cursor.column("extent list")
            leaf = columns.extent_list(items)
            for part in (columns, items, cursor):
                part.done()
            extents.extend(leaf)
            return sum(extent.length for extent in leaf)
        total = 0
        children = [(Reference(cursor.uv(), cursor.uv(), cursor.u64()).valid(), cursor.uv())
                    for _ in range(cursor.count(1, MAX_MAP_CHILDREN))]
        cursor.done()
        for child, told in children:
            need(self.walk_extent_map(child, found - 1, extents, leaves) == told, f"{cursor.what}: wrong content bytes")
            total += told
        return total

    def content(self, entry):
        """The content of a file, in pieces."""
        if entry.form == RAW:  # section 7.1: exactly its own bytes, trusted by their own checksum
            extent = entry.extents[0]
            frame = self.block_frame(extent.block)
            need(frame.codec == 0, f"entry {entry.path!r}: raw extent in a compressed block")
            data = frame.extent(self.source, extent.offset, extent.length)
            need(checksum(data, 0) & 0xFFFFFFFF == entry.content_checksum, f"entry {entry.path!r}: content is damaged")
            yield data
            return
        for extent in self.extents(entry):
            if extent.block is None:
                for start in range(0, extent.length, 1 << 20):
                    yield bytes(min(1 << 20, extent.length - start))
            else:
                yield self.block(extent.block)[extent.offset:extent.offset + extent.length]

    def read(self, entry):
        return b"".join(self.content(entry))


class Recovery:
    """Recovery data by the structure of the frame at `offset` (section 19): checked, not used."""

    def __init__(self, source, offset):
        self.source, self.offset = source, offset
        self.fields = self.structure(offset)
        (self.protected, self.shard_len, self.groups, self.parities, self.frame_units, percent, self.commit, number) = self.fields
        shard_len, groups = self.shard_len, self.groups
        need(self.protected % 8 == 0 and self.protected <= offset, "recovery: bad length of what is protected")
        need(256 <= shard_len <= 65536 and shard_len & (shard_len - 1) == 0, "recovery: bad length of a shard")
        self.shards = -(-self.protected // shard_len)
        need(1 <= groups <= self.shards and 1 <= self.parities <= 32768, "recovery: bad numbers of groups or parities")
        need(1 <= self.frame_units and self.frame_units * shard_len <= 64 << 20, "recovery: bad number of units")
        need(1 <= percent <= 100 and self.commit >= 1, "recovery: bad percentage or commit")
        self.count = -(-self.shards // groups)
        need(self.count <= 32768 and max(self.count, self.parities) * shard_len <= 128 << 20, "recovery: groups are too large")
        need(self.parities <= 2 * self.count + 2, "recovery: more parities than allowed")
        self.pieces = -(-8 * (self.count + self.parities) // (shard_len - 8))
        self.units = (3 * self.pieces + self.parities) * groups
        self.last = -(-self.units // self.frame_units)
        need(number <= self.last and self.place(number) == offset, "recovery: a frame that does not lie here")
        self.tail = self.place(self.last) + FRAME_LEN + 64

    def place(self, number):
        """The offset of a frame."""
        first = -(-(self.protected + FRAME_LEN + 64) // self.shard_len)
        before = number - 1 + min(number * self.frame_units, self.units)
        return (first + before) * self.shard_len if number else self.protected

    def structure(self, offset):
        data = self.source.read(offset + FRAME_LEN, 64)
        need(struct.unpack_from("<Q", data, 56)[0] == checksum(data[:56], offset + FRAME_LEN), f"recovery at {offset}: checksum")
        need(not any(data[28:32]) and not any(data[48:56]), f"recovery at {offset}: reserved bytes are not zero")
        return struct.unpack_from("<QIIIII", data) + struct.unpack_from("<QQ", data, 32)

    def problems(self):
        """All that is wrong, frame by frame and group by group."""
        places, offset, left = [], self.protected, self.units
        for number in range(self.last + 1):
            frame = Frame.parse(self.source, offset).follow_rules()
            if frame.kind != RECOVERY or frame.commit != self.commit or frame.start_len != FRAME_LEN or frame.pad_len:
                yield f"recovery at {offset}: not the frame that belongs here"
            if self.structure(offset) != self.fields[:-1] + (number,):
                yield f"recovery at {offset}: not like the others"
            payload = self.source.read(offset + FRAME_LEN, frame.stored_len)
            if checksum(payload, offset) != frame.payload_checksum:
                yield f"recovery at {offset}: wrong checksum of the payload"
            units = min(left, self.frame_units)
            first = -(-(offset + FRAME_LEN + 64) // self.shard_len) * self.shard_len if units else frame.end
            if frame.end != first + units * self.shard_len or any(payload[64:first - offset - FRAME_LEN]):
                yield f"recovery at {offset}: bad extent or padding"
            places += range(first, frame.end, self.shard_len)
            offset, left = frame.end, left - units
        if offset != self.tail or left:
            yield "recovery: the frames do not reach the tail"
            return
        half, groups, pieces = self.parities // 2, self.groups, self.pieces
        order = ([("piece", n) for n in range(pieces)] + [("parity", n) for n in range(half)]
                 + [("piece", n) for n in range(pieces, 2 * pieces)] + [("parity", n) for n in range(half, self.parities)]
                 + [("piece", n) for n in range(2 * pieces, 3 * pieces)])
        at = {(kind, number, group): places[index * groups + group]
              for index, (kind, number) in enumerate(order) for group in range(groups)}
        for group in range(groups):
            table = b""
            for number in range(3 * pieces):
                place = at["piece", number, group]
                data = self.source.read(place, self.shard_len)
                if checksum(data[:-8], place) != struct.unpack("<Q", data[-8:])[0]:
                    yield f"recovery: damaged piece at {place}"
                table += data[:-8] if number < pieces else b""
            sums = struct.unpack_from(f"<{self.count + self.parities}Q", table)
            for index in range(self.count):
                shard = index * groups + group
                start = min(shard * self.shard_len, self.protected)
                data = self.source.read(start, min(self.shard_len, self.protected - start)).ljust(self.shard_len, b"\0")
                if checksum(data, shard) != sums[index]:
                    yield f"recovery: shard {shard} is damaged"
            for number in range(self.parities):
                place = at["parity", number, group]
                if checksum(self.source.read(place, self.shard_len), place) != sums[self.count + number]:
                    yield f"recovery: damaged parity at {place}"


class Archive(Blocks):
    """An archive opened by its tail (section 15)."""

    def __init__(self, file):
        super().__init__(Source(file))
        self.notes = []
        self.recovery = None
        self.tail = self.find_tail()
        check_features(self.tail.required)
        if self.recovery:
            # They lie between the tail and its second copy.
            again, self.tail = self.tail, Tail.parse(self.source, self.recovery.protected - TAIL_LEN)
            need(replace(again, offset=self.tail.offset) == self.tail, "tail: not the one in front of the recovery data")
        self.end = self.tail.offset + TAIL_LEN
        if self.tail.required & 1:
            self.source.keys = self.unlock()
        self.commit = self.commit_before(self.tail)
        if self.recovery and self.recovery.offset != self.end:
            need(not self.is_followed(), f"tail at {self.source.size - TAIL_LEN}: a later commit than its own is in front of it")

    def is_followed(self):
        """Whether nothing but frames leads from the end of the commit to the next one."""
        offset = self.end
        try:
            while True:
                frame = Frame.parse(self.source, offset)
                if frame.kind == COMMIT:
                    commit = Commit.parse(frame, self.payload(frame))
                    return commit.number == self.commit.number + 1 and commit.previous.offset == self.tail.commit_offset
                offset = frame.end
        except Refused:
            return False

    def unlock(self):
        """Section 18.3: by the key frame that the tail names, else by the first."""
        tail = self.tail
        try:
            keys = Keys.read(self.source, tail.keys_offset)
            need(keys.frame.end == tail.commit_offset and keys.frame.commit == tail.number, "keys: not those of the commit")
            self.keys_salt = keys.salt
        except Unsupported:
            raise
        except Refused as error:
            self.notes.append(f"{error}; the first keys are used")
            keys, self.keys_salt = Keys.read(self.source, HEAD_LEN), None
        return keys

    def find_tail(self):
        source = self.source
        try:
            tail = Tail.parse(source, source.size - TAIL_LEN)
            if tail.commit_offset + tail.commit_length < tail.offset:
                self.recovery = self.recovery_before(tail)
            return tail
        except Unsupported:
            raise
        except Refused as error:
            reason = error
        head = Head.parse(source)
        check_features(head.required)
        best = None
        for offset in SLOT_OFFSETS:
            try:
                slot = Slot.parse(source, offset)
                if slot is None or (best and best.number >= slot.number):
                    continue
                need(HEAD_LEN + TAIL_LEN <= slot.end <= source.size, "slot: end is beyond the file")
                tail = Tail.parse(source, slot.end - TAIL_LEN)
                need(tail.number == slot.number, "slot: another number than its tail")
                best = tail
            except Unsupported:
                raise
            except Refused as error:
                self.notes.append(str(error))
        need(best, f"the end of the archive is lost ({reason}); its block directories may still be scanned")
        behind = source.size - best.offset - TAIL_LEN
        self.notes.append(f"{behind} bytes behind commit {best.number} are remains of an append that did not finish")
        return best

    def recovery_before(self, tail):
        """What has to lie between a tail and its commit where they are apart: told by its first frame, or by its last one."""
        first = tail.commit_offset + tail.commit_length + TAIL_LEN
        for offset in (first, tail.offset - FRAME_LEN - 64):
            try:
                need(Frame.parse(self.source, offset).kind == RECOVERY, f"frame at {offset}: no recovery data")
                found = Recovery(self.source, offset)
                need((found.protected, found.commit, found.tail) == (first, tail.number, tail.offset), "recovery: of another tail")
                return found
            except Refused as error:
                reason = error
        raise Refused(f"tail at {tail.offset}: it is that of commit {tail.number}, and what lies between is none ({reason})")

    def commit_before(self, tail):
        frame = Frame.parse(self.source, tail.commit_offset).follow_rules()
        need(frame.kind == COMMIT and frame.end == tail.offset, f"tail at {tail.offset}: no commit in front of it")
        commit = Commit.parse(frame, self.payload(frame))
        need(commit.number == tail.number, f"tail at {tail.offset}: number differs from that of the commit")
        told = getattr(self, "keys_salt", None)
        need(tail is not self.tail or told in (None, frame.salt), "keys: their salt is not that of the commit")
        return commit

    # Entry tree (section 9)

    def inner_page(self, cursor):
        """The children of an inner page: (key, reference, entries, content)."""
        count = cursor.count(1, MAX_LIST_ENTRIES)
        parts = [cursor.column(name) for name in ("keys shared", "keys rest length", "keys rest", "offsets", "lengths",
                                                  "checks", "entries", "content")]
        cursor.done()
        keys = front_coded(*parts[:3], count, MAX_PATH)
        offsets, lengths, checks, entries, content = parts[3:]
        offset, children = 0, []
        for key in keys:
            offset = (offset + offsets.sv()) & MASK
            reference = Reference(offset, lengths.uv(), checks.u64()).valid()
            children.append((key, reference, entries.uv(), content.uv()))
        for part in parts[3:]:
            part.done()
        order = [path_key(key) for key in keys]
        need(all(a < b for a, b in zip(order, order[1:])), f"{cursor.what}: keys are not in order")
        return children

    def walk(self, reference, level=None, before=None):
        """Yields all entries below a page; checks order, keys, levels and sums on the way.

        `before` is the last path in front of the page. The result of the generator is (last path, entries, content).
        """
        found, cursor = self.page(reference, ENTRY_PAGE)
        need(level in (None, found), f"{cursor.what}: wrong level")
        count = content = 0
        if found == 0:
            entries = read_record_list(cursor)
            cursor.done()
            for entry in entries:
                need(before is None or path_key(before) < path_key(entry.path), f"{cursor.what}: paths not in order")
                before = entry.path
                count += 1
                content += entry.size
                yield entry
            return before, count, content
        for key, child, told_entries, told_content in self.inner_page(cursor):
            walker = self.walk(child, found - 1, before)
            first = next(walker)
            good = key == b"" if before is None else path_key(before) < path_key(key) <= path_key(first.path)
            need(good, f"{cursor.what}: key {key!r} does not separate {before!r} and {first.path!r}")
            yield first
            before, below_entries, below_content = yield from walker
            need((below_entries, below_content) == (told_entries, told_content), f"{cursor.what}: wrong sums")
            count += below_entries
            content += below_content
        return before, count, content

    def entries(self, commit=None):
        commit = commit or self.commit
        if commit.entry_root is not None:
            yield from self.walk(commit.entry_root)

    def find(self, path):
        """The entry with this path, by going down the tree; None if there is none."""
        reference, level, wanted = self.commit.entry_root, None, path_key(path)
        low, high = b"", None
        while reference is not None:
            found, cursor = self.page(reference, ENTRY_PAGE)
            need(level in (None, found), f"{cursor.what}: wrong level")
            if found == 0:
                entries = read_record_list(cursor)
                cursor.done()
                first, last = entries[0].path, entries[-1].path
                need(path_key(low) <= path_key(first), f"{cursor.what}: it begins in front of its key")
                need(high is None or path_key(last) < path_key(high), f"{cursor.what}: it ends behind the next key")
                return next((entry for entry in entries if entry.path == path), None)
            reference = None
            children = self.inner_page(cursor)
            need(children[0][0] == low, f"{cursor.what}: its first key is not the one that led to it")
            need(high is None or path_key(children[-1][0]) < path_key(high), f"{cursor.what}: it ends behind the next key")
            for key, child, _, _ in children:
                if path_key(key) <= wanted:
                    reference, low = child, key
                else:
                    high = key
                    break
            level = found - 1
        return None

    # Chunk runs (section 11)

    def walk_run(self, reference, level=None):
        """Yields (key, offset of the block, number of the piece); the result is (first key, pieces)."""
        found, cursor = self.page(reference, CHUNK_PAGE)
        need(level in (None, found), f"{cursor.what}: wrong level")
        count, low, high = 0, 1, MAX_LIST_ENTRIES
        if found == 0:
            count = cursor.count(low, high)
            parts = [cursor.column(name) for name in ("block table", "keys", "blocks", "pieces")]
            table, keys, blocks, pieces = parts
            offsets, used = [], set()
            for _ in range(table.count(1, count)):
                step = table.uv()
                need(step >= 1, f"{table.what}: offsets are not in order")
                offsets.append(step * 8 + (offsets[-1] if offsets else 0))
            key, first = 0, None
            for _ in range(count):
                key += keys.uv()
                need(key < 1 << 8 * KEY_LEN, f"{keys.what}: key is too long")
                first = key if first is None else first
                index = blocks.uv()
                need(index < len(offsets), f"{blocks.what}: bad index")
                used.add(index)
                yield key, offsets[index], pieces.uv()
            need(len(used) == len(offsets), f"{table.what}: a block is not used")
            for part in (*parts, cursor):
                part.done()
            return first, count
        children = [(cursor.uv(), Reference(cursor.uv(), cursor.uv(), cursor.u64()).valid(), cursor.uv())
                    for _ in range(cursor.count(low, high))]
        cursor.done()
        for first, child, told in children:
            result = yield from self.walk_run(child, found - 1)
            need(result == (first, told), f"{cursor.what}: wrong first key or number of pieces")
            count += told
        return children[0][0], count

    def attributes(self, commit=None):
        commit = commit or self.commit
        if commit.attributes is None:
            return ()
        frame = self.frame(commit.attributes, ATTRIBUTES)
        cursor = Cursor(self.payload(frame), f"attributes at {frame.offset}")
        result = read_attribute_set(cursor)
        cursor.done()
        return result


# --- reading without an index (sections 7 and 22) --------------------------------------------------------------------


def without_former(records):
    """Drops the earlier of two records of which one lies below the other, which is no directory; the table is in the order of the file."""
    rank = {path: number for number, path in enumerate(records)}
    dropped = set()
    for path in records:
        for above in (path[:end] for end, byte in enumerate(path) if byte == ord("/")):
            if above in records and records[above].kind != DIR:
                dropped.add(min(above, path, key=rank.get))
    return {path: record for path, record in records.items() if path not in dropped}


class Scan(Blocks):
    """Entries by the block directories alone."""

    def __init__(self, file):
        super().__init__(Source(file))
        self.notes = []
        self.found = {}
        commits = set()
        for frame in self.frames():
            commits.add(frame.commit)
            if frame.kind != BLOCK:
                continue
            try:
                for record in self.directory(frame).records:
                    # The order of this table is that of the last records.
                    self.found.pop(record.path, None)
                    self.found[record.path] = record
            except Refused as error:
                self.notes.append(str(error))
        self.found = without_former(self.found)
        if len(commits) > 1:
            self.notes.append("there is more than one commit: some of these names may be former ones")

    def frames(self):
        """From frame to frame; where there is none, the next one is looked for."""
        source = self.source
        try:
            head = Head.parse(source)
            check_features(head.required)
            if head.required & 1 and source.keys is None:
                source.keys = Keys.read(source, HEAD_LEN)
        except Unsupported:
            raise
        except Refused as error:
            self.notes.append(str(error))
        offset = HEAD_LEN
        while offset + FRAME_LEN <= source.size:
            try:
                frame = Frame.parse(source, offset)
            except Refused:
                try:
                    offset = Tail.parse(source, offset).offset + TAIL_LEN
                    continue
                except Refused:
                    pass
                sought = self.next_sync(offset + 8)
                self.notes.append(f"bytes {offset} to {sought} are no frame")
                offset = sought
                continue
            yield frame
            if frame.end > source.size:
                self.notes.append(f"frame at {offset} is cut")
            offset = frame.end

    def next_sync(self, offset):
        """The next sync bytes at a multiple of 8, or the end of the file."""
        size, step = self.source.size, 1 << 20
        while offset < size:
            data = self.source.read(offset, min(step, size - offset))
            sync = SYNC if self.source.keys is None else SEALED_SYNC
            position = data.find(sync)
            while position >= 0 and position % 8:
                position = data.find(sync, position + 1)
            if position >= 0:
                return offset + position
            offset += step
        return size

    def entries(self):
        return sorted(self.found.values(), key=lambda entry: path_key(entry.path))

    def find(self, path):
        return self.found.get(path)


# --- verification (section 23) ---------------------------------------------------------------------------------------


class Check:
    """Verifies everything that can be; `problems` tells what is wrong."""

    def __init__(self, file):
        self.problems = []
        self.blocks = {}  # offset: (frame, directory)
        self.records = collections.defaultdict(list)  # path: [(commit of the block, entry)], in file order
        self.commits = []
        self.summary = ""
        self.archive = None
        try:
            self.archive = Archive(file)
        except Unsupported:
            raise
        except Refused as error:
            self.problems.append(str(error))
            return
        self.problems.extend(self.archive.notes)
        self.guard(self.check_head)
        self.guard(self.sweep)
        if self.archive.recovery:
            self.guard(lambda: self.problems.extend(self.archive.recovery.problems()))
        for commit in self.commits:
            self.guard(self.check_attributes, commit)
            self.guard(self.check_runs, commit)
            self.guard(self.check_tree, commit)
        commit = self.archive.commit
        if not self.commits or self.commits[-1] != commit:
            self.problems.append("the last commit was not met between head and tail")
        self.summary = (f"commit {commit.number}: {commit.entries} entries, {commit.blocks} blocks, "
                        f"{commit.pieces} pieces")

    def guard(self, step, *arguments):
        """One damaged structure must not hide what is wrong elsewhere."""
        try:
            step(*arguments)
        except Unsupported:
            raise
        except Refused as error:
            self.problems.append(str(error))

    def expect(self, condition, message):
        if not condition:
            self.problems.append(message)

    def check_head(self):
        archive = self.archive
        head = Head.parse(archive.source)
        self.expect(head.required == archive.tail.required, "head and tail differ in the required features")
        for offset in SLOT_OFFSETS:
            self.guard(self.check_slot, offset)

    def check_slot(self, offset):
        slot = Slot.parse(self.archive.source, offset)
        if slot is not None:
            need(slot.end <= self.archive.end, f"slot at {offset}: end is behind the last tail")
            tail = Tail.parse(self.archive.source, slot.end - TAIL_LEN)
            need(tail.number == slot.number, f"slot at {offset}: another number than its tail")

    def sweep(self):
        """All bytes between the head and the last tail: frames and tails, each checked for itself."""
        archive, offset = self.archive, HEAD_LEN
        totals = collections.Counter()
        rank = 0
        while offset < archive.end:
            number = len(self.commits) + 1
            if archive.source.read(offset, 8) == b"NRATAIL\n":
                tail = Tail.parse(archive.source, offset)
                commit = archive.commit_before(tail)
                self.expect(tail.required == archive.tail.required, f"tail at {offset}: other required features")
                self.expect(tail.number == number, f"tail at {offset}: number {tail.number} instead of {number}")
                self.check_commit(commit, totals)
                self.commits.append(commit)
                offset += TAIL_LEN
                rank = 0
                continue
            frame = Frame.parse(archive.source, offset)
            need(frame.end <= archive.end - TAIL_LEN, f"frame at {offset}: reaches into the last tail")
            self.expect(frame.commit == number, f"frame at {offset}: commit {frame.commit} instead of {number}")
            if frame.kind in FRAME_NAMES:
                before, rank = rank, self.guard_rank(frame, totals, rank)
                self.expect(rank >= before, f"frame at {offset}: {FRAME_NAMES[frame.kind]} out of order")
            offset = frame.end

    def guard_rank(self, frame, totals, rank):
        try:
            return self.check_frame(frame, totals)
        except Refused as error:
            self.problems.append(str(error))
            return rank

    def check_frame(self, frame, totals):
        """Everything about one frame; returns its place in the order of section 3."""
        archive = self.archive
        frame.follow_rules()
        padding = archive.source.read(frame.offset + frame.start_len, frame.pad_len)
        padding += archive.source.read(frame.content_end, frame.end - frame.content_end)
        self.expect(not any(padding), f"frame at {frame.offset}: padding is not zero")
        if frame.kind == BLOCK:
            totals.update(blocks=1, stored_bytes=frame.stored_len)
            directory = archive.directory(frame)
            totals.update(pieces=len(directory.pieces), piece_bytes=sum(piece.length for piece in directory.pieces))
            self.blocks[frame.offset] = (frame, directory)
            for record in directory.records:
                self.records[record.path].append((frame.commit, record))
        payload = archive.payload(frame)
        if frame.kind == BLOCK:
            for offset, length in directory.gaps:
                self.expect(not any(payload[offset:offset + length]), f"block at {frame.offset}: gap is not zero")
            for number, piece in enumerate(directory.pieces):
                data = payload[piece.offset:piece.offset + piece.length]
                self.expect(blake3 is None or digest_of(data) == piece.digest,
                            f"block at {frame.offset}: digest of piece {number} is wrong")
        if frame.kind == DICTIONARY:
            archive.dictionary(frame.offset)
        if frame.kind == ENTRY_PAGE:
            return 10 + (payload[0] if payload else 0)
        if frame.kind == KEYS:
            keys = archive.source.keys
            self.expect(keys is not None and keys.code(frame, payload) == payload[32:64], f"keys at {frame.offset}: wrong code")
            return 0 if frame.offset == HEAD_LEN else 30.5
        return {BLOCK: 1, DICTIONARY: 1, EXTENT_PAGE: 1, CHUNK_PAGE: 2, ATTRIBUTES: 3, RECOVERY: 30,
                COMMIT: 31}[frame.kind]

    def check_commit(self, commit, totals):
        before = self.commits[-1] if self.commits else None
        what = f"commit {commit.number}"
        if before:
            self.expect(commit.previous == before.frame.reference, f"{what}: does not refer to the commit before")
            self.expect(commit.archive_id == before.archive_id, f"{what}: another archive_id")
        for name in ("piece_bytes", "stored_bytes", "blocks", "pieces"):
            self.expect(getattr(commit, name) == totals[name],
                        f"{what}: {name} is {getattr(commit, name)} instead of {totals[name]}")

    def check_attributes(self, commit):
        self.archive.attributes(commit)

    def check_runs(self, commit):
        """Each piece of the archive up to the commit is found in at least one of its runs."""
        listed = set()
        for reference in commit.runs:
            run = list(self.archive.walk_run(reference))
            need(all(a < b for a, b in zip(run, run[1:])), f"chunk run at {reference.offset}: not in order")
            listed.update(run)
        pieces = {(int.from_bytes(piece.digest[:KEY_LEN], "big"), offset, number)
                  for offset, (frame, directory) in self.blocks.items() if frame.commit <= commit.number
                  for number, piece in enumerate(directory.pieces)}
        self.expect(listed == pieces, f"commit {commit.number}: chunk runs do not list just the pieces")

    def check_tree(self, commit):
        directories, groups = set(), {}
        entries = files = content = 0
        for entry in self.archive.entries(commit):
            entries += 1
            files += entry.kind == FILE
            content += entry.size
            parent = entry.path.rpartition(b"/")[0]
            self.expect(not parent or parent in directories, f"entry {entry.path!r}: parent is no directory")
            if entry.kind == DIR:
                directories.add(entry.path)
            self.guard(self.check_entry, entry, commit)
            if entry.link_group:
                self.expect(entry.link_group <= commit.link_groups,
                            f"entry {entry.path!r}: link group {entry.link_group} is above the greatest")
                other = groups.setdefault(entry.link_group, entry)
                same = (other.metadata, other.size, other.extents, other.extent_map) == (
                    entry.metadata, entry.size, entry.extents, entry.extent_map)
                self.expect(same, f"entry {entry.path!r}: differs from {other.path!r}, its hard link")
        for name, value in (("entries", entries), ("files", files), ("content_bytes", content)):
            self.expect(getattr(commit, name) == value,
                        f"commit {commit.number}: {name} is {getattr(commit, name)} instead of {value}")

    def check_entry(self, entry, commit):
        what = f"entry {entry.path!r}"
        known = [record for number, record in self.records[entry.path] if number <= commit.number]
        if not known:
            self.problems.append(f"{what}: not recorded in a directory")
        elif known[-1] != as_recorded(entry):
            self.problems.append(f"{what}: differs from its last record in a directory")
        if entry.form in (EXTENT, RAW):
            extent = entry.extents[0]
            need(extent.block.offset in self.blocks, f"{what}: no block at {extent.block.offset}")
            frame, directory = self.blocks[extent.block.offset]
            whole = any((piece.offset, piece.length) == (extent.offset, extent.length) for piece in directory.pieces)
            self.expect((entry.form == RAW) == (whole and frame.codec == 0), f"{what}: form does not fit its block")
        hasher, size = blake3 and blake3(), 0
        for data in self.archive.content(entry):
            size += len(data)
            if blake3:
                hasher.update(data)
        self.expect(size == entry.size, f"{what}: content has {size} bytes instead of {entry.size}")
        if blake3 and entry.digest is not None:
            self.expect(hasher.digest(DIGEST_LEN) == entry.digest, f"{what}: digest of the content is wrong")


# --- output ----------------------------------------------------------------------------------------------------------


def put(item, name, value):
    """Bytes in JSON: as a string if they are UTF-8, else as `NAME_hex`."""
    try:
        item[name] = value.decode("utf-8")
    except UnicodeDecodeError:
        item[name + "_hex"] = value.hex()


def time_text(time):
    return None if time is None else f"{time[0]}.{time[1]:09}"


def attribute_items(attributes):
    items = []
    for namespace, name, value in attributes:
        item = {"namespace": namespace}
        put(item, "name", name)
        put(item, "value", value)
        items.append(item)
    return items


def entry_item(blocks, entry):
    """One entry for JSON. Fields that an entry doesn't have are absent; an unknown time or owner is null."""
    item = {"kind": KIND_NAMES[entry.kind], "mode": f"{entry.mode:04o}", "mtime": time_text(entry.time)}
    put(item, "path", entry.path)
    item["uid"], item["gid"] = entry.owner or (None, None)
    for name, value in zip(("user", "group"), entry.names or ()):
        put(item, name, value)
    item["attributes"] = attribute_items(entry.attributes)
    if entry.kind == DIR:
        item["implied"] = entry.implied
    if entry.target is not None:
        put(item, "target", entry.target)
    if entry.device is not None:
        item["major"], item["minor"] = entry.device
    if entry.kind == FILE:
        item["size"], item["link_group"] = entry.size, entry.link_group
        sha256, digest = hashlib.sha256(), blake3 and blake3()
        try:
            for data in blocks.content(entry):
                sha256.update(data)
                if blake3:
                    digest.update(data)
            item["sha256"] = sha256.hexdigest()
            if blake3:
                item["blake3"] = digest.hexdigest()
        except Refused as error:
            item["error"] = str(error)
    return item


def document(blocks):
    """The JSON document of an archive or of a scan."""
    result = {"format": "nra", "version": VERSION, "notes": list(blocks.notes)}
    if isinstance(blocks, Archive):
        commit = blocks.commit
        result["commit"] = {
            "archive_id": commit.archive_id.hex(), "number": commit.number, "time": time_text(commit.time),
            "message": commit.message, "entries": commit.entries, "files": commit.files,
            "content_bytes": commit.content_bytes, "piece_bytes": commit.piece_bytes,
            "stored_bytes": commit.stored_bytes, "blocks": commit.blocks, "pieces": commit.pieces}
        if blake3:
            frame = commit.frame
            result["commit"]["digest"] = blake3(blocks.source.read(frame.offset, frame.end - frame.offset)).hexdigest()
        result["attributes"] = attribute_items(blocks.attributes())
    result["entries"] = [entry_item(blocks, entry) for entry in blocks.entries()]
    return result


def shown(data):
    """Bytes for a line of text; backslash, control bytes and what is not UTF-8 are escaped."""
    text = data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def print_entries(entries):
    for entry in entries:
        letter = "?-dlpcb"[entry.kind]
        arrow = " -> " + shown(entry.target) if entry.kind == SYMLINK else ""
        print(f"{letter}{entry.mode:04o}\t{entry.size}\t{time_text(entry.time) or '-'}\t{shown(entry.path)}{arrow}")


def print_notes(notes):
    for note in notes:
        print(f"nra5: {note}", file=sys.stderr)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Reads NRA archives, version 5.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("list", "cat", "check", "scan", "json"):
        command = commands.add_parser(name)
        command.add_argument("file")
        if name == "cat":
            command.add_argument("path", type=os.fsencode)
        if name == "json":
            command.add_argument("--scan", action="store_true", help="use the block directories alone")
    options = parser.parse_args(arguments)
    try:
        if options.command == "check":
            check = Check(options.file)
            for problem in check.problems:
                print(f"problem: {problem}")
            if check.problems:
                return 1
            print(f"ok: {check.summary}" + ("" if blake3 else " (digests not verified: no package blake3)"))
            return 0
        by_scan = options.command == "scan" or getattr(options, "scan", False)
        archive = Scan(options.file) if by_scan else Archive(options.file)
        print_notes(archive.notes)
        if options.command == "json":
            json.dump(document(archive), sys.stdout, indent=1, sort_keys=True)
            print()
        elif options.command == "cat":
            entry = archive.find(options.path)
            need(entry is not None, "no such entry")
            need(entry.kind == FILE, "not a file")
            for data in archive.content(entry):
                sys.stdout.buffer.write(data)
        else:
            print_entries(archive.entries())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Refused, OSError) as error:
        print(f"nra5: {error}", file=sys.stderr)
        return 2 if isinstance(error, Unsupported) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
