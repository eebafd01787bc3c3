#!/usr/bin/env python3
"""A tiny writer of the NRA format, version 5, made from docs/format/nra.md alone; it shares no code with nra5.py.

It makes small archives with fixed content for the tests of readers:

    make_tiny.py tiny FILE    two blocks (raw and zstd), directories, symlink, hard links, a sparse file, one leaf
    make_tiny.py rich FILE    also: dictionary, lz4, alignment, extent map, inner pages, attributes, a second commit

Section numbers in comments are those of the page.
"""

import functools
import struct
import sys

import lz4.block
import xxhash
import zstandard
from blake3 import blake3

MASK = (1 << 64) - 1
FILE, DIR, SYMLINK, FIFO, CHAR_DEVICE, BLOCK_DEVICE = range(1, 7)
DEFAULT_MODES = {FILE: 0o644, DIR: 0o755, SYMLINK: 0o777}
HOLE = None


# --- values (section 2) ----------------------------------------------------------------------------------------------


def uv(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def sv(difference):
    """The difference of two values of 64 bits."""
    difference &= MASK
    if difference >> 63:
        difference -= 1 << 64
    return uv((difference << 1 ^ difference >> 63) & MASK)


def text(data):
    return uv(len(data)) + data


def hash64(data, place):
    return xxhash.xxh3_64_intdigest(data, seed=place)


def digest(data):
    """Section 1: the first 24 bytes of BLAKE3."""
    return blake3(data).digest(24)


def order(path):
    return [-1 if byte == 0x2F else byte for byte in path]


def shared_bytes(a, b):
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


def front_code(texts):
    """The three columns of front coded texts."""
    shared = [shared_bytes(a, b) for a, b in zip([b""] + texts, texts)]
    return [b"".join(map(uv, shared)), b"".join(uv(len(t) - n) for t, n in zip(texts, shared)),
            b"".join(t[n:] for t, n in zip(texts, shared))]


# --- entries and record lists (section 8) ----------------------------------------------------------------------------


class Entry:
    def __init__(self, path, kind=FILE, content=b"", mode=None, time=None, owner=None, names=None, attributes=(),
                 target=b"", device=(0, 0), group=0, implied=False):
        self.path, self.kind, self.content, self.time = path, kind, content, time
        self.mode = DEFAULT_MODES.get(kind, 0o600) if mode is None else mode
        self.owner, self.names, self.attributes = owner, names, tuple(sorted(attributes))
        self.target, self.device, self.group, self.implied = target, device, group, implied
        self.form, self.extents, self.map = 0, [], None  # set when the content has been written

    def stored_at(self, form, extents, extent_map=None):
        self.form, self.extents, self.map = form, extents, extent_map


class Block:
    """What the block table says of a block."""

    def __init__(self, offset, raw_len, stored_len, pad_len, check=0):
        self.offset, self.raw_len, self.stored_len, self.pad_len, self.check = (
            offset, raw_len, stored_len, pad_len, check)


def distinct(items):
    return list(dict.fromkeys(items))


def block_columns(extents, own=None):
    """Columns 13, 14 and 15 for these extents (block, offset, length)."""
    blocks = distinct(block for block, _, _ in extents)
    table, before = uv(len(blocks)), 0
    for block in blocks:
        table += sv(block.offset - before) + uv(block.raw_len) + uv(block.stored_len) + uv(block.pad_len)
        table += struct.pack("<Q", 0 if block is own else block.check)
        before = block.offset
    indexes, offsets, index, last, end = b"", b"", 0, None, 0
    for block, offset, length in extents:
        indexes += sv(blocks.index(block) - index)
        index = blocks.index(block)
        offsets += sv(offset - (end if block is last else 0))
        last, end = block, offset + length
    return [table, indexes, offsets]


def extent_list(extents):
    return uv(len(extents)) + b"".join(uv(length * 2 + (block is HOLE)) for block, _, length in extents)


def attribute_set(attributes):
    return uv(len(attributes)) + b"".join(bytes([space]) + text(name) + text(value)
                                          for space, name, value in sorted(attributes))


def metadata_of(entry):
    return (entry.time is not None, entry.mode, entry.owner, entry.names, entry.attributes)


def record_list(entries, own=None):
    """Section 8. With `own`, for the directory of that block: form 2 is written as form 1 there (section 7)."""

    def form(entry):
        return 1 if own and entry.form == 2 else entry.form

    items = distinct(map(metadata_of, entries))
    sets = distinct(item[4] for item in items if item[4])
    table = uv(len(items))
    for has_time, mode, owner, names, attributes in items:
        table += bytes([has_time | (owner is not None) << 1 | (names is not None) << 2]) + uv(mode)
        table += b"".join(map(uv, owner or ())) + b"".join(map(text, names or ()))
        table += uv(sets.index(attributes) + 1 if attributes else 0)
    timed = [entry.time for entry in entries if entry.time]
    files = [entry for entry in entries if entry.kind == FILE]
    in_list = [entry for entry in files if form(entry) in (1, 2, 3)]
    columns = front_code([entry.path for entry in entries])
    columns += [
        bytes(entry.kind | form(entry) << 4 | entry.implied << 7 for entry in entries),
        b"".join(uv(items.index(metadata_of(entry))) for entry in entries),
        table,
        uv(len(sets)) + b"".join(map(attribute_set, sets)),
        b"".join(sv(b[0] - a[0]) for a, b in zip([(0, 0)] + timed, timed)),
        b"".join(uv(time[1]) for time in timed),
        b"".join(uv(len(entry.content)) for entry in files if entry.form),
        b"".join(uv(entry.group) for entry in files),
        b"".join(text(entry.target) for entry in entries if entry.kind == SYMLINK),
        b"".join(uv(entry.device[0]) + uv(entry.device[1]) for entry in entries
                 if entry.kind in (CHAR_DEVICE, BLOCK_DEVICE)),
        *block_columns([extent for entry in in_list for extent in entry.extents if extent[0] is not HOLE], own),
        b"".join(struct.pack("<I", hash64(entry.content, 0) & 0xFFFFFFFF) for entry in files if form(entry) == 2),
        b"".join(extent_list(entry.extents) for entry in files if entry.form == 3),
        b"".join(in_page(entry.map) for entry in files if entry.form == 4),
        b"".join(b"\1" + digest(entry.content) for entry in files if entry.form in (3, 4)),
    ]
    assert len(columns) == 20
    return uv(len(entries)) + b"".join(map(text, columns))


def in_page(reference):
    """A reference within a page: `uv` offset, `uv` length, check."""
    return uv(reference[0]) + uv(reference[1]) + struct.pack("<Q", reference[2])


# --- the archive -----------------------------------------------------------------------------------------------------


class Writer:
    """Appends frames to `data`; `finish_commit` closes a commit."""

    def __init__(self):
        head = bytearray(256)
        struct.pack_into("<4sHHII", head, 0, b"NRA\0", 5, 0, 0, 0)
        struct.pack_into("<Q", head, 56, hash64(bytes(head[:56]), 0))
        self.data = head
        self.link_groups = 0
        self.number = 1
        self.previous = self.archive_id = None
        self.totals = {"piece_bytes": 0, "stored_bytes": 0, "blocks": 0, "pieces": 0}
        self.new_pieces = []  # (key, offset of the block, number) of this commit
        self.runs = []

    def frame(self, kind, payload, codec=0, raw_len=None, directory=b"", pad_len=0, dictionary=0):
        """Section 6; returns (offset, whole length, check)."""
        offset = len(self.data)
        header = struct.pack("<4sBBHIIIIQQQQ", b"\x8aN\r\n", kind, codec, 0,
                             len(payload) if raw_len is None else raw_len, len(payload), pad_len, len(directory),
                             dictionary, hash64(payload, offset), hash64(directory, offset) if directory else 0,
                             self.number)
        check = hash64(header, offset)
        whole = header + struct.pack("<Q", check) + bytes(pad_len) + payload + directory
        whole += bytes(-len(whole) % 8)
        self.data += whole
        return offset, len(whole), check

    def page(self, kind, payload):
        packed = zstandard.ZstdCompressor().compress(payload)
        if len(packed) < len(payload):
            return self.frame(kind, packed, 1, len(payload))
        return self.frame(kind, payload)

    def block(self, pieces, entries=(), codec=0, align=1, dictionary=None, rest_codec=0):
        """Section 7. `entries(block, places)` gives the records that end in the block; places are the offsets."""
        offset = len(self.data)
        pad_len = -(offset + 64) % align
        raw, places, gaps = b"", [], b""
        for piece in pieces:
            gap = -len(raw) % align
            places.append(len(raw) + gap)
            raw += bytes(gap) + piece
            gaps += uv(gap)
        if codec == 1:
            data = dictionary and zstandard.ZstdCompressionDict(dictionary[1])
            stored = zstandard.ZstdCompressor(dict_data=data).compress(raw)
        elif codec == 2:
            stored = lz4.block.compress(raw, store_size=False)
        else:
            stored = raw
        block = Block(offset, len(raw), len(stored), pad_len)
        records = entries(block, places) if callable(entries) else list(entries)
        rest = b"".join(uv(len(piece)) for piece in pieces) + gaps + (record_list(records, block) if records else b"")
        packed = zstandard.ZstdCompressor().compress(rest) if rest_codec else rest
        rest_codec, packed = (rest_codec, packed) if len(packed) < len(rest) else (0, rest)
        directory = uv(len(pieces)) + b"".join(map(digest, pieces)) + bytes([rest_codec]) + uv(len(rest)) + packed
        self.new_pieces += [(int.from_bytes(digest(piece)[:5], "big"), offset, number)
                            for number, piece in enumerate(pieces)]
        self.totals["piece_bytes"] += sum(map(len, pieces))
        self.totals["stored_bytes"] += len(stored)
        self.totals["blocks"] += 1
        self.totals["pieces"] += len(pieces)
        block.check = self.frame(1, stored, codec, len(raw), directory, pad_len,
                                 dictionary[0] if dictionary else 0)[2]
        return block

    def extent_map(self, extents, per_leaf=1024):
        """Section 10: leaves and one root above them."""
        children = []
        for start in range(0, len(extents), per_leaf):
            part = extents[start:start + per_leaf]
            columns = block_columns([extent for extent in part if extent[0] is not HOLE])
            leaf = b"\0" + b"".join(map(text, columns)) + text(extent_list(part))
            children.append((self.page(4, leaf), sum(length for _, _, length in part)))
        if len(children) == 1:
            return children[0][0]
        return self.page(4, b"\1" + uv(len(children)) + b"".join(in_page(reference) + uv(content)
                                                                 for reference, content in children))

    def chunk_run(self, per_leaf):
        """Section 11: a run of the pieces of this commit."""
        pieces, children = sorted(self.new_pieces), []
        self.new_pieces = []
        for start in range(0, len(pieces), per_leaf):
            part = pieces[start:start + per_leaf]
            keys = uv(part[0][0]) + b"".join(uv(b[0] - a[0]) for a, b in zip(part, part[1:]))
            blocks = sorted({p[1] // 8 for p in part})
            table = uv(len(blocks)) + b"".join(uv(b - a) for a, b in zip([0] + blocks, blocks))
            leaf = b"\0" + uv(len(part)) + text(table) + text(keys)
            leaf += text(b"".join(uv(blocks.index(p[1] // 8)) for p in part))
            leaf += text(b"".join(uv(p[2]) for p in part))
            children.append((part[0][0], self.page(5, leaf), len(part)))
        if len(children) > 1:
            self.runs.append(self.page(5, b"\1" + uv(len(children)) + b"".join(
                uv(key) + in_page(reference) + uv(count) for key, reference, count in children)))
        elif children:
            self.runs.append(children[0][1])

    def entry_tree(self, entries, per_leaf, per_page):
        """Section 9; the entries are in path order. Children: (first path, path in front, reference, count, content)"""
        if not entries:
            return (0, 0, 0)
        level, nodes = 0, []
        for start in range(0, len(entries), per_leaf):
            part = entries[start:start + per_leaf]
            reference = self.page(3, b"\0" + record_list(part))
            nodes.append((part[0].path, entries[start - 1].path if start else None, reference, len(part),
                          sum(len(entry.content) for entry in part)))
        while len(nodes) > 1:
            level, lower, nodes = level + 1, nodes, []
            for start in range(0, len(lower), per_page):
                part = lower[start:start + per_page]
                keys = [b"" if front is None else first[:shared_bytes(front, first) + 1]
                        for first, front, _, _, _ in part]
                references = [node[2] for node in part]
                columns = front_code(keys) + [
                    b"".join(sv(b[0] - a[0]) for a, b in zip([(0, 0, 0)] + references, references)),
                    b"".join(uv(reference[1]) for reference in references),
                    b"".join(struct.pack("<Q", reference[2]) for reference in references),
                    b"".join(uv(node[3]) for node in part),
                    b"".join(uv(node[4]) for node in part),
                ]
                page = self.page(3, bytes([level]) + uv(len(part)) + b"".join(map(text, columns)))
                nodes.append((part[0][0], part[0][1], page, sum(node[3] for node in part),
                              sum(node[4] for node in part)))
        return nodes[0][2]

    def finish_commit(self, entries, time=None, message="", attributes=(), per_leaf=1000, per_page=1000):
        """Chunk run, attributes, entry tree, commit and tail (sections 3, 13 and 14)."""
        entries = sorted(entries, key=lambda entry: order(entry.path))
        self.chunk_run(per_leaf)
        attribute_frame = self.page(6, attribute_set(attributes)) if attributes else (0, 0, 0)
        root = self.entry_tree(entries, per_leaf, per_page)
        files = [entry for entry in entries if entry.kind == FILE]
        self.link_groups = max([self.link_groups] + [entry.group for entry in files])
        message = message.encode()
        payload = struct.pack(
            "<QqIIQQQQQQQ", self.number, *(time or (0, 0)), time is not None, len(entries), len(files),
            sum(len(entry.content) for entry in files), self.totals["piece_bytes"], self.totals["stored_bytes"],
            self.totals["blocks"], self.totals["pieces"])
        for reference in (root, self.previous or (0, 0, 0), attribute_frame, (0, 0, 0)):
            payload += struct.pack("<QQQ", *reference)
        payload += struct.pack("<QII", self.link_groups, len(self.runs), len(message))
        payload += b"".join(struct.pack("<QQQ", *run) for run in self.runs) + message
        self.archive_id = self.archive_id or blake3(payload).digest()[:16]
        self.previous = self.frame(7, self.archive_id + payload)
        place = len(self.data)
        tail = struct.pack("<8sHHIQQQQQ", b"NRATAIL\n", 5, 0, 0, self.previous[0], self.previous[1], 0, 0, self.number)
        self.data += tail + struct.pack("<Q", hash64(tail, place))

    def begin_append(self):
        """Section 17: remember the present state in a slot."""
        place = 64 if self.number % 2 else 128
        slot = struct.pack("<8sQQ32x", b"NRASLOT\n", self.number, len(self.data))
        self.data[place:place + 64] = slot + struct.pack("<Q", hash64(slot, place))
        self.number += 1


# --- the two archives ------------------------------------------------------------------------------------------------


class Built:
    """A finished archive: its bytes, and its entries in path order."""

    def __init__(self, data, entries):
        self.data, self.entries = bytes(data), sorted(entries, key=lambda entry: order(entry.path))


@functools.lru_cache(None)
def tiny():
    """One commit with a raw and a zstd block."""
    writer = Writer()
    noise = blake3(b"noise").digest(40)
    time, owner, names = (1_700_000_000, 5), (1000, 100), (b"ann", b"users")
    raw = Entry(b"raw.bin", content=noise, time=(-1, 999_999_999), mode=0o4755)
    writer.block([noise], lambda block, places: [raw.stored_at(2, [(block, 0, len(noise))]) or raw])
    one, two = b"one file of text\n" * 9, b"another one\n" * 5
    entries = [
        Entry(b"d", DIR, time=time),
        Entry(b"d/text", content=one, time=time, owner=owner, names=names),
        Entry(b"d/link", SYMLINK, target=b"../nowhere", time=time),
        Entry(b"d!", FILE, content=b"", attributes=[(0, b"user.tag", b"\xff\x00"), (1, b"colour", b"red")]),
        Entry(b"hard-\xff", content=two, group=1, time=time),
        Entry(b"hard-b", content=two, group=1, time=time),
        Entry(b"i", DIR, implied=True),
        Entry(b"i/null", CHAR_DEVICE, device=(1, 3)),
        Entry(b"i/fifo", FIFO, mode=0o600),
        Entry(b"sparse", content=bytes(10) + one[:4] + two + bytes(3)),
    ]
    by_path = {entry.path: entry for entry in entries}

    def place(block, places):
        by_path[b"d/text"].stored_at(1, [(block, places[0], len(one))])
        for path in (b"hard-\xff", b"hard-b"):
            by_path[path].stored_at(1, [(block, places[1], len(two))])
        by_path[b"sparse"].stored_at(3, [(HOLE, 0, 10), (block, places[0], 4), (block, places[1], len(two)),
                                         (HOLE, 0, 3)])
        return entries

    writer.block([one, two], place, codec=1)
    entries = entries + [raw]
    writer.finish_commit(entries, time=(1_700_000_001, 0))
    return Built(writer.data, entries)


@functools.lru_cache(None)
def rich():
    """Two commits with nearly all that an archive may have."""
    writer = Writer()
    samples = [b"{\"number\": %d, \"name\": \"sample %d\", \"half\": %d}\n" % (i, i * i, i // 2) for i in range(2000)]
    dictionary = zstandard.train_dictionary(1024, samples).as_bytes()
    at = writer.frame(2, dictionary)[0]
    small = [Entry(b"many/%03d.json" % i, content=samples[i], time=(1000 - i, i)) for i in range(60)]

    def place_small(block, places):
        for entry, offset in zip(small, places):
            entry.stored_at(1, [(block, offset, len(entry.content))])
        return small

    writer.block([entry.content for entry in small], place_small, 1, dictionary=(at, dictionary), rest_codec=1)
    noise = [blake3(b"noise %d" % i).digest(50 + i) for i in range(3)]
    raw = [Entry(b"raw/%d" % i, content=data) for i, data in enumerate(noise)]

    def place_raw(block, places):
        for entry, offset in zip(raw, places):
            entry.stored_at(2, [(block, offset, len(entry.content))])
        return [Entry(b"many", DIR), Entry(b"raw", DIR)] + raw

    writer.block(noise, place_raw, align=64)
    letters = bytes(range(65, 91)) * 50
    letter_block = writer.block([letters], codec=2)
    # A file of 1,200 extents and holes, each a byte long, backwards through the block.
    extents = [(HOLE, 0, 1) if i % 2 else (letter_block, 1200 - i, 1) for i in range(1200)]
    content = b"".join(b"\0" if block is HOLE else letters[offset:offset + 1] for block, offset, _ in extents)
    mapped = Entry(b"mapped", content=content)
    mapped.stored_at(4, extents, writer.extent_map(extents, 700))
    writer.block([], [mapped], rest_codec=1)  # a block of records only
    entries = small + raw + [Entry(b"many", DIR), Entry(b"raw", DIR), mapped]
    writer.finish_commit(entries, (5, 6), "first", [(1, b"name", b"rich"), (2, b"root-mode", b"755")], 7, 4)

    # An append: one entry removed, one renamed, one changed, one new.
    writer.begin_append()
    renamed = Entry(b"renamed", content=small[1].content, time=small[1].time)
    renamed.stored_at(1, small[1].extents)
    changed, new = Entry(b"many/002.json", content=b"changed" * 20), Entry(b"many/new", content=b"new" * 30)

    def place_new(block, places):
        changed.stored_at(1, [(block, places[0], len(changed.content))])
        new.stored_at(1, [(block, places[1], len(new.content))])
        return [renamed, changed, new]

    writer.block([changed.content, new.content], place_new, 1)
    gone = (small[0], small[1], small[2])
    entries = [entry for entry in entries if entry not in gone] + [renamed, changed, new]
    writer.finish_commit(entries, None, "second \N{BLACK STAR}", (), 7, 4)
    return Built(writer.data, entries)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("tiny", "rich"):
        sys.exit(__doc__)
    with open(sys.argv[2], "wb") as output:
        output.write({"tiny": tiny, "rich": rich}[sys.argv[1]]().data)
