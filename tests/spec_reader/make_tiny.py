#!/usr/bin/env python3
"""A tiny writer of the NRA format, version 5, written from docs/format/nra.md alone.

It shares no code with nra5.py. It writes small archives with fixed content for tests of readers:

    make_tiny.py tiny FILE    two blocks (uncompressed and zstd), directories, symlink, hard links,
                              a sparse file, one leaf page
    make_tiny.py rich FILE    also dictionary, lz4, alignment, extent map, inner pages, archive
                              attributes, a second commit

Section numbers in comments refer to the specification.
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


# --- values (section 2) ---------------------------------------------------------------------------


def uv(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def sv(difference):
    """Encodes a difference of 64-bit values."""
    difference &= MASK
    if difference >> 63:
        difference -= 1 << 64
    return uv((difference << 1 ^ difference >> 63) & MASK)


def sized(data):
    """`uv` length and the bytes."""
    return uv(len(data)) + data


def checksum(data, seed):
    """Section 2: XXH3-64 of data."""
    return xxhash.xxh3_64_intdigest(data, seed=seed)


def digest(data):
    """Section 1: the first 24 bytes of BLAKE3."""
    return blake3(data).digest(24)


def path_order(path):
    """Section 8.1: sort key for path order."""
    return [-1 if byte == 0x2F else byte for byte in path]


def shared_bytes(a, b):
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


def front_code(strings):
    """Section 8: returns the three columns of front coded strings."""
    shared = [shared_bytes(a, b) for a, b in zip([b""] + strings, strings)]
    return [
        b"".join(map(uv, shared)),
        b"".join(uv(len(s) - n) for s, n in zip(strings, shared)),
        b"".join(s[n:] for s, n in zip(strings, shared)),
    ]


# --- entries and record lists (section 8) ---------------------------------------------------------


class Entry:
    def __init__(
        self,
        path,
        kind=FILE,
        content=b"",
        mode=None,
        time=None,
        owner=None,
        names=None,
        attributes=(),
        target=b"",
        device=(0, 0),
        group=0,
        implied=False,
    ):
        self.path, self.kind, self.content, self.time = path, kind, content, time
        self.mode = DEFAULT_MODES.get(kind, 0o600) if mode is None else mode
        self.owner, self.names, self.attributes = owner, names, tuple(sorted(attributes))
        self.target, self.device, self.group, self.implied = target, device, group, implied
        self.form, self.extents, self.map = 0, [], None  # set by stored_at

    def stored_at(self, form, extents, extent_map=None):
        """Records where the content was written."""
        self.form, self.extents, self.map = form, extents, extent_map


class Block:
    """A block as described by a row of the block table."""

    def __init__(self, offset, raw_len, stored_len, pad_len, header_checksum=0):
        self.offset, self.raw_len, self.stored_len, self.pad_len, self.header_checksum = (
            offset,
            raw_len,
            stored_len,
            pad_len,
            header_checksum,
        )


def distinct(values):
    """Removes duplicates and keeps the order of first use."""
    return list(dict.fromkeys(values))


def block_columns(extents, own=None):
    """Section 8.4: columns 13, 14 and 15 for these extents (block, offset, length)."""
    blocks = distinct(block for block, _, _ in extents)
    table, previous_offset = uv(len(blocks)), 0
    for block in blocks:
        table += sv(block.offset - previous_offset) + uv(block.raw_len) + uv(block.stored_len) + uv(block.pad_len)
        table += struct.pack("<Q", 0 if block is own else block.header_checksum)
        previous_offset = block.offset
    indexes, offsets, index, previous, end = b"", b"", 0, None, 0
    for block, offset, length in extents:
        indexes += sv(blocks.index(block) - index)
        index = blocks.index(block)
        offsets += sv(offset - (end if block is previous else 0))
        previous, end = block, offset + length
    return [table, indexes, offsets]


def extent_list(extents):
    return uv(len(extents)) + b"".join(uv(length * 2 + (block is HOLE)) for block, _, length in extents)


def attribute_set(attributes):
    return uv(len(attributes)) + b"".join(
        bytes([space]) + sized(name) + sized(value) for space, name, value in sorted(attributes)
    )


def metadata_of(entry):
    return (entry.time is not None, entry.mode, entry.owner, entry.names, entry.attributes)


def record_list(entries, own=None):
    """Section 8. With `own`, the list is for the index of that block (section 7).

    A block index uses form 1 instead of form 2.
    """

    def form(entry):
        return 1 if own and entry.form == 2 else entry.form

    rows = distinct(map(metadata_of, entries))
    sets = distinct(row[4] for row in rows if row[4])
    table = uv(len(rows))
    for has_time, mode, owner, names, attributes in rows:
        table += bytes([has_time | (owner is not None) << 1 | (names is not None) << 2]) + uv(mode)
        table += b"".join(map(uv, owner or ())) + b"".join(map(sized, names or ()))
        table += uv(sets.index(attributes) + 1 if attributes else 0)
    timed = [entry.time for entry in entries if entry.time]
    files = [entry for entry in entries if entry.kind == FILE]
    with_extents = [entry for entry in files if form(entry) in (1, 2, 3)]
    columns = front_code([entry.path for entry in entries])
    columns += [
        bytes(entry.kind | form(entry) << 4 | entry.implied << 7 for entry in entries),
        b"".join(uv(rows.index(metadata_of(entry))) for entry in entries),
        table,
        uv(len(sets)) + b"".join(map(attribute_set, sets)),
        b"".join(sv(b[0] - a[0]) for a, b in zip([(0, 0)] + timed, timed)),
        b"".join(uv(time[1]) for time in timed),
        b"".join(uv(len(entry.content)) for entry in files if entry.form),
        b"".join(uv(entry.group) for entry in files),
        b"".join(sized(entry.target) for entry in entries if entry.kind == SYMLINK),
        b"".join(
            uv(entry.device[0]) + uv(entry.device[1]) for entry in entries if entry.kind in (CHAR_DEVICE, BLOCK_DEVICE)
        ),
        *block_columns([extent for entry in with_extents for extent in entry.extents if extent[0] is not HOLE], own),
        b"".join(struct.pack("<I", checksum(entry.content, 0) & 0xFFFFFFFF) for entry in files if form(entry) == 2),
        b"".join(extent_list(entry.extents) for entry in files if entry.form == 3),
        b"".join(compact(entry.map) for entry in files if entry.form == 4),
        b"".join(b"\1" + digest(entry.content) for entry in files if entry.form in (3, 4)),
    ]
    assert len(columns) == 20
    return uv(len(entries)) + b"".join(map(sized, columns))


def compact(reference):
    """Section 2: the compact form of a reference."""
    return uv(reference[0]) + uv(reference[1]) + struct.pack("<Q", reference[2])


# --- the archive ----------------------------------------------------------------------------------


class Writer:
    """Appends frames to `data`. `finish_commit` writes commit frame and footer."""

    def __init__(self):
        superblock = bytearray(256)
        struct.pack_into("<4sHHII", superblock, 0, b"NRA\0", 5, 0, 0, 0)
        struct.pack_into("<Q", superblock, 56, checksum(bytes(superblock[:56]), 0))
        self.data = superblock
        self.link_groups = 0
        self.number = 1
        self.previous = self.archive_id = None
        self.totals = {"chunk_bytes": 0, "stored_bytes": 0, "blocks": 0, "chunks": 0}
        self.new_chunks = []  # (key, block offset, number) for the chunks of this commit
        self.runs = []

    def frame(self, kind, payload, codec=0, raw_len=None, block_index=b"", pad_len=0, dictionary=0):
        """Section 6: returns the reference (offset, frame length, header checksum)."""
        offset = len(self.data)
        header = struct.pack(
            "<4sBBHIIIIQQQQ",
            b"\x8aN\r\n",
            kind,
            codec,
            0,
            len(payload) if raw_len is None else raw_len,
            len(payload),
            pad_len,
            len(block_index),
            dictionary,
            checksum(payload, offset),
            checksum(block_index, offset) if block_index else 0,
            self.number,
        )
        header_checksum = checksum(header, offset)
        frame = header + struct.pack("<Q", header_checksum) + bytes(pad_len) + payload + block_index
        frame += bytes(-len(frame) % 8)
        self.data += frame
        return offset, len(frame), header_checksum

    def page(self, kind, payload):
        compressed = zstandard.ZstdCompressor().compress(payload)
        if len(compressed) < len(payload):
            return self.frame(kind, compressed, 1, len(payload))
        return self.frame(kind, payload)

    def block(self, chunks, entries=(), codec=0, align=1, dictionary=None, body_codec=0):
        """Section 7. `entries(block, offsets)` returns the entries to record in the block index.

        `offsets` are those of the chunks in the raw payload.
        """
        offset = len(self.data)
        pad_len = -(offset + 64) % align
        raw, offsets, gaps = b"", [], b""
        for chunk in chunks:
            gap = -len(raw) % align
            offsets.append(len(raw) + gap)
            raw += bytes(gap) + chunk
            gaps += uv(gap)
        if codec == 1:
            data = dictionary and zstandard.ZstdCompressionDict(dictionary[1])
            stored = zstandard.ZstdCompressor(dict_data=data).compress(raw)
        elif codec == 2:
            stored = lz4.block.compress(raw, store_size=False)
        else:
            stored = raw
        block = Block(offset, len(raw), len(stored), pad_len)
        records = entries(block, offsets) if callable(entries) else list(entries)
        body = b"".join(uv(len(chunk)) for chunk in chunks) + gaps + (record_list(records, block) if records else b"")
        stored_body = zstandard.ZstdCompressor().compress(body) if body_codec else body
        body_codec, stored_body = (body_codec, stored_body) if len(stored_body) < len(body) else (0, body)
        block_index = uv(len(chunks)) + b"".join(map(digest, chunks))
        block_index += bytes([body_codec]) + uv(len(body)) + stored_body
        self.new_chunks += [
            (int.from_bytes(digest(chunk)[:5], "big"), offset, number) for number, chunk in enumerate(chunks)
        ]
        self.totals["chunk_bytes"] += sum(map(len, chunks))
        self.totals["stored_bytes"] += len(stored)
        self.totals["blocks"] += 1
        self.totals["chunks"] += len(chunks)
        block.header_checksum = self.frame(
            1, stored, codec, len(raw), block_index, pad_len, dictionary[0] if dictionary else 0
        )[2]
        return block

    def extent_map(self, extents, per_leaf=1024):
        """Section 10: leaf pages and a root page."""
        children = []
        for start in range(0, len(extents), per_leaf):
            part = extents[start : start + per_leaf]
            columns = block_columns([extent for extent in part if extent[0] is not HOLE])
            leaf = b"\0" + b"".join(map(sized, columns)) + sized(extent_list(part))
            children.append((self.page(4, leaf), sum(length for _, _, length in part)))
        if len(children) == 1:
            return children[0][0]
        return self.page(
            4, b"\1" + uv(len(children)) + b"".join(compact(reference) + uv(content) for reference, content in children)
        )

    def chunk_run(self, per_leaf):
        """Section 11: a run of the chunks of this commit."""
        chunks, children = sorted(self.new_chunks), []
        self.new_chunks = []
        for start in range(0, len(chunks), per_leaf):
            part = chunks[start : start + per_leaf]
            keys = uv(part[0][0]) + b"".join(uv(b[0] - a[0]) for a, b in zip(part, part[1:]))
            blocks = sorted({chunk[1] // 8 for chunk in part})
            table = uv(len(blocks)) + b"".join(uv(b - a) for a, b in zip([0] + blocks, blocks))
            leaf = b"\0" + uv(len(part)) + sized(table) + sized(keys)
            leaf += sized(b"".join(uv(blocks.index(chunk[1] // 8)) for chunk in part))
            leaf += sized(b"".join(uv(chunk[2]) for chunk in part))
            children.append((part[0][0], self.page(5, leaf), len(part)))
        if len(children) > 1:
            self.runs.append(
                self.page(
                    5,
                    b"\1"
                    + uv(len(children))
                    + b"".join(uv(key) + compact(reference) + uv(count) for key, reference, count in children),
                )
            )
        elif children:
            self.runs.append(children[0][1])

    def entry_tree(self, entries, per_leaf, per_page):
        """Section 9: writes the tree of sorted entries, returns a reference to its root page.

        A page is (first path, preceding path, reference, number of entries, content bytes).
        """
        if not entries:
            return (0, 0, 0)
        level, pages = 0, []
        for start in range(0, len(entries), per_leaf):
            part = entries[start : start + per_leaf]
            reference = self.page(3, b"\0" + record_list(part))
            pages.append(
                (
                    part[0].path,
                    entries[start - 1].path if start else None,
                    reference,
                    len(part),
                    sum(len(entry.content) for entry in part),
                )
            )
        while len(pages) > 1:
            level, children, pages = level + 1, pages, []
            for start in range(0, len(children), per_page):
                part = children[start : start + per_page]
                keys = [
                    b"" if preceding is None else first[: shared_bytes(preceding, first) + 1]
                    for first, preceding, _, _, _ in part
                ]
                references = [child[2] for child in part]
                columns = front_code(keys) + [
                    b"".join(sv(b[0] - a[0]) for a, b in zip([(0, 0, 0)] + references, references)),
                    b"".join(uv(reference[1]) for reference in references),
                    b"".join(struct.pack("<Q", reference[2]) for reference in references),
                    b"".join(uv(child[3]) for child in part),
                    b"".join(uv(child[4]) for child in part),
                ]
                page = self.page(3, bytes([level]) + uv(len(part)) + b"".join(map(sized, columns)))
                pages.append(
                    (part[0][0], part[0][1], page, sum(child[3] for child in part), sum(child[4] for child in part))
                )
        return pages[0][2]

    def finish_commit(self, entries, time=None, message="", attributes=(), per_leaf=1000, per_page=1000):
        """Writes chunk run, attributes, entry tree, commit frame and footer (section 3)."""
        entries = sorted(entries, key=lambda entry: path_order(entry.path))
        self.chunk_run(per_leaf)
        attribute_frame = self.page(6, attribute_set(attributes)) if attributes else (0, 0, 0)
        root = self.entry_tree(entries, per_leaf, per_page)
        files = [entry for entry in entries if entry.kind == FILE]
        self.link_groups = max([self.link_groups] + [entry.group for entry in files])
        message = message.encode()
        payload = struct.pack(
            "<QqIIQQQQQQQ",
            self.number,
            *(time or (0, 0)),
            time is not None,
            len(entries),
            len(files),
            sum(len(entry.content) for entry in files),
            self.totals["chunk_bytes"],
            self.totals["stored_bytes"],
            self.totals["blocks"],
            self.totals["chunks"],
        )
        for reference in (root, self.previous or (0, 0, 0), attribute_frame, (0, 0, 0)):
            payload += struct.pack("<QQQ", *reference)
        payload += struct.pack("<QII", self.link_groups, len(self.runs), len(message))
        payload += b"".join(struct.pack("<QQQ", *run) for run in self.runs) + message
        self.archive_id = self.archive_id or blake3(payload).digest()[:16]
        self.previous = self.frame(7, self.archive_id + payload)
        offset = len(self.data)
        footer = struct.pack(
            "<8sHHIQQQQQ", b"NRATAIL\n", 5, 0, 0, self.previous[0], self.previous[1], 0, 0, self.number
        )
        self.data += footer + struct.pack("<Q", checksum(footer, offset))

    def begin_append(self):
        """Section 17, step 3: records the end of the newest commit in a commit slot."""
        offset = 64 if self.number % 2 else 128
        slot = struct.pack("<8sQQ32x", b"NRASLOT\n", self.number, len(self.data))
        self.data[offset : offset + 64] = slot + struct.pack("<Q", checksum(slot, offset))
        self.number += 1


# --- the two archives -----------------------------------------------------------------------------


class Built:
    """A complete archive: its bytes, and its entries in path order."""

    def __init__(self, data, entries):
        self.data, self.entries = bytes(data), sorted(entries, key=lambda entry: path_order(entry.path))


@functools.lru_cache(None)
def tiny():
    """One commit with an uncompressed block and a zstd block."""
    writer = Writer()
    noise = blake3(b"noise").digest(40)
    time, owner, names = (1_700_000_000, 5), (1000, 100), (b"ann", b"users")
    uncompressed = Entry(b"raw.bin", content=noise, time=(-1, 999_999_999), mode=0o4755)
    writer.block([noise], lambda block, offsets: [uncompressed.stored_at(2, [(block, 0, len(noise))]) or uncompressed])
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

    def record(block, offsets):
        by_path[b"d/text"].stored_at(1, [(block, offsets[0], len(one))])
        for path in (b"hard-\xff", b"hard-b"):
            by_path[path].stored_at(1, [(block, offsets[1], len(two))])
        by_path[b"sparse"].stored_at(
            3, [(HOLE, 0, 10), (block, offsets[0], 4), (block, offsets[1], len(two)), (HOLE, 0, 3)]
        )
        return entries

    writer.block([one, two], record, codec=1)
    entries = entries + [uncompressed]
    writer.finish_commit(entries, time=(1_700_000_001, 0))
    return Built(writer.data, entries)


@functools.lru_cache(None)
def rich():
    """Two commits with nearly all features of the format."""
    writer = Writer()
    samples = [b'{"number": %d, "name": "sample %d", "half": %d}\n' % (i, i * i, i // 2) for i in range(2000)]
    dictionary = zstandard.train_dictionary(1024, samples).as_bytes()
    dictionary_offset = writer.frame(2, dictionary)[0]
    small = [Entry(b"many/%03d.json" % i, content=samples[i], time=(1000 - i, i)) for i in range(60)]

    def record_small(block, offsets):
        for entry, offset in zip(small, offsets):
            entry.stored_at(1, [(block, offset, len(entry.content))])
        return small

    writer.block(
        [entry.content for entry in small], record_small, 1, dictionary=(dictionary_offset, dictionary), body_codec=1
    )
    noise = [blake3(b"noise %d" % i).digest(50 + i) for i in range(3)]
    uncompressed = [Entry(b"raw/%d" % i, content=data) for i, data in enumerate(noise)]

    def record_uncompressed(block, offsets):
        for entry, offset in zip(uncompressed, offsets):
            entry.stored_at(2, [(block, offset, len(entry.content))])
        return [Entry(b"many", DIR), Entry(b"raw", DIR)] + uncompressed

    writer.block(noise, record_uncompressed, align=64)
    letters = bytes(range(65, 91)) * 50
    letter_block = writer.block([letters], codec=2)
    # A file of 1,200 extents and holes of one byte each, backwards through the block.
    extents = [(HOLE, 0, 1) if i % 2 else (letter_block, 1200 - i, 1) for i in range(1200)]
    content = b"".join(b"\0" if block is HOLE else letters[offset : offset + 1] for block, offset, _ in extents)
    mapped = Entry(b"mapped", content=content)
    mapped.stored_at(4, extents, writer.extent_map(extents, 700))
    writer.block([], [mapped], body_codec=1)  # a block without chunks
    entries = small + uncompressed + [Entry(b"many", DIR), Entry(b"raw", DIR), mapped]
    writer.finish_commit(entries, (5, 6), "first", [(1, b"name", b"rich"), (2, b"root-mode", b"755")], 7, 4)

    # An append: one entry removed, one renamed, one changed, one new.
    writer.begin_append()
    renamed = Entry(b"renamed", content=small[1].content, time=small[1].time)
    renamed.stored_at(1, small[1].extents)
    changed, new = Entry(b"many/002.json", content=b"changed" * 20), Entry(b"many/new", content=b"new" * 30)

    def record_new(block, offsets):
        changed.stored_at(1, [(block, offsets[0], len(changed.content))])
        new.stored_at(1, [(block, offsets[1], len(new.content))])
        return [renamed, changed, new]

    writer.block([changed.content, new.content], record_new, 1)
    removed = (small[0], small[1], small[2])
    entries = [entry for entry in entries if entry not in removed] + [renamed, changed, new]
    writer.finish_commit(entries, None, "second \N{BLACK STAR}", (), 7, 4)
    return Built(writer.data, entries)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("tiny", "rich"):
        sys.exit(__doc__)
    with open(sys.argv[2], "wb") as output:
        output.write({"tiny": tiny, "rich": rich}[sys.argv[1]]().data)
