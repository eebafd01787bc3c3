#!/usr/bin/env python3
"""A small reader of the NRA format, version 5, written from docs/format/nra.md alone.

It shows that the specification suffices to write a reader, and tests compare its results with
those of nra. It is not meant to be fast. Section numbers in comments refer to the specification.
Recovery data (section 19) is checked but not used for repair.

    nra5.py list FILE           list the entries, one per line
    nra5.py cat FILE PATH       print the content of one file
    nra5.py check FILE          verify the archive; exit status 1 if there is any problem
    nra5.py scan FILE           list the entries in the block indexes, as if the index were lost
    nra5.py json FILE           print one JSON document with all entries (--scan: from a scan)

Requires the packages cryptography, zstandard, lz4 and xxhash. Without the package blake3, digests
are not verified.
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
except ImportError:  # digests are not verified
    blake3 = None

VERSION = 5
SUPERBLOCK_LEN = 256
COMMIT_SLOT_OFFSETS = (64, 128)
FOOTER_LEN = 64
FRAME_HEADER_LEN = 64
PLAIN_SYNC = b"\x8aN\r\n"
SEALED_SYNC = b"\x8aS\r\n\0\0\0\0"
SEALED_HEADER_LEN = 112
SEGMENT_LEN, TAG_LEN = 16384, 16
DIGEST_LEN = 24
KEY_LEN = 5  # bytes of a digest that form the key in a chunk run
MASK = (1 << 64) - 1
MAX_63 = (1 << 63) - 1

# Kinds of frames (section 6)
BLOCK, DICTIONARY, ENTRY_PAGE, EXTENT_PAGE, CHUNK_PAGE, ATTRIBUTES, COMMIT, KEYS, RECOVERY = range(1, 10)
FRAME_KIND_NAMES = {
    BLOCK: "block",
    DICTIONARY: "dictionary",
    ENTRY_PAGE: "entry page",
    EXTENT_PAGE: "extent page",
    CHUNK_PAGE: "chunk page",
    ATTRIBUTES: "attributes",
    COMMIT: "commit",
    KEYS: "keys",
    RECOVERY: "recovery",
}
PAGE_CODECS = (0, 1)
CODECS = {
    BLOCK: (0, 1, 2),
    DICTIONARY: (0,),
    ENTRY_PAGE: PAGE_CODECS,
    EXTENT_PAGE: PAGE_CODECS,
    CHUNK_PAGE: PAGE_CODECS,
    ATTRIBUTES: PAGE_CODECS,
    COMMIT: (0,),
    KEYS: (0,),
    RECOVERY: (0,),
}

# Kinds of entries (section 8.2)
FILE, DIR, SYMLINK, FIFO, CHAR_DEVICE, BLOCK_DEVICE = range(1, 7)
ENTRY_KIND_NAMES = {
    FILE: "file",
    DIR: "directory",
    SYMLINK: "symlink",
    FIFO: "fifo",
    CHAR_DEVICE: "character-device",
    BLOCK_DEVICE: "block-device",
}

# Forms of content (section 8.4)
NONE, EXTENT, UNCOMPRESSED, LIST, MAP = range(5)

# Limits (section 20)
MAX_BLOCK_RAW = 67108864
MAX_PAGE_RAW = 16777216
MAX_BLOCK_INDEX = 67108864
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
RAW_LIMIT = {
    BLOCK: MAX_BLOCK_RAW,
    DICTIONARY: MAX_DICTIONARY,
    ENTRY_PAGE: MAX_PAGE_RAW,
    EXTENT_PAGE: MAX_PAGE_RAW,
    CHUNK_PAGE: MAX_PAGE_RAW,
    ATTRIBUTES: MAX_PAGE_RAW,
    COMMIT: MAX_COMMIT,
    KEYS: MAX_KEYS,
    RECOVERY: MAX_RECOVERY,
}


class Rejected(Exception):
    """A structure is damaged or breaks a rule of the specification. No part of it may be used."""


class Unsupported(Rejected):
    """The archive may be valid but requires something that this reader does not support."""


def require(condition, message):
    """Rejects the current structure unless the condition holds."""
    if not condition:
        raise Rejected(message)


def checksum(data, seed):
    """Section 2: XXH3-64 of data."""
    return xxhash.xxh3_64_intdigest(data, seed=seed)


def digest_of(data):
    """Section 1: the first 24 bytes of BLAKE3. Requires the package blake3."""
    return blake3(data).digest(DIGEST_LEN)


def path_key(path):
    """Section 8.1: sort key for path order, in which `/` precedes every other byte.

    Paths contain no NUL byte, so `/` can be replaced by NUL.
    """
    return path.replace(b"/", b"\0")


def shared_len(a, b):
    """Returns the number of leading bytes that a and b share."""
    return len(os.path.commonprefix([a, b]))


# --- primitive values (section 2) -----------------------------------------------------------------


class Cursor:
    """Reads values from bytes, in order. `what` names the structure in messages."""

    def __init__(self, data, what):
        self.data = data
        self.pos = 0
        self.what = what

    def fixed(self, length):
        end = self.pos + length
        require(end <= len(self.data), f"{self.what}: too short")
        data = self.data[self.pos : end]
        self.pos = end
        return data

    def remaining(self):
        return self.fixed(len(self.data) - self.pos)

    def u8(self):
        return self.fixed(1)[0]

    def u32(self):
        return struct.unpack("<I", self.fixed(4))[0]

    def u64(self):
        return struct.unpack("<Q", self.fixed(8))[0]

    def uv(self):
        value = 0
        for number in range(10):
            byte = self.u8()
            value |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                require(byte != 0 or number == 0, f"{self.what}: uv is not in its shortest encoding")
                require(value <= MASK, f"{self.what}: uv has more than 64 bits")
                return value
        raise Rejected(f"{self.what}: uv has more than 10 bytes")

    def sv(self):
        value = self.uv()
        return (value >> 1) ^ -(value & 1)

    def bytes(self, limit=None):
        """Reads `uv` length and that many bytes."""
        length = self.uv()
        require(limit is None or length <= limit, f"{self.what}: {length} bytes exceed the limit")
        return self.fixed(length)

    def column(self, name):
        """Reads `uv` length and that many bytes, and returns a cursor over them."""
        return Cursor(self.bytes(), f"{self.what}, {name}")

    def count(self, low, high):
        value = self.uv()
        require(low <= value <= high, f"{self.what}: count {value} is not in {low} to {high}")
        return value

    def reference(self):
        """Reads the compact form of a reference."""
        return Reference(self.uv(), self.uv(), self.u64()).check_fields()

    def expect_end(self):
        surplus = len(self.data) - self.pos
        require(surplus == 0, f"{self.what}: {surplus} surplus bytes")


# --- the file and its fixed structures (sections 4, 5, 6, 13, 14) ---------------------------------


class Source:
    """Random access to a file, or to bytes in memory."""

    def __init__(self, file):
        if isinstance(file, (bytes, bytearray)):
            self.data, self.file, self.size = bytes(file), None, len(file)
        else:
            self.data, self.file, self.size = None, file, os.path.getsize(file)
        self.keys = None  # opens sealed frames

    def read(self, offset, length):
        require(offset + length <= self.size, f"bytes {offset} to {offset + length} are past the end of the file")
        if self.file is None:
            return self.data[offset : offset + length]
        with open(self.file, "rb") as file:
            file.seek(offset)
            data = file.read(length)
        require(len(data) == length, f"the file was truncated at {offset} while it was read")
        return data


@dataclass(frozen=True)
class Reference:
    offset: int
    length: int
    header_checksum: int

    @staticmethod
    def parse(cursor):
        """Reads the fixed form. Returns None for the reference none."""
        offset, length, header_checksum = cursor.u64(), cursor.u64(), cursor.u64()
        if offset == length == header_checksum == 0:
            return None
        return Reference(offset, length, header_checksum).check_fields()

    def check_fields(self):
        require(
            self.offset >= SUPERBLOCK_LEN and self.offset % 8 == 0 and self.offset <= MAX_63, "reference: bad offset"
        )
        require(
            self.length >= FRAME_HEADER_LEN and self.length % 8 == 0 and self.length <= MAX_63, "reference: bad length"
        )
        return self


@dataclass(frozen=True)
class Superblock:
    required: int
    optional: int
    key_frame_offset: int
    key_frame_length: int

    @staticmethod
    def parse(source):
        require(source.size >= SUPERBLOCK_LEN, "superblock: file is too short")
        data = source.read(0, SUPERBLOCK_LEN)
        require(data[:4] == b"NRA\0", "superblock: not an NRA file")
        version, reserved = struct.unpack_from("<HH", data, 4)
        if version != VERSION:
            raise Unsupported(f"superblock: version {version}")
        required, optional, key_frame_offset, key_frame_length = struct.unpack_from("<IIQQ", data, 8)
        require(struct.unpack_from("<Q", data, 56)[0] == checksum(data[:56], 0), "superblock: wrong checksum")
        require(
            reserved == 0 and not any(data[32:56]) and not any(data[192:]), "superblock: reserved bytes are not zero"
        )
        require(
            (key_frame_offset, key_frame_length) == (0, 0) or (key_frame_offset == 256 and key_frame_length),
            "superblock: bad reference to the first key frame",
        )
        return Superblock(required, optional, key_frame_offset, key_frame_length)


@dataclass(frozen=True)
class CommitSlot:
    number: int
    end: int

    @staticmethod
    def parse(source, offset):
        """Returns None for an empty commit slot."""
        data = source.read(offset, 64)
        if not any(data):
            return None
        require(data[:8] == b"NRASLOT\n", f"commit slot at {offset}: neither empty nor valid")
        require(
            struct.unpack_from("<Q", data, 56)[0] == checksum(data[:56], offset),
            f"commit slot at {offset}: wrong checksum",
        )
        require(not any(data[24:56]), f"commit slot at {offset}: reserved bytes are not zero")
        number, end = struct.unpack_from("<QQ", data, 8)
        require(number >= 1, f"commit slot at {offset}: number is 0")
        return CommitSlot(number, end)


@dataclass(frozen=True)
class Footer:
    offset: int
    required: int
    commit_offset: int
    commit_length: int
    key_frame_offset: int
    key_frame_length: int
    number: int

    @staticmethod
    def parse(source, offset):
        require(offset >= SUPERBLOCK_LEN, "footer: file is too short")
        data = source.read(offset, FOOTER_LEN)
        require(data[:8] == b"NRATAIL\n", f"footer at {offset}: wrong magic")
        version, reserved, required, *rest = struct.unpack_from("<HHIQQQQQQ", data, 8)
        require(rest.pop() == checksum(data[:56], offset), f"footer at {offset}: wrong checksum")
        if version != VERSION:
            raise Unsupported(f"footer at {offset}: version {version}")
        footer = Footer(offset, required, *rest)
        require(reserved == 0, f"footer at {offset}: reserved bytes are not zero")
        require(footer.number >= 1, f"footer at {offset}: number is 0")
        require(
            required & 1 or (footer.key_frame_offset, footer.key_frame_length) == (0, 0),
            f"footer at {offset}: bad reference to the key frame",
        )
        require(
            footer.commit_offset + footer.commit_length <= offset,
            f"footer at {offset}: the commit frame does not end before it",
        )
        require(
            footer.commit_offset >= SUPERBLOCK_LEN and offset % 8 == 0 and footer.commit_offset % 8 == 0,
            f"footer at {offset}: bad offset of the commit frame",
        )
        return footer


@dataclass(frozen=True)
class Frame:
    """The header of a frame."""

    offset: int
    kind: int
    codec: int
    raw_len: int
    stored_len: int
    pad_len: int
    block_index_len: int
    dictionary: int
    payload_checksum: int
    block_index_checksum: int
    commit: int
    header_checksum: int  # the frame MAC in a sealed frame
    frame_key: object = None  # None in a plain frame
    salt: object = None

    @staticmethod
    def parse(source, offset):
        """Reads a header and makes the checks that a scan needs (section 6)."""
        data = source.read(offset, FRAME_HEADER_LEN)
        what = f"frame at {offset}"
        if source.keys is not None and data[:8] == SEALED_SYNC:
            return Frame.parse_sealed(source.read(offset, SEALED_HEADER_LEN), source.keys, offset)
        require(data[:4] == PLAIN_SYNC, f"{what}: no sync bytes")
        kind, codec, reserved, *rest = struct.unpack_from("<BBHIIIIQQQQQ", data, 4)
        frame = Frame(offset, kind, codec, *rest)
        require(frame.header_checksum == checksum(data[:56], offset), f"{what}: wrong header checksum")
        require(reserved == 0, f"{what}: reserved bytes are not zero")
        require(source.keys is None or kind in (KEYS, RECOVERY), f"{what}: not sealed in an encrypted archive")
        return frame

    @staticmethod
    def parse_sealed(data, keys, offset):
        """Section 18.4: reads the start of a sealed frame."""
        what = f"frame at {offset}"
        salt = data[8:32]
        key, mac = keys.frame_key(salt, offset)
        header = open_segment(key, 0, 0, data[32:], what)
        require(header[:4] == PLAIN_SYNC, f"{what}: no sync bytes in the sealed header")
        kind, codec, reserved, *rest = struct.unpack_from("<BBHIIIIQQQQQ", header, 4)
        frame = Frame(offset, kind, codec, *rest, frame_key=key, salt=salt)
        require(frame.header_checksum == mac, f"{what}: wrong frame MAC")
        require(reserved == 0, f"{what}: reserved bytes are not zero")
        require(kind not in (KEYS, RECOVERY), f"{what}: frames of this kind are never sealed")
        return frame

    def check_fields(self):
        """Checks the fields against section 6 and the limits, before anything depends on them."""
        what = f"frame at {self.offset}"
        require(self.kind in FRAME_KIND_NAMES, f"{what}: unknown kind {self.kind}")
        what = f"{FRAME_KIND_NAMES[self.kind]} at {self.offset}"
        require(self.offset % 8 == 0, f"{what}: offset is not a multiple of 8")
        require(self.codec in CODECS[self.kind], f"{what}: codec {self.codec} is not allowed")
        require(self.raw_len <= RAW_LIMIT[self.kind], f"{what}: raw_len exceeds the limit")
        require(self.codec != 0 or self.raw_len == self.stored_len, f"{what}: raw_len and stored_len differ")
        require(self.codec == 0 or self.stored_len < self.raw_len, f"{what}: stored_len is not less than raw_len")
        require(
            self.codec == 0 or (self.raw_len > 0 and self.stored_len > 0),
            f"{what}: empty payload with codec {self.codec}",
        )
        require(self.pad_len <= MAX_PAD and (self.pad_len == 0 or self.kind == BLOCK), f"{what}: bad pad_len")
        require(
            self.block_index_len >= 3 if self.kind == BLOCK else self.block_index_len == 0,
            f"{what}: bad block_index_len",
        )
        require(self.block_index_len <= MAX_BLOCK_INDEX, f"{what}: block_index_len exceeds the limit")
        require(self.block_index_len > 0 or self.block_index_checksum == 0, f"{what}: checksum without a block index")
        require(
            self.dictionary == 0 or (self.kind == BLOCK and self.codec == 1), f"{what}: a dictionary is not allowed"
        )
        require(self.dictionary < self.offset and self.dictionary % 8 == 0, f"{what}: bad offset of the dictionary")
        require(self.commit >= 1, f"{what}: commit is 0")
        return self

    @property
    def start_len(self):
        return SEALED_HEADER_LEN if self.frame_key else FRAME_HEADER_LEN

    def span(self, length):
        """Returns the bytes in the file for a payload or block index of this length."""
        return length + TAG_LEN * -(-length // SEGMENT_LEN) if self.frame_key else length

    def part(self, source, number):
        """Returns the stored bytes of the payload (1) or block index (2), opened if sealed."""
        offset, length = {
            1: (self.payload_offset, self.stored_len),
            2: (self.block_index_offset, self.block_index_len),
        }[number]
        data = source.read(offset, self.span(length))
        if not self.frame_key:
            return data
        step, what = SEGMENT_LEN + TAG_LEN, f"frame at {self.offset}"
        return b"".join(
            open_segment(self.frame_key, number, at // step, data[at : at + step], what)
            for at in range(0, len(data), step)
        )

    def extent(self, source, offset, length):
        """Returns a part of the stored payload without reading the rest (sections 7.1, 18.5)."""
        if not self.frame_key:
            return source.read(self.payload_offset + offset, length)
        step, first, last = SEGMENT_LEN + TAG_LEN, offset // SEGMENT_LEN, (offset + length - 1) // SEGMENT_LEN
        stop = min((last + 1) * step, self.span(self.stored_len))
        data = source.read(self.payload_offset + first * step, stop - first * step)
        what = f"frame at {self.offset}"
        plain = b"".join(
            open_segment(self.frame_key, 1, first + at // step, data[at : at + step], what)
            for at in range(0, len(data), step)
        )
        return plain[offset - first * SEGMENT_LEN :][:length]

    @property
    def payload_offset(self):
        return self.offset + self.start_len + self.pad_len

    @property
    def block_index_offset(self):
        return self.payload_offset + self.span(self.stored_len)

    @property
    def content_end(self):
        return self.block_index_offset + self.span(self.block_index_len)

    @property
    def end(self):
        return (self.content_end + 7) // 8 * 8

    @property
    def reference(self):
        return Reference(self.offset, self.end - self.offset, self.header_checksum)


def decompress(codec, data, raw_len, dictionary=None, what="payload"):
    """Sections 6 and 7: exactly raw_len bytes and no surplus bytes."""
    if codec == 0:
        require(len(data) == raw_len, f"{what}: wrong length")
        return data
    try:
        if codec == 1:
            require(data[:4] == b"\x28\xb5\x2f\xfd", f"{what}: not a zstd frame")
            size = zstandard.get_frame_parameters(data).content_size
            require(size in (raw_len, zstandard.CONTENTSIZE_UNKNOWN), f"{what}: wrong length in the zstd frame")
            decoder = zstandard.ZstdDecompressor(
                dict_data=dictionary and zstandard.ZstdCompressionDict(dictionary, zstandard.DICT_TYPE_FULLDICT),
                max_window_size=1 << 27,
            )
            raw = decoder.decompress(data, max_output_size=raw_len, allow_extra_data=False)
        elif codec == 2:
            raw = lz4.block.decompress(data, uncompressed_size=raw_len)
        else:
            raise Rejected(f"{what}: unknown codec {codec}")
    except (zstandard.ZstdError, lz4.block.LZ4BlockError, MemoryError) as error:
        raise Rejected(f"{what}: {error}") from error
    require(len(raw) == raw_len, f"{what}: decompresses to {len(raw)} bytes instead of {raw_len}")
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
    chunk_bytes: int
    stored_bytes: int
    blocks: int
    chunks: int
    entry_root: object
    previous: object
    attributes: object
    link_groups: int
    runs: tuple
    message: str

    @staticmethod
    def parse(frame, data):
        cursor = Cursor(data, f"commit at {frame.offset}")
        archive_id = cursor.fixed(16)
        number, seconds = cursor.u64(), struct.unpack("<q", cursor.fixed(8))[0]
        nanoseconds, flags = cursor.u32(), cursor.u32()
        require(flags in (0, 1), f"{cursor.what}: unknown flags")
        require(nanoseconds <= 999_999_999, f"{cursor.what}: bad nanoseconds")
        require(flags or (seconds == 0 and nanoseconds == 0), f"{cursor.what}: time is set but its flag is not")
        counts = [cursor.u64() for _ in range(7)]
        references = [Reference.parse(cursor) for _ in range(3)]
        require(not any(cursor.fixed(24)), f"{cursor.what}: reserved bytes are not zero")
        link_groups = cursor.u64()
        runs, message_len = cursor.u32(), cursor.u32()
        require(runs <= MAX_RUNS and message_len <= 65535, f"{cursor.what}: a limit is exceeded")
        run_list = tuple(Reference.parse(cursor) for _ in range(runs))
        require(None not in run_list, f"{cursor.what}: reference to a chunk run is none")
        try:
            message = cursor.fixed(message_len).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Rejected(f"{cursor.what}: message is not UTF-8") from error
        cursor.expect_end()
        commit = Commit(
            frame,
            archive_id,
            number,
            (seconds, nanoseconds) if flags else None,
            *counts,
            *references,
            link_groups,
            run_list,
            message,
        )
        require(number == frame.commit, f"{cursor.what}: number differs from the field commit of its frame")
        require((number == 1) == (commit.previous is None), f"{cursor.what}: bad reference to the preceding commit")
        require(
            (commit.entries == 0) == (commit.entry_root is None),
            f"{cursor.what}: entries and entry_root contradict each other",
        )
        return commit


# --- record lists (section 8) ---------------------------------------------------------------------


@dataclass(frozen=True)
class BlockTableRow:
    """A row of a block table."""

    offset: int
    raw_len: int
    stored_len: int
    pad_len: int
    header_checksum: int


@dataclass(frozen=True)
class Extent:
    """An extent or, if block is None, a hole."""

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


def record_of(entry):
    """Section 7: the record in a block index for an entry of the tree."""
    return replace(entry, form=EXTENT, content_checksum=None) if entry.form == UNCOMPRESSED else entry


def check_path(path):
    require(1 <= len(path) <= MAX_PATH, "path: bad length")
    require(b"\0" not in path, "path: contains a NUL byte")
    require(all(part not in (b"", b".", b"..") for part in path.split(b"/")), f"path {path!r}: bad component")
    return path


def front_coded(shared, lengths, rest, count, limit):
    """Section 8: reads front coded strings, which must share as many bytes as possible."""
    previous, result = b"", []
    for _ in range(count):
        keep, length = shared.uv(), lengths.uv()
        require(keep <= len(previous) and keep + length <= limit, f"{shared.what}: bad length")
        text = previous[:keep] + rest.fixed(length)
        require(keep == shared_len(previous, text), f"{shared.what}: more bytes are shared")
        result.append(text)
        previous = text
    for cursor in (shared, lengths, rest):
        cursor.expect_end()
    return result


def read_attribute_set(cursor):
    """Sections 8.3 and 12: one attribute set."""
    attributes = []
    for _ in range(cursor.count(1, len(cursor.data))):
        namespace = cursor.u8()
        require(namespace <= 3, f"{cursor.what}: unknown namespace {namespace}")
        name = cursor.bytes(MAX_ATTRIBUTE_NAME)
        value = cursor.bytes(MAX_ATTRIBUTE_VALUE)
        require(not attributes or attributes[-1][:2] < (namespace, name), f"{cursor.what}: attributes are not in order")
        attributes.append((namespace, name, value))
    return tuple(attributes)


def read_block_table(cursor, own=None):
    """Section 8.4: column 13.

    In the block index of the frame `own`, the row of that block has header checksum 0. It is
    replaced by the real header checksum.
    """
    blocks, offset = [], 0
    for _ in range(cursor.count(0, len(cursor.data))):
        offset = (offset + cursor.sv()) & MASK
        raw_len, stored_len, pad_len = cursor.uv(), cursor.uv(), cursor.uv()
        header_checksum = cursor.u64()
        require(SUPERBLOCK_LEN <= offset <= MAX_63 and offset % 8 == 0, f"{cursor.what}: bad offset of a block")
        require(1 <= raw_len <= MAX_BLOCK_RAW and 1 <= stored_len <= raw_len, f"{cursor.what}: bad length")
        require(pad_len <= MAX_PAD, f"{cursor.what}: bad pad_len")
        if own is not None:
            require(offset <= own.offset, f"{cursor.what}: the block index refers to a later block")
            if offset == own.offset:
                require(header_checksum == 0, f"{cursor.what}: header checksum of the block itself is not zero")
                header_checksum = own.header_checksum
        blocks.append(BlockTableRow(offset, raw_len, stored_len, pad_len, header_checksum))
    require(len({block.offset for block in blocks}) == len(blocks), f"{cursor.what}: duplicate block")
    cursor.expect_end()
    return blocks


class ExtentColumns:
    """Columns 13 to 15 of a record list, or the same parts of a leaf of an extent map."""

    def __init__(self, blocks, indexes, offsets):
        self.blocks, self.indexes, self.offsets = blocks, indexes, offsets
        self.index, self.previous_end, self.previous_index, self.used = 0, 0, None, 0
        self.segments_left = MAX_LIST_SEGMENTS

    def extent(self, length):
        what = self.indexes.what
        self.index = (self.index + self.indexes.sv()) & MASK
        require(self.index < len(self.blocks) and self.index <= self.used, f"{what}: bad index")
        self.used = max(self.used, self.index + 1)
        expected = self.previous_end if self.index == self.previous_index else 0
        offset = (expected + self.offsets.sv()) & MASK
        block = self.blocks[self.index]
        require(offset + length <= block.raw_len, f"{what}: extent exceeds its block")
        self.previous_index, self.previous_end = self.index, offset + length
        return Extent(block, offset, length)

    def extent_list(self, cursor):
        """One extent list of column 17, with its values in columns 14 and 15."""
        extents = []
        count = cursor.count(1, MAX_LIST_EXTENTS)
        self.segments_left -= count
        require(self.segments_left >= 0, f"{cursor.what}: too many extents and holes in the record list")
        for _ in range(count):
            value = cursor.uv()
            length, hole = value >> 1, value & 1
            require(length >= 1, f"{cursor.what}: length 0")
            extents.append(Extent(None, 0, length) if hole else self.extent(length))
        return extents

    def expect_end(self):
        self.indexes.expect_end()
        self.offsets.expect_end()
        require(self.used == len(self.blocks), f"{self.indexes.what}: block table has unused blocks")


def check_adjacent(extents, what):
    """Section 8.4: two neighbours must not form one extent or one hole."""
    for first, second in zip(extents, extents[1:]):
        is_one = (
            first.block is second.block
            if first.block is None or second.block is None
            else first.block.offset == second.block.offset and first.offset + first.length == second.offset
        )
        require(not is_one, f"{what}: two neighbouring extents or holes form one")


def read_record_list(cursor, own=None):
    """Section 8. `own` is the frame of the block whose index contains the list, if any."""
    count = cursor.count(1, MAX_LIST_ENTRIES)
    names = (
        "path shared",
        "path rest length",
        "path rest",
        "kind",
        "metadata",
        "metadata table",
        "attribute table",
        "seconds",
        "nanoseconds",
        "size",
        "link group",
        "target",
        "device",
        "block table",
        "extent block",
        "extent offset",
        "content checksum",
        "extent lists",
        "extent maps",
        "file digest",
    )
    columns = [cursor.column(f"column {number} ({name})") for number, name in enumerate(names)]
    paths = [check_path(path) for path in front_coded(*columns[:3], count, MAX_PATH)]

    # Attribute and metadata tables: no duplicates, in the order of first use.
    attribute_sets = [read_attribute_set(columns[6]) for _ in range(columns[6].count(0, len(columns[6].data)))]
    require(len(set(attribute_sets)) == len(attribute_sets), f"{columns[6].what}: duplicate set")
    table, sets_used = [], 0
    for _ in range(columns[5].count(1, count)):
        flags, mode = columns[5].u8(), columns[5].uv()
        require(flags <= 7 and mode <= 0o7777, f"{columns[5].what}: bad flags or mode")
        owner = (columns[5].uv(), columns[5].uv()) if flags & 2 else None
        owner_names = tuple(columns[5].bytes(MAX_OWNER_NAME) for _ in range(2)) if flags & 4 else None
        number = columns[5].uv()
        require(number <= len(attribute_sets) and number <= sets_used + 1, f"{columns[5].what}: bad attribute set")
        sets_used = max(sets_used, number)
        table.append((bool(flags & 1), mode, owner, owner_names, attribute_sets[number - 1] if number else ()))
    require(sets_used == len(attribute_sets), f"{columns[6].what}: unused set")
    require(len(set(table)) == len(table), f"{columns[5].what}: duplicate row")

    extent_columns = ExtentColumns(read_block_table(columns[13], own), columns[14], columns[15])
    entries, seconds, used = [], 0, 0
    for path in paths:
        what = f"entry {path!r}"
        bits = columns[3].u8()
        kind, form, implied = bits & 15, bits >> 4 & 7, bool(bits & 128)
        require(kind in ENTRY_KIND_NAMES, f"{what}: unknown kind {kind}")
        require(form == NONE or (kind == FILE and form <= MAP), f"{what}: bad form {form}")
        require(form != UNCOMPRESSED or own is None, f"{what}: form 2 in a block index")
        require(not implied or kind == DIR, f"{what}: implied but not a directory")
        index = columns[4].uv()
        require(index < len(table) and index <= used, f"{columns[4].what}: bad index")
        used = max(used, index + 1)
        has_time, mode, owner, owner_names, attributes = table[index]
        require(not implied or (mode == 0o755 and not has_time), f"{what}: implied but with metadata")
        time = None
        if has_time:
            seconds = (seconds + columns[7].sv()) & MASK
            nanoseconds = columns[8].uv()
            require(nanoseconds <= 999_999_999, f"{columns[8].what}: bad value")
            time = (seconds - (1 << 64) if seconds >> 63 else seconds, nanoseconds)
        fields = {}
        if kind == FILE:
            fields["link_group"] = columns[10].uv()
        elif kind == SYMLINK:
            target = columns[11].bytes(MAX_TARGET)
            require(len(target) >= 1 and b"\0" not in target, f"{what}: bad target")
            fields["target"] = target
        elif kind in (CHAR_DEVICE, BLOCK_DEVICE):
            fields["device"] = (columns[12].uv(), columns[12].uv())
        if form != NONE:
            size = fields["size"] = columns[9].uv()
            require(1 <= size <= MAX_63, f"{what}: bad size")
            if form in (EXTENT, UNCOMPRESSED):
                fields["extents"] = (extent_columns.extent(size),)
            if form == UNCOMPRESSED:
                fields["content_checksum"] = columns[16].u32()
            if form == LIST:
                extents = fields["extents"] = tuple(extent_columns.extent_list(columns[17]))
                require(sum(extent.length for extent in extents) == size, f"{what}: extents do not add up to its size")
                require(len(extents) > 1 or extents[0].block is None, f"{what}: a single extent uses an extent list")
                check_adjacent(extents, what)
            if form == MAP:
                fields["extent_map"] = columns[18].reference()
            if form in (LIST, MAP):
                known = columns[19].u8()
                require(known <= 1, f"{columns[19].what}: bad value")
                fields["digest"] = columns[19].fixed(DIGEST_LEN) if known else None
        entries.append(Entry(path, kind, implied, mode, owner, owner_names, attributes, time, form, **fields))
    require(used == len(table), f"{columns[5].what}: unused row")
    extent_columns.expect_end()
    for column in columns:
        column.expect_end()
    return entries


# --- block indexes (section 7) --------------------------------------------------------------------


@dataclass(frozen=True)
class Chunk:
    offset: int
    length: int
    digest: bytes


@dataclass
class BlockIndex:
    chunks: list
    records: list
    gaps: list = field(default_factory=list)  # (offset, length)


def read_block_index(frame, data):
    cursor = Cursor(data, f"index of the block at {frame.offset}")
    count = cursor.count(0, len(data) // DIGEST_LEN)
    digests = [cursor.fixed(DIGEST_LEN) for _ in range(count)]
    codec, raw_len = cursor.u8(), cursor.uv()
    require(codec in (0, 1) and raw_len <= MAX_BLOCK_INDEX, f"{cursor.what}: bad codec or length of the body")
    require(codec == 0 or len(cursor.data) - cursor.pos < raw_len, f"{cursor.what}: compressed body is not shorter")
    body = Cursor(decompress(codec, cursor.remaining(), raw_len, what=cursor.what), cursor.what)
    lengths = [body.uv() for _ in range(count)]
    chunks, gaps, offset = [], [], 0
    for digest, length in zip(digests, lengths):
        gap = body.uv()
        require(length >= 1, f"{cursor.what}: empty chunk")
        if gap:
            gaps.append((offset, gap))
        chunks.append(Chunk(offset + gap, length, digest))
        offset += gap + length
    require(offset == frame.raw_len, f"{cursor.what}: chunks do not add up to raw_len")
    records = read_record_list(body, frame) if body.pos < raw_len else []
    body.expect_end()
    return BlockIndex(chunks, records, gaps)


# --- the archive ----------------------------------------------------------------------------------


def check_features(required):
    """Section 21: rejects unknown required features."""
    for bit in range(1, 32):
        if required >> bit & 1:
            raise Unsupported(f"unknown required feature {bit}")


def hkdf(key, salt, info, length):
    return HKDF(SHA256(), length, salt, info).derive(key)


def open_segment(key, part, number, data, what):
    """Section 18.4: opens a segment, which is followed by its tag."""
    require(len(data) > TAG_LEN, f"{what}: empty segment")
    try:
        return AESGCM(key).decrypt(struct.pack("<IQ", part, number), bytes(data), None)
    except InvalidTag:
        raise Rejected(f"{what}: the tag is wrong") from None


class Keys:
    """An unlocked key frame (section 18.3)."""

    def __init__(self, frame, archive_key, salt, required=1):
        self.frame, self.archive_key, self.salt, self.required = frame, archive_key, salt, required

    def frame_key(self, salt, offset):
        """Section 18.2: returns frame key and frame MAC."""
        info = b"nra5 frame" + struct.pack("<IQ", self.required, offset)
        output = hkdf(self.archive_key, salt, info, 40)
        return output[:32], struct.unpack("<Q", output[32:])[0]

    def mac(self, frame, data):
        """Section 18.2: returns the key frame MAC."""
        info = b"nra5 keys" + struct.pack("<QQ", frame.offset, frame.commit) + data[:32] + data[64:]
        return hkdf(self.archive_key, b"", info, 32)

    @staticmethod
    def read(source, offset):
        frame = Frame.parse(source, offset).check_fields()
        require(frame.kind == KEYS, f"frame at {offset}: not a key frame")
        data = frame.part(source, 1)
        require(checksum(data, offset) == frame.payload_checksum, f"key frame at {offset}: damaged")
        require(len(data) >= 64, f"key frame at {offset}: too short")
        count = struct.unpack_from("<H", data)[0]
        require(
            1 <= count <= MAX_KEY_SLOTS and len(data) == 64 + 128 * count and not any(data[2:8]),
            f"key frame at {offset}: bad length or reserved bytes",
        )
        for number in range(count):
            archive_key = Keys.try_slot(data[64 + 128 * number :][:128])
            if archive_key is None:
                continue
            keys = Keys(frame, archive_key, data[8:32])
            require(keys.mac(frame, data) == data[32:64], f"key frame at {offset}: wrong MAC")
            return keys
        raise Unsupported("the archive is encrypted and neither NRA_ENCRYPTION_KEY nor NRA_PASSWORD opens it")

    @staticmethod
    def try_slot(slot):
        """Returns the archive key, or None if the key slot does not open."""
        kind, memory, passes, lanes = slot[0], *struct.unpack_from("<III", slot, 4)
        require(not any(slot[1:4]) and not any(slot[112:]), "key slot: reserved bytes are not zero")
        salt, wrapped, associated = slot[16:48], slot[48:96], slot[:48] + slot[96:]
        if kind == 1:
            require(
                1 <= lanes <= MAX_ARGON2_LANES
                and passes >= 1
                and 8 * lanes <= memory <= MAX_ARGON2_MEMORY
                and memory * passes <= MAX_ARGON2_WORK,
                "key slot: cost exceeds the limit",
            )
            password = os.environ.get("NRA_PASSWORD")
            if not password:
                return None
            argon2 = Argon2id(salt=salt, length=32, iterations=passes, lanes=lanes, memory_cost=memory)
            secret = argon2.derive(os.fsencode(password))
        else:
            require(kind == 2 and memory == passes == lanes == 0, "key slot: unknown kind")
            secret = bytes.fromhex(os.environ.get("NRA_ENCRYPTION_KEY", ""))
            if len(secret) != 32:
                return None
        try:
            return AESGCM(hkdf(secret, salt, b"nra5 wrap", 32)).decrypt(bytes(12), wrapped, associated)
        except InvalidTag:
            return None


class Blocks:
    """Reads frames and content. Archive and Scan, which find entries, are based on it."""

    def __init__(self, source):
        self.source = source
        self.cache = collections.OrderedDict()
        self.dictionaries = {}

    def stored(self, frame):
        """Returns the stored payload after checking it."""
        data = frame.part(self.source, 1)
        require(checksum(data, frame.offset) == frame.payload_checksum, f"frame at {frame.offset}: damaged payload")
        return data

    def payload(self, frame):
        frame.check_fields()
        dictionary = self.dictionary(frame.dictionary) if frame.dictionary else None
        return decompress(frame.codec, self.stored(frame), frame.raw_len, dictionary, f"frame at {frame.offset}")

    def dictionary(self, offset):
        if offset not in self.dictionaries:
            frame = Frame.parse(self.source, offset).check_fields()
            require(frame.kind == DICTIONARY, f"frame at {offset}: not a dictionary")
            data = self.stored(frame)
            require(data[:4] == b"\x37\xa4\x30\xec", f"dictionary at {offset}: not in the zstd dictionary format")
            self.dictionaries[offset] = data
        return self.dictionaries[offset]

    def block_index(self, frame):
        frame.check_fields()
        data = frame.part(self.source, 2)
        require(
            checksum(data, frame.offset) == frame.block_index_checksum, f"block at {frame.offset}: damaged block index"
        )
        return read_block_index(frame, data)

    def frame(self, reference, kind):
        """Follows a reference (section 2)."""
        frame = Frame.parse(self.source, reference.offset).check_fields()
        require(frame.reference == reference, f"frame at {reference.offset}: does not match its reference")
        require(frame.kind == kind, f"frame at {reference.offset}: not of kind {FRAME_KIND_NAMES[kind]}")
        require(frame.end <= self.source.size, f"frame at {reference.offset}: extends past the end of the file")
        return frame

    def frame_of_block(self, row):
        """Returns the frame for a row of a block table (section 8.4)."""
        frame = Frame.parse(self.source, row.offset).check_fields()
        require(frame.kind == BLOCK, f"frame at {row.offset}: not a block")
        actual = BlockTableRow(frame.offset, frame.raw_len, frame.stored_len, frame.pad_len, frame.header_checksum)
        require(actual == row, f"block at {row.offset}: does not match its block table")
        return frame

    def block(self, row):
        """Returns the raw payload of a block. A few recent blocks are cached."""
        if row in self.cache:
            self.cache.move_to_end(row)
        else:
            self.cache[row] = self.payload(self.frame_of_block(row))
            while len(self.cache) > 4:
                self.cache.popitem(last=False)
        return self.cache[row]

    def page(self, reference, kind):
        """Returns the level of a page and a cursor over the bytes after it."""
        frame = self.frame(reference, kind)
        cursor = Cursor(self.payload(frame), f"{FRAME_KIND_NAMES[kind]} at {frame.offset}")
        level = cursor.u8()
        require(level <= MAX_LEVEL, f"{cursor.what}: bad level")
        return level, cursor

    # Content

    def extents(self, entry):
        """Returns all extents and holes of a file."""
        if entry.form != MAP:
            return list(entry.extents)
        extents = []
        content = self.walk_extent_map(entry.extent_map, None, extents, leaves=[])
        require(content == entry.size, f"entry {entry.path!r}: extent map does not add up to its size")
        require(len(extents) > MAX_LIST_EXTENTS, f"entry {entry.path!r}: too few extents for an extent map")
        check_adjacent(extents, f"extent map at {entry.extent_map.offset}")
        return extents

    def walk_extent_map(self, reference, level, extents, leaves):
        """Section 10: appends the extents and leaf offsets below a page, returns content bytes."""
        page_level, cursor = self.page(reference, EXTENT_PAGE)
        require(level in (None, page_level), f"{cursor.what}: wrong level")
        if page_level == 0:
            require(
                not leaves or leaves[-1] < reference.offset, f"{cursor.what}: does not follow the preceding leaf page"
            )
            leaves.append(reference.offset)
            blocks = read_block_table(cursor.column("block table"))
            columns = ExtentColumns(blocks, cursor.column("extent block"), cursor.column("extent offset"))
            list_cursor = cursor.column("extent list")
            leaf = columns.extent_list(list_cursor)
            for part in (columns, list_cursor, cursor):
                part.expect_end()
            extents.extend(leaf)
            return sum(extent.length for extent in leaf)
        total = 0
        children = [(cursor.reference(), cursor.uv()) for _ in range(cursor.count(1, MAX_MAP_CHILDREN))]
        cursor.expect_end()
        for child, content_bytes in children:
            actual = self.walk_extent_map(child, page_level - 1, extents, leaves)
            require(actual == content_bytes, f"{cursor.what}: wrong content bytes")
            total += content_bytes
        return total

    def content(self, entry):
        """Yields the content of a file in parts."""
        if entry.form == UNCOMPRESSED:  # section 7.1: exactly its own bytes, with their own checksum
            extent = entry.extents[0]
            frame = self.frame_of_block(extent.block)
            require(frame.codec == 0, f"entry {entry.path!r}: uncompressed extent in a compressed block")
            data = frame.extent(self.source, extent.offset, extent.length)
            require(checksum(data, 0) & 0xFFFFFFFF == entry.content_checksum, f"entry {entry.path!r}: damaged content")
            yield data
            return
        for extent in self.extents(entry):
            if extent.block is None:
                for start in range(0, extent.length, 1 << 20):
                    yield bytes(min(1 << 20, extent.length - start))
            else:
                yield self.block(extent.block)[extent.offset : extent.offset + extent.length]

    def read(self, entry):
        return b"".join(self.content(entry))


class Recovery:
    """Recovery data as described by the recovery header in the frame at `offset` (section 19).

    This reader checks recovery data but does not use it.
    """

    def __init__(self, source, offset):
        self.source, self.offset = source, offset
        self.fields = self.header(offset)
        self.protected, self.shard_len, self.groups, self.parities, self.frame_units, percent, self.commit, number = (
            self.fields
        )
        shard_len, groups = self.shard_len, self.groups
        require(self.protected % 8 == 0 and self.protected <= offset, "recovery: bad number of protected bytes")
        require(256 <= shard_len <= 65536 and shard_len & (shard_len - 1) == 0, "recovery: bad shard length")
        self.data_shards = -(-self.protected // shard_len)
        require(
            1 <= groups <= self.data_shards and 1 <= self.parities <= 32768,
            "recovery: bad number of groups or parity shards",
        )
        require(1 <= self.frame_units and self.frame_units * shard_len <= 64 << 20, "recovery: bad number of units")
        require(1 <= percent <= 100 and self.commit >= 1, "recovery: bad percentage or commit")
        self.n = -(-self.data_shards // groups)
        require(
            self.n <= 32768 and max(self.n, self.parities) * shard_len <= 128 << 20, "recovery: groups are too large"
        )
        require(self.parities <= 2 * self.n + 2, "recovery: too many parity shards")
        self.p = -(-8 * (self.n + self.parities) // (shard_len - 8))
        self.units = (3 * self.p + self.parities) * groups
        self.last_frame = -(-self.units // self.frame_units)
        require(
            number <= self.last_frame and self.frame_offset(number) == offset,
            "recovery: the frame is not at its offset",
        )
        self.footer_offset = self.frame_offset(self.last_frame) + FRAME_HEADER_LEN + 64

    def frame_offset(self, number):
        """Returns the offset of the recovery frame with this number."""
        first = -(-(self.protected + FRAME_HEADER_LEN + 64) // self.shard_len)
        shards_before = number - 1 + min(number * self.frame_units, self.units)
        return (first + shards_before) * self.shard_len if number else self.protected

    def header(self, offset):
        """Returns the fields of the recovery header in the frame at `offset`."""
        data = self.source.read(offset + FRAME_HEADER_LEN, 64)
        require(
            struct.unpack_from("<Q", data, 56)[0] == checksum(data[:56], offset + FRAME_HEADER_LEN),
            f"recovery at {offset}: wrong checksum of the recovery header",
        )
        require(not any(data[28:32]) and not any(data[48:56]), f"recovery at {offset}: reserved bytes are not zero")
        return struct.unpack_from("<QIIIII", data) + struct.unpack_from("<QQ", data, 32)

    def problems(self):
        """Yields all problems, frame by frame and group by group."""
        unit_offsets, offset, units_left = [], self.protected, self.units
        for number in range(self.last_frame + 1):
            frame = Frame.parse(self.source, offset).check_fields()
            if (
                frame.kind != RECOVERY
                or frame.commit != self.commit
                or frame.start_len != FRAME_HEADER_LEN
                or frame.pad_len
            ):
                yield f"recovery at {offset}: not the expected frame"
            if self.header(offset) != self.fields[:-1] + (number,):
                yield f"recovery at {offset}: recovery header differs from the others"
            payload = self.source.read(offset + FRAME_HEADER_LEN, frame.stored_len)
            if checksum(payload, offset) != frame.payload_checksum:
                yield f"recovery at {offset}: wrong checksum of the payload"
            units = min(units_left, self.frame_units)
            first = -(-(offset + FRAME_HEADER_LEN + 64) // self.shard_len) * self.shard_len if units else frame.end
            if frame.end != first + units * self.shard_len or any(payload[64 : first - offset - FRAME_HEADER_LEN]):
                yield f"recovery at {offset}: bad length or padding"
            unit_offsets += range(first, frame.end, self.shard_len)
            offset, units_left = frame.end, units_left - units
        if offset != self.footer_offset or units_left:
            yield "recovery: the frames do not reach the footer"
            return
        half, groups, p = self.parities // 2, self.groups, self.p
        order = (
            [("table", i) for i in range(p)]
            + [("parity", i) for i in range(half)]
            + [("table", i) for i in range(p, 2 * p)]
            + [("parity", i) for i in range(half, self.parities)]
            + [("table", i) for i in range(2 * p, 3 * p)]
        )
        offsets = {
            (kind, number, group): unit_offsets[index * groups + group]
            for index, (kind, number) in enumerate(order)
            for group in range(groups)
        }
        for group in range(groups):
            table = b""
            for number in range(3 * p):
                unit = offsets["table", number, group]
                data = self.source.read(unit, self.shard_len)
                if checksum(data[:-8], unit) != struct.unpack("<Q", data[-8:])[0]:
                    yield f"recovery: damaged table shard at {unit}"
                table += data[:-8] if number < p else b""
            checksums = struct.unpack_from(f"<{self.n + self.parities}Q", table)
            for index in range(self.n):
                shard = index * groups + group
                start = min(shard * self.shard_len, self.protected)
                data = self.source.read(start, min(self.shard_len, self.protected - start))
                data = data.ljust(self.shard_len, b"\0")
                if checksum(data, shard) != checksums[index]:
                    yield f"recovery: data shard {shard} is damaged"
            for number in range(self.parities):
                unit = offsets["parity", number, group]
                if checksum(self.source.read(unit, self.shard_len), unit) != checksums[self.n + number]:
                    yield f"recovery: damaged parity shard at {unit}"


class Archive(Blocks):
    """An archive opened by its footer or a commit slot (section 15)."""

    def __init__(self, file):
        super().__init__(Source(file))
        self.notes = []
        self.recovery = None
        self.footer = self.find_footer()
        check_features(self.footer.required)
        if self.recovery:
            # The recovery data is between the footer and its copy.
            copy, self.footer = self.footer, Footer.parse(self.source, self.recovery.protected - FOOTER_LEN)
            require(
                replace(copy, offset=self.footer.offset) == self.footer,
                "footer: differs from the one before the recovery data",
            )
        self.end = self.footer.offset + FOOTER_LEN
        if self.footer.required & 1:
            self.source.keys = self.unlock()
        self.commit = self.commit_of(self.footer)
        if self.recovery and self.recovery.offset != self.end:
            require(
                not self.is_followed(),
                f"footer at {self.source.size - FOOTER_LEN}: a later commit than its own precedes it",
            )

    def is_followed(self):
        """Returns whether a finished append follows the commit (section 15)."""
        offset = self.end
        try:
            while True:
                frame = Frame.parse(self.source, offset)
                if frame.kind == COMMIT:
                    commit = Commit.parse(frame, self.payload(frame))
                    return (
                        commit.number == self.commit.number + 1 and commit.previous.offset == self.footer.commit_offset
                    )
                offset = frame.end
        except Rejected:
            return False

    def unlock(self):
        """Section 18.3: uses the key frame in the footer or, if it is damaged, the first one."""
        footer = self.footer
        try:
            keys = Keys.read(self.source, footer.key_frame_offset)
            require(
                keys.frame.end == footer.commit_offset and keys.frame.commit == footer.number,
                "key frame: does not belong to the commit",
            )
            self.keys_salt = keys.salt
        except Unsupported:
            raise
        except Rejected as error:
            self.notes.append(f"{error}; the first key frame is used")
            keys, self.keys_salt = Keys.read(self.source, SUPERBLOCK_LEN), None
        return keys

    def find_footer(self):
        """Section 15, steps 1 and 2."""
        source = self.source
        try:
            footer = Footer.parse(source, source.size - FOOTER_LEN)
            if footer.commit_offset + footer.commit_length < footer.offset:
                self.recovery = self.recovery_of(footer)
            return footer
        except Unsupported:
            raise
        except Rejected as error:
            reason = error
        superblock = Superblock.parse(source)
        check_features(superblock.required)
        best = None
        for offset in COMMIT_SLOT_OFFSETS:
            try:
                slot = CommitSlot.parse(source, offset)
                if slot is None or (best and best.number >= slot.number):
                    continue
                require(
                    SUPERBLOCK_LEN + FOOTER_LEN <= slot.end <= source.size,
                    "commit slot: its end is past the end of the file",
                )
                footer = Footer.parse(source, slot.end - FOOTER_LEN)
                require(footer.number == slot.number, "commit slot: its number differs from the footer")
                best = footer
            except Unsupported:
                raise
            except Rejected as error:
                self.notes.append(str(error))
        require(best, f"the end of the archive is lost ({reason}); a scan may still find entries")
        surplus = source.size - best.offset - FOOTER_LEN
        self.notes.append(f"{surplus} bytes after commit {best.number} are the remains of an unfinished append")
        return best

    def recovery_of(self, footer):
        """Section 15, step 1: returns the recovery data between a commit frame and its footer."""
        first = footer.commit_offset + footer.commit_length + FOOTER_LEN
        for offset in (first, footer.offset - FRAME_HEADER_LEN - 64):
            try:
                require(Frame.parse(self.source, offset).kind == RECOVERY, f"frame at {offset}: not a recovery frame")
                recovery = Recovery(self.source, offset)
                layout = (recovery.protected, recovery.commit, recovery.footer_offset)
                require(layout == (first, footer.number, footer.offset), "recovery: it belongs to another footer")
                return recovery
            except Rejected as error:
                reason = error
        raise Rejected(f"footer at {footer.offset}: no recovery data between commit {footer.number} and it ({reason})")

    def commit_of(self, footer):
        """Returns the commit in the commit frame directly before a footer."""
        frame = Frame.parse(self.source, footer.commit_offset).check_fields()
        require(
            frame.kind == COMMIT and frame.end == footer.offset,
            f"footer at {footer.offset}: no commit frame precedes it",
        )
        commit = Commit.parse(frame, self.payload(frame))
        require(commit.number == footer.number, f"footer at {footer.offset}: its number differs from the commit")
        salt = getattr(self, "keys_salt", None)
        require(footer is not self.footer or salt in (None, frame.salt), "key frame: its salt differs from the commit")
        return commit

    # Entry tree (section 9)

    def inner_page(self, cursor):
        """Returns the children of an inner page: (key, reference, entries, content)."""
        count = cursor.count(1, MAX_LIST_ENTRIES)
        parts = [
            cursor.column(name)
            for name in (
                "keys shared",
                "keys rest length",
                "keys rest",
                "offsets",
                "lengths",
                "header checksums",
                "entries",
                "content",
            )
        ]
        cursor.expect_end()
        keys = front_coded(*parts[:3], count, MAX_PATH)
        offsets, lengths, header_checksums, entries, content = parts[3:]
        offset, children = 0, []
        for key in keys:
            offset = (offset + offsets.sv()) & MASK
            reference = Reference(offset, lengths.uv(), header_checksums.u64()).check_fields()
            children.append((key, reference, entries.uv(), content.uv()))
        for part in parts[3:]:
            part.expect_end()
        order = [path_key(key) for key in keys]
        require(all(a < b for a, b in zip(order, order[1:])), f"{cursor.what}: keys are not in order")
        return children

    def walk(self, reference, level=None, previous=None):
        """Yields all entries below a page and checks order, keys, levels and sums.

        `previous` is the last path before the page. The generator returns (last path, entries,
        content).
        """
        page_level, cursor = self.page(reference, ENTRY_PAGE)
        require(level in (None, page_level), f"{cursor.what}: wrong level")
        count = content = 0
        if page_level == 0:
            entries = read_record_list(cursor)
            cursor.expect_end()
            for entry in entries:
                require(
                    previous is None or path_key(previous) < path_key(entry.path), f"{cursor.what}: paths not in order"
                )
                previous = entry.path
                count += 1
                content += entry.size
                yield entry
            return previous, count, content
        for key, child, entries, content_bytes in self.inner_page(cursor):
            walker = self.walk(child, page_level - 1, previous)
            first = next(walker)
            good = key == b"" if previous is None else path_key(previous) < path_key(key) <= path_key(first.path)
            require(good, f"{cursor.what}: key {key!r} does not separate {previous!r} and {first.path!r}")
            yield first
            previous, below_entries, below_content = yield from walker
            require((below_entries, below_content) == (entries, content_bytes), f"{cursor.what}: wrong sums")
            count += below_entries
            content += below_content
        return previous, count, content

    def entries(self, commit=None):
        commit = commit or self.commit
        if commit.entry_root is not None:
            yield from self.walk(commit.entry_root)

    def find(self, path):
        """Returns the entry with this path by descending the tree, or None."""
        reference, level, wanted = self.commit.entry_root, None, path_key(path)
        low, high = b"", None
        while reference is not None:
            page_level, cursor = self.page(reference, ENTRY_PAGE)
            require(level in (None, page_level), f"{cursor.what}: wrong level")
            if page_level == 0:
                entries = read_record_list(cursor)
                cursor.expect_end()
                first, last = entries[0].path, entries[-1].path
                require(path_key(low) <= path_key(first), f"{cursor.what}: its first path is less than its key")
                require(high is None or path_key(last) < path_key(high), f"{cursor.what}: it extends past the next key")
                return next((entry for entry in entries if entry.path == path), None)
            reference = None
            children = self.inner_page(cursor)
            require(children[0][0] == low, f"{cursor.what}: its first key differs from the key that led to it")
            require(
                high is None or path_key(children[-1][0]) < path_key(high),
                f"{cursor.what}: it extends past the next key",
            )
            for key, child, _, _ in children:
                if path_key(key) <= wanted:
                    reference, low = child, key
                else:
                    high = key
                    break
            level = page_level - 1
        return None

    # Chunk runs (section 11)

    def walk_chunk_run(self, reference, level=None):
        """Yields (key, block offset, number in the block). Returns (first key, chunk count)."""
        page_level, cursor = self.page(reference, CHUNK_PAGE)
        require(level in (None, page_level), f"{cursor.what}: wrong level")
        count, low, high = 0, 1, MAX_LIST_ENTRIES
        if page_level == 0:
            count = cursor.count(low, high)
            parts = [cursor.column(name) for name in ("block table", "keys", "blocks", "chunks")]
            table, keys, blocks, chunks = parts
            offsets, used = [], set()
            for _ in range(table.count(1, count)):
                step = table.uv()
                require(step >= 1, f"{table.what}: offsets are not in order")
                offsets.append(step * 8 + (offsets[-1] if offsets else 0))
            key, first = 0, None
            for _ in range(count):
                key += keys.uv()
                require(key < 1 << 8 * KEY_LEN, f"{keys.what}: key exceeds 40 bits")
                first = key if first is None else first
                index = blocks.uv()
                require(index < len(offsets), f"{blocks.what}: bad index")
                used.add(index)
                yield key, offsets[index], chunks.uv()
            require(len(used) == len(offsets), f"{table.what}: unused block")
            for part in (*parts, cursor):
                part.expect_end()
            return first, count
        children = [(cursor.uv(), cursor.reference(), cursor.uv()) for _ in range(cursor.count(low, high))]
        cursor.expect_end()
        for first, child, chunk_count in children:
            result = yield from self.walk_chunk_run(child, page_level - 1)
            require(result == (first, chunk_count), f"{cursor.what}: wrong first key or number of chunks")
            count += chunk_count
        return children[0][0], count

    def attributes(self, commit=None):
        commit = commit or self.commit
        if commit.attributes is None:
            return ()
        frame = self.frame(commit.attributes, ATTRIBUTES)
        cursor = Cursor(self.payload(frame), f"attributes at {frame.offset}")
        result = read_attribute_set(cursor)
        cursor.expect_end()
        return result


# --- reading without an index (sections 7 and 22) -------------------------------------------------


def discard_former(records):
    """Section 7: discards the earlier of two records if one is a parent but not a directory.

    `records` maps paths to records in file order.
    """
    rank = {path: number for number, path in enumerate(records)}
    discarded = set()
    for path in records:
        for parent in (path[:end] for end, byte in enumerate(path) if byte == ord("/")):
            if parent in records and records[parent].kind != DIR:
                discarded.add(min(parent, path, key=rank.get))
    return {path: record for path, record in records.items() if path not in discarded}


class Scan(Blocks):
    """The entries that a scan finds in the block indexes."""

    def __init__(self, file):
        super().__init__(Source(file))
        self.notes = []
        self.records = {}
        commits = set()
        for frame in self.frames():
            commits.add(frame.commit)
            if frame.kind != BLOCK:
                continue
            try:
                for record in self.block_index(frame).records:
                    # Keep the table in the file order of the last record for each path.
                    self.records.pop(record.path, None)
                    self.records[record.path] = record
            except Rejected as error:
                self.notes.append(str(error))
        self.records = discard_former(self.records)
        if len(commits) > 1:
            self.notes.append("the archive has more than one commit: some names may be former names")

    def frames(self):
        """Yields all frames. Where there is none, searches for the next sync bytes."""
        source = self.source
        try:
            superblock = Superblock.parse(source)
            check_features(superblock.required)
            if superblock.required & 1 and source.keys is None:
                source.keys = Keys.read(source, SUPERBLOCK_LEN)
        except Unsupported:
            raise
        except Rejected as error:
            self.notes.append(str(error))
        offset = SUPERBLOCK_LEN
        while offset + FRAME_HEADER_LEN <= source.size:
            try:
                frame = Frame.parse(source, offset)
            except Rejected:
                try:
                    offset = Footer.parse(source, offset).offset + FOOTER_LEN
                    continue
                except Rejected:
                    pass
                next_offset = self.next_sync(offset + 8)
                self.notes.append(f"bytes {offset} to {next_offset} are not a frame")
                offset = next_offset
                continue
            yield frame
            if frame.end > source.size:
                self.notes.append(f"frame at {offset} is truncated")
            offset = frame.end

    def next_sync(self, offset):
        """Returns the offset of the next sync bytes at a multiple of 8, or the end of the file."""
        size, step = self.source.size, 1 << 20
        while offset < size:
            data = self.source.read(offset, min(step, size - offset))
            sync = PLAIN_SYNC if self.source.keys is None else SEALED_SYNC
            position = data.find(sync)
            while position >= 0 and position % 8:
                position = data.find(sync, position + 1)
            if position >= 0:
                return offset + position
            offset += step
        return size

    def entries(self):
        return sorted(self.records.values(), key=lambda entry: path_key(entry.path))

    def find(self, path):
        return self.records.get(path)


# --- verification (section 23) --------------------------------------------------------------------


class Verifier:
    """Verifies an archive. `problems` lists everything that is wrong."""

    def __init__(self, file):
        self.problems = []
        self.blocks = {}  # offset: (frame, block index)
        self.records = collections.defaultdict(list)  # path: [(commit of the block, entry)], in file order
        self.commits = []
        self.summary = ""
        self.archive = None
        try:
            self.archive = Archive(file)
        except Unsupported:
            raise
        except Rejected as error:
            self.problems.append(str(error))
            return
        self.problems.extend(self.archive.notes)
        self.attempt(self.check_superblock)
        self.attempt(self.check_frames)
        if self.archive.recovery:
            self.attempt(lambda: self.problems.extend(self.archive.recovery.problems()))
        for commit in self.commits:
            self.attempt(self.check_attributes, commit)
            self.attempt(self.check_runs, commit)
            self.attempt(self.check_tree, commit)
        commit = self.archive.commit
        if not self.commits or self.commits[-1] != commit:
            self.problems.append("the newest commit is not between superblock and footer")
        self.summary = (
            f"commit {commit.number}: {commit.entries} entries, {commit.blocks} blocks, " f"{commit.chunks} chunks"
        )

    def attempt(self, step, *arguments):
        """Runs a check. A damaged structure must not hide problems elsewhere."""
        try:
            step(*arguments)
        except Unsupported:
            raise
        except Rejected as error:
            self.problems.append(str(error))

    def expect(self, condition, message):
        if not condition:
            self.problems.append(message)

    def check_superblock(self):
        archive = self.archive
        superblock = Superblock.parse(archive.source)
        self.expect(
            superblock.required == archive.footer.required, "superblock and footer differ in the required features"
        )
        for offset in COMMIT_SLOT_OFFSETS:
            self.attempt(self.check_commit_slot, offset)

    def check_commit_slot(self, offset):
        slot = CommitSlot.parse(self.archive.source, offset)
        if slot is not None:
            require(slot.end <= self.archive.end, f"commit slot at {offset}: its end is past the last footer")
            footer = Footer.parse(self.archive.source, slot.end - FOOTER_LEN)
            require(footer.number == slot.number, f"commit slot at {offset}: its number differs from the footer")

    def check_frames(self):
        """Checks each frame and footer between the superblock and the end of the last footer."""
        archive, offset = self.archive, SUPERBLOCK_LEN
        totals = collections.Counter()
        rank = 0
        while offset < archive.end:
            number = len(self.commits) + 1
            if archive.source.read(offset, 8) == b"NRATAIL\n":
                footer = Footer.parse(archive.source, offset)
                commit = archive.commit_of(footer)
                self.expect(footer.required == archive.footer.required, f"footer at {offset}: other required features")
                self.expect(footer.number == number, f"footer at {offset}: number {footer.number} instead of {number}")
                self.check_commit(commit, totals)
                self.commits.append(commit)
                offset += FOOTER_LEN
                rank = 0
                continue
            frame = Frame.parse(archive.source, offset)
            require(frame.end <= archive.end - FOOTER_LEN, f"frame at {offset}: overlaps the last footer")
            self.expect(frame.commit == number, f"frame at {offset}: commit {frame.commit} instead of {number}")
            if frame.kind in FRAME_KIND_NAMES:
                previous_rank, rank = rank, self.attempt_frame(frame, totals, rank)
                self.expect(rank >= previous_rank, f"frame at {offset}: {FRAME_KIND_NAMES[frame.kind]} out of order")
            offset = frame.end

    def attempt_frame(self, frame, totals, rank):
        """Runs check_frame. Returns `rank` if the frame is damaged."""
        try:
            return self.check_frame(frame, totals)
        except Rejected as error:
            self.problems.append(str(error))
            return rank

    def check_frame(self, frame, totals):
        """Checks one frame. Returns its rank in the order of section 3."""
        archive = self.archive
        frame.check_fields()
        padding = archive.source.read(frame.offset + frame.start_len, frame.pad_len)
        padding += archive.source.read(frame.content_end, frame.end - frame.content_end)
        self.expect(not any(padding), f"frame at {frame.offset}: padding is not zero")
        if frame.kind == BLOCK:
            totals.update(blocks=1, stored_bytes=frame.stored_len)
            block_index = archive.block_index(frame)
            totals.update(chunks=len(block_index.chunks), chunk_bytes=sum(chunk.length for chunk in block_index.chunks))
            self.blocks[frame.offset] = (frame, block_index)
            for record in block_index.records:
                self.records[record.path].append((frame.commit, record))
        payload = archive.payload(frame)
        if frame.kind == BLOCK:
            for offset, length in block_index.gaps:
                self.expect(not any(payload[offset : offset + length]), f"block at {frame.offset}: gap is not zero")
            for number, chunk in enumerate(block_index.chunks):
                data = payload[chunk.offset : chunk.offset + chunk.length]
                self.expect(
                    blake3 is None or digest_of(data) == chunk.digest,
                    f"block at {frame.offset}: wrong digest of chunk {number}",
                )
        if frame.kind == DICTIONARY:
            archive.dictionary(frame.offset)
        if frame.kind == ENTRY_PAGE:
            return 10 + (payload[0] if payload else 0)
        if frame.kind == KEYS:
            keys = archive.source.keys
            self.expect(
                keys is not None and keys.mac(frame, payload) == payload[32:64],
                f"key frame at {frame.offset}: wrong MAC",
            )
            return 0 if frame.offset == SUPERBLOCK_LEN else 30.5
        return {BLOCK: 1, DICTIONARY: 1, EXTENT_PAGE: 1, CHUNK_PAGE: 2, ATTRIBUTES: 3, RECOVERY: 30, COMMIT: 31}[
            frame.kind
        ]

    def check_commit(self, commit, totals):
        previous = self.commits[-1] if self.commits else None
        what = f"commit {commit.number}"
        if previous:
            self.expect(commit.previous == previous.frame.reference, f"{what}: does not refer to the preceding commit")
            self.expect(commit.archive_id == previous.archive_id, f"{what}: archive_id differs")
        for name in ("chunk_bytes", "stored_bytes", "blocks", "chunks"):
            self.expect(
                getattr(commit, name) == totals[name],
                f"{what}: {name} is {getattr(commit, name)} instead of {totals[name]}",
            )

    def check_attributes(self, commit):
        self.archive.attributes(commit)

    def check_runs(self, commit):
        """Section 11: each chunk of the archive up to the commit is in at least one of its runs."""
        listed = set()
        for reference in commit.runs:
            run = list(self.archive.walk_chunk_run(reference))
            require(all(a < b for a, b in zip(run, run[1:])), f"chunk run at {reference.offset}: not in order")
            listed.update(run)
        chunks = {
            (int.from_bytes(chunk.digest[:KEY_LEN], "big"), offset, number)
            for offset, (frame, block_index) in self.blocks.items()
            if frame.commit <= commit.number
            for number, chunk in enumerate(block_index.chunks)
        }
        self.expect(listed == chunks, f"commit {commit.number}: chunk runs and block indexes differ")

    def check_tree(self, commit):
        directories, groups = set(), {}
        entries = files = content = 0
        for entry in self.archive.entries(commit):
            entries += 1
            files += entry.kind == FILE
            content += entry.size
            parent = entry.path.rpartition(b"/")[0]
            self.expect(not parent or parent in directories, f"entry {entry.path!r}: its parent is not a directory")
            if entry.kind == DIR:
                directories.add(entry.path)
            self.attempt(self.check_entry, entry, commit)
            if entry.link_group:
                self.expect(
                    entry.link_group <= commit.link_groups,
                    f"entry {entry.path!r}: link group {entry.link_group} exceeds the greatest in the commit",
                )
                first = groups.setdefault(entry.link_group, entry)
                same = (first.metadata, first.size, first.extents, first.extent_map) == (
                    entry.metadata,
                    entry.size,
                    entry.extents,
                    entry.extent_map,
                )
                self.expect(same, f"entry {entry.path!r}: differs from its hard link {first.path!r}")
        for name, value in (("entries", entries), ("files", files), ("content_bytes", content)):
            self.expect(
                getattr(commit, name) == value,
                f"commit {commit.number}: {name} is {getattr(commit, name)} instead of {value}",
            )

    def check_entry(self, entry, commit):
        what = f"entry {entry.path!r}"
        known = [record for number, record in self.records[entry.path] if number <= commit.number]
        if not known:
            self.problems.append(f"{what}: not recorded in a block index")
        elif known[-1] != record_of(entry):
            self.problems.append(f"{what}: differs from its last record in a block index")
        if entry.form in (EXTENT, UNCOMPRESSED):
            extent = entry.extents[0]
            require(extent.block.offset in self.blocks, f"{what}: no block at {extent.block.offset}")
            frame, block_index = self.blocks[extent.block.offset]
            is_chunk = any(
                (chunk.offset, chunk.length) == (extent.offset, extent.length) for chunk in block_index.chunks
            )
            self.expect(
                (entry.form == UNCOMPRESSED) == (is_chunk and frame.codec == 0), f"{what}: wrong form for its block"
            )
        hasher, size = blake3 and blake3(), 0
        for data in self.archive.content(entry):
            size += len(data)
            if blake3:
                hasher.update(data)
        self.expect(size == entry.size, f"{what}: content has {size} bytes instead of {entry.size}")
        if blake3 and entry.digest is not None:
            self.expect(hasher.digest(DIGEST_LEN) == entry.digest, f"{what}: wrong digest of the content")


# --- output ---------------------------------------------------------------------------------------


def put_bytes(target, name, value):
    """Adds bytes to a JSON object: as a string if they are UTF-8, else as `NAME_hex`."""
    try:
        target[name] = value.decode("utf-8")
    except UnicodeDecodeError:
        target[name + "_hex"] = value.hex()


def time_text(time):
    return None if time is None else f"{time[0]}.{time[1]:09}"


def attribute_objects(attributes):
    objects = []
    for namespace, name, value in attributes:
        attribute = {"namespace": namespace}
        put_bytes(attribute, "name", name)
        put_bytes(attribute, "value", value)
        objects.append(attribute)
    return objects


def entry_object(blocks, entry):
    """Returns the JSON object of an entry. An unknown time or owner is null.

    Fields that do not apply to the kind of the entry are absent.
    """
    result = {"kind": ENTRY_KIND_NAMES[entry.kind], "mode": f"{entry.mode:04o}", "mtime": time_text(entry.time)}
    put_bytes(result, "path", entry.path)
    result["uid"], result["gid"] = entry.owner or (None, None)
    for name, value in zip(("user", "group"), entry.names or ()):
        put_bytes(result, name, value)
    result["attributes"] = attribute_objects(entry.attributes)
    if entry.kind == DIR:
        result["implied"] = entry.implied
    if entry.target is not None:
        put_bytes(result, "target", entry.target)
    if entry.device is not None:
        result["major"], result["minor"] = entry.device
    if entry.kind == FILE:
        result["size"], result["link_group"] = entry.size, entry.link_group
        sha256, digest = hashlib.sha256(), blake3 and blake3()
        try:
            for data in blocks.content(entry):
                sha256.update(data)
                if blake3:
                    digest.update(data)
            result["sha256"] = sha256.hexdigest()
            if blake3:
                result["blake3"] = digest.hexdigest()
        except Rejected as error:
            result["error"] = str(error)
    return result


def document(blocks):
    """Returns the JSON document of an archive or of a scan."""
    result = {"format": "nra", "version": VERSION, "notes": list(blocks.notes)}
    if isinstance(blocks, Archive):
        commit = blocks.commit
        result["commit"] = {
            "archive_id": commit.archive_id.hex(),
            "number": commit.number,
            "time": time_text(commit.time),
            "message": commit.message,
            "entries": commit.entries,
            "files": commit.files,
            "content_bytes": commit.content_bytes,
            "chunk_bytes": commit.chunk_bytes,
            "stored_bytes": commit.stored_bytes,
            "blocks": commit.blocks,
            "chunks": commit.chunks,
        }
        if blake3:
            frame = commit.frame
            result["commit"]["digest"] = blake3(blocks.source.read(frame.offset, frame.end - frame.offset)).hexdigest()
        result["attributes"] = attribute_objects(blocks.attributes())
    result["entries"] = [entry_object(blocks, entry) for entry in blocks.entries()]
    return result


def printable(data):
    """Returns bytes as text in which backslashes, control bytes and invalid UTF-8 are escaped."""
    text = data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def print_entries(entries):
    for entry in entries:
        letter = "?-dlpcb"[entry.kind]
        arrow = " -> " + printable(entry.target) if entry.kind == SYMLINK else ""
        print(f"{letter}{entry.mode:04o}\t{entry.size}\t{time_text(entry.time) or '-'}\t{printable(entry.path)}{arrow}")


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
            command.add_argument("--scan", action="store_true", help="list the entries that a scan finds")
    options = parser.parse_args(arguments)
    try:
        if options.command == "check":
            verifier = Verifier(options.file)
            for problem in verifier.problems:
                print(f"problem: {problem}")
            if verifier.problems:
                return 1
            print(f"ok: {verifier.summary}" + ("" if blake3 else " (digests not verified: package blake3 is missing)"))
            return 0
        use_scan = options.command == "scan" or getattr(options, "scan", False)
        archive = Scan(options.file) if use_scan else Archive(options.file)
        print_notes(archive.notes)
        if options.command == "json":
            json.dump(document(archive), sys.stdout, indent=1, sort_keys=True)
            print()
        elif options.command == "cat":
            entry = archive.find(options.path)
            require(entry is not None, "no such entry")
            require(entry.kind == FILE, "not a file")
            for data in archive.content(entry):
                sys.stdout.buffer.write(data)
        else:
            print_entries(archive.entries())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Rejected, OSError) as error:
        print(f"nra5: {error}", file=sys.stderr)
        return 2 if isinstance(error, Unsupported) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
