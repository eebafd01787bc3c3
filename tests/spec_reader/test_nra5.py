#!/usr/bin/env python3
"""Tests of nra5.py on archives of make_tiny.py and on all archives in tests/golden.

Run with `python3 -m unittest discover -s tests/spec_reader`. A golden archive NAME.nra may have an
expectation NAME.json in the form of `nra5.py json`. Every field of the expectation must be in the
document; other fields of the document are not compared. Archives that the reader does not support
(other versions) are skipped.
"""

import contextlib
import io
import json
import os
import pathlib
import random
import struct
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import make_tiny  # noqa: E402
import nra5  # noqa: E402

# The key of the encrypted golden archive.
os.environ["NRA_ENCRYPTION_KEY"] = bytes(range(32)).hex()

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"


def content_of(archive):
    """Returns {path: (kind, content, target)} of an Archive or a Scan."""
    return {entry.path: (entry.kind, archive.read(entry), entry.target or b"") for entry in archive.entries()}


def expected_content(built):
    return {entry.path: (entry.kind, entry.content, entry.target) for entry in built.entries}


def run(*arguments):
    """Runs a command line. Returns (exit status, standard output)."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        status = nra5.main([str(argument) for argument in arguments])
    output.flush()
    return status, output.buffer.getvalue()


class Values(unittest.TestCase):
    def test_uv_accepts_only_the_shortest_encoding(self):
        for value in (0, 1, 127, 128, 300, 1 << 63, (1 << 64) - 1):
            self.assertEqual(nra5.Cursor(make_tiny.uv(value), "").uv(), value)
        for bad in ("8000", "ff00", "ffffffffffffffffff02", "80808080808080808080", "80", ""):
            with self.assertRaises(nra5.Rejected):
                nra5.Cursor(bytes.fromhex(bad), "").uv()

    def test_sv_round_trip(self):
        self.assertEqual([nra5.Cursor(bytes([n]), "").sv() for n in range(5)], [0, -1, 1, -2, 2])
        for value in (0, 5, -5, (1 << 63) - 1, -(1 << 63)):
            self.assertEqual(nra5.Cursor(make_tiny.sv(value), "").sv(), value)

    def test_path_order_sorts_descendants_after_their_directory(self):
        paths = [b"a", b"a/x", b"a/x/y", b"a\x01", b"a!", b"b"]
        for _ in range(5):
            self.assertEqual(sorted(random.sample(paths, len(paths)), key=nra5.path_key), paths)

    def test_check_path_rejects_invalid_paths(self):
        for bad in (b"", b"/a", b"a/", b"a//b", b".", b"a/..", b"a\0b", b"x" * 65536):
            with self.assertRaises(nra5.Rejected):
                nra5.check_path(bad)
        for good in (b"a", b"...", b"a/.b", b"\xff", b"x" * 65535):
            nra5.check_path(good)

    def test_decompress_rejects_wrong_lengths(self):
        compressed = nra5.zstandard.ZstdCompressor(write_content_size=False).compress(b"a" * 100)
        self.assertEqual(nra5.decompress(1, compressed, 100), b"a" * 100)
        for data, length in ((compressed, 99), (compressed, 101), (compressed + b"x", 100), (compressed[:-1], 100)):
            with self.assertRaises(nra5.Rejected):
                nra5.decompress(1, data, length)
        compressed = nra5.lz4.block.compress(b"a" * 100, store_size=False)
        self.assertEqual(nra5.decompress(2, compressed, 100), b"a" * 100)
        for data, length in ((compressed, 99), (compressed, 101), (compressed + b"x", 100), (compressed[:-1], 100)):
            with self.assertRaises(nra5.Rejected):
                nra5.decompress(2, data, length)


class Reading(unittest.TestCase):
    def test_archive_and_find_return_all_entries(self):
        for built in (make_tiny.tiny(), make_tiny.rich()):
            self.assertEqual(nra5.Verifier(built.data).problems, [])
            archive = nra5.Archive(built.data)
            self.assertEqual(content_of(archive), expected_content(built))
            self.assertEqual([entry.path for entry in archive.entries()], [entry.path for entry in built.entries])
            for wanted in built.entries:
                entry = archive.find(wanted.path)
                self.assertEqual(
                    (entry.mode, entry.time, entry.owner, entry.names, entry.attributes),
                    (wanted.mode, wanted.time, wanted.owner, wanted.names, wanted.attributes),
                )
                self.assertEqual(
                    (entry.device or (0, 0), entry.link_group, entry.implied, entry.form),
                    (wanted.device, wanted.group, wanted.implied, wanted.form),
                )
            for path in (b"", b"0", b"d/", b"many/002.jsom", b"zz"):
                self.assertIsNone(archive.find(path))

    def test_archive_opens_the_newest_commit(self):
        archive = nra5.Archive(make_tiny.rich().data)
        self.assertEqual((archive.commit.number, archive.commit.message), (2, "second \N{BLACK STAR}"))
        paths = {entry.path for entry in archive.entries()}
        self.assertNotIn(b"many/000.json", paths)
        self.assertIn(b"renamed", paths)

    def test_scan_finds_all_entries_and_reports_former_names(self):
        built = make_tiny.tiny()
        self.assertEqual(content_of(nra5.Scan(built.data)), expected_content(built))
        built = make_tiny.rich()
        scan = nra5.Scan(built.data)
        self.assertTrue(any("more than one commit" in note for note in scan.notes))
        wanted = expected_content(built)
        found = content_of(scan)
        self.assertEqual({path: found[path] for path in wanted}, wanted)
        self.assertEqual(set(found) - set(wanted), {b"many/000.json", b"many/001.json"})

    def test_scan_discards_earlier_record_of_conflicting_paths(self):
        def kept(*records):
            table = {path: types.SimpleNamespace(path=path, kind=kind) for path, kind in records}
            return set(nra5.discard_former(table))

        self.assertEqual(kept((b"a", nra5.FILE), (b"a/x", nra5.FILE)), {b"a/x"})
        self.assertEqual(kept((b"a/x", nra5.FILE), (b"a", nra5.FILE)), {b"a"})
        self.assertEqual(kept((b"a", nra5.DIR), (b"a/x", nra5.FILE), (b"b", nra5.FILE)), {b"a", b"a/x", b"b"})
        self.assertEqual(kept((b"a/x", nra5.FILE), (b"a/x/y", nra5.FILE), (b"a", nra5.FILE)), {b"a"})

    def test_empty_archive(self):
        writer = make_tiny.Writer()
        writer.finish_commit([])
        self.assertEqual(nra5.Verifier(writer.data).problems, [])
        self.assertEqual(content_of(nra5.Archive(writer.data)), {})

    def test_command_line_reports_content_and_exit_status(self):
        built = make_tiny.tiny()
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "tiny.nra")
            file.write_bytes(built.data)
            status, output = run("list", file)
            self.assertEqual((status, len(output.splitlines())), (0, len(built.entries)))
            self.assertEqual(run("scan", file), (status, output))
            self.assertEqual(run("cat", file, "d/text"), (0, b"one file of text\n" * 9))
            self.assertEqual(run("cat", file, "none")[0], 1)
            self.assertEqual(run("check", file)[0], 0)
            by_index, by_scan = (
                json.loads(run(*arguments)[1]) for arguments in (("json", file), ("json", "--scan", file))
            )
            self.assertEqual(by_index["entries"], by_scan["entries"])
            file.write_bytes(built.data[:-1])
            self.assertEqual([run(command, file)[0] for command in ("list", "check", "scan")], [1, 1, 0])


class Damage(unittest.TestCase):
    def check_reports(self, data, wanted):
        """Returns whether `check` reports a problem. If not, the content must be correct."""
        try:
            problems = nra5.Verifier(data).problems
        except nra5.Unsupported as error:
            problems = [str(error)]
        if not problems:
            self.assertEqual(content_of(nra5.Archive(data)), wanted)
        return bool(problems)

    def assert_content_correct(self, blocks, wanted):
        """Asserts that each entry has the wanted content or is rejected."""
        for entry in blocks.entries():
            try:
                content = blocks.read(entry)
            except nra5.Rejected:
                continue
            self.assertEqual((entry.kind, content, entry.target or b""), wanted[entry.path])

    def flips(self, built, step):
        """Yields the archive with one flipped bit in each `step`th byte."""
        for offset in range(0, len(built.data), step):
            data = bytearray(built.data)
            data[offset] ^= 1 << offset // step % 8
            yield offset, bytes(data)

    def test_flipped_bit_in_every_byte_is_reported(self):
        built = make_tiny.tiny()
        wanted = expected_content(built)
        for offset, data in self.flips(built, 1):
            with self.subTest(offset=offset):
                self.assertTrue(self.check_reports(data, wanted))
                with contextlib.suppress(nra5.Unsupported):
                    self.assert_content_correct(nra5.Scan(data), wanted)
                with contextlib.suppress(nra5.Rejected):
                    self.assert_content_correct(nra5.Archive(data), wanted)

    def test_flipped_bits_in_rich_archive_are_reported(self):
        built = make_tiny.rich()
        wanted = expected_content(built)
        for offset, data in self.flips(built, 61):
            with self.subTest(offset=offset):
                self.assertTrue(self.check_reports(data, wanted))

    def test_truncated_archive_is_rejected_and_scanned(self):
        built = make_tiny.tiny()
        wanted = expected_content(built)
        for length in range(0, len(built.data), 8):
            data = built.data[:length]
            with self.subTest(length=length):
                with self.assertRaises(nra5.Rejected):
                    nra5.Archive(data)
                self.assertTrue(nra5.Verifier(data).problems)
                self.assert_content_correct(nra5.Scan(data), wanted)

    def test_scan_finds_all_entries_without_index_and_superblock(self):
        built = make_tiny.tiny()
        data = bytearray(built.data)
        commit = nra5.Archive(built.data).commit
        data[commit.entry_root.offset :] = bytes(len(data) - commit.entry_root.offset)
        data[:256] = bytes(256)
        self.assertEqual(content_of(nra5.Scan(data)), expected_content(built))

    def test_unfinished_append_opens_the_preceding_commit(self):
        whole = make_tiny.rich().data
        first_end = struct.unpack_from("<Q", whole, 64 + 16)[0]
        for length in (first_end, first_end + 8, len(whole) - 8):
            data = whole[:length]
            archive = nra5.Archive(data)
            self.assertEqual(archive.commit.number, 1)
            self.assertEqual(bool(archive.notes), length > first_end)
            self.assertEqual(bool(nra5.Verifier(data).problems), length > first_end)
            self.assertIn(b"many/000.json", {entry.path for entry in archive.entries()})

    def test_footer_of_an_earlier_commit_is_damage(self):
        whole = make_tiny.rich().data
        first_end = struct.unpack_from("<Q", whole, 64 + 16)[0]
        data = bytearray(whole[:-64] + whole[first_end - 64 : first_end])
        struct.pack_into("<Q", data, len(data) - 8, nra5.checksum(bytes(data[-64:-8]), len(data) - 64))
        self.assertEqual(nra5.Footer.parse(nra5.Source(data), len(data) - 64).number, 1)
        archive = nra5.Archive(data)
        self.assertIn("remains of an unfinished append", archive.notes[-1])
        self.assertTrue(nra5.Verifier(data).problems)
        # Without the superblock nothing else leads to a commit.
        data[:256] = bytes(256)
        with self.assertRaises(nra5.Rejected):
            nra5.Archive(data)

    def test_recovery_data_with_damaged_start_or_end_is_found(self):
        whole = (GOLDEN / "v5-protected.nra").read_bytes()
        archive = nra5.Archive(whole)
        for offset in (archive.end, len(whole) - 64 - 128):
            data = bytearray(whole)
            data[offset : offset + 128] = bytes(128)
            self.assertEqual(nra5.Archive(data).commit.number, archive.commit.number)
            self.assertTrue(nra5.Verifier(data).problems)

    def test_recovery_header_in_a_damaged_frame_is_ignored(self):
        data = bytearray((GOLDEN / "v5-protected.nra").read_bytes())
        first = nra5.Archive(data).recovery.offset
        data[first + 63] ^= 1
        self.assertEqual(nra5.Recovery(nra5.Source(data), first).offset, first)
        # The last recovery frame is used instead.
        self.assertGreater(nra5.Archive(data).recovery.offset, first)
        data[len(data) - 64 - 128 + 63] ^= 1
        self.assertIsNone(nra5.Archive(data).recovery)

    def test_unknown_features_and_versions_are_unsupported(self):
        for field, value, name in ((8, 2, "feature 1"), (4, 6, "version 6")):
            data = bytearray(make_tiny.tiny().data)
            footer = len(data) - 64
            struct.pack_into("<H", data, field, value)
            struct.pack_into("<H", data, footer + (12 if field == 8 else 8), value)
            struct.pack_into("<Q", data, 56, nra5.checksum(bytes(data[:56]), 0))
            struct.pack_into("<Q", data, footer + 56, nra5.checksum(bytes(data[footer : footer + 56]), footer))
            with self.assertRaisesRegex(nra5.Unsupported, name):
                nra5.Archive(data)


class Golden(unittest.TestCase):
    def assert_contains(self, wanted, found, where):
        """Asserts that every field of `wanted` has the same value in `found`."""
        if isinstance(wanted, dict) and isinstance(found, dict):
            for key, value in wanted.items():
                if key == "blake3" and nra5.blake3 is None:
                    continue
                self.assertIn(key, found, where)
                self.assert_contains(value, found[key], f"{where}.{key}")
        elif isinstance(wanted, list) and isinstance(found, list):
            self.assertEqual(len(wanted), len(found), where)
            for number, (a, b) in enumerate(zip(wanted, found)):
                self.assert_contains(a, b, f"{where}[{number}]")
        else:
            self.assertEqual(wanted, found, where)

    def test_golden_archives_match_their_expectations(self):
        for file in sorted(GOLDEN.glob("**/*.nra")):
            with self.subTest(file=file.name):
                try:
                    archive = nra5.Archive(file)
                except nra5.Unsupported as error:
                    self.skipTest(str(error))
                self.assertEqual(nra5.Verifier(file).problems, [])
                found = nra5.document(archive)
                self.assertEqual([entry for entry in found["entries"] if "error" in entry], [])
                if archive.commit.number == 1:
                    self.assertEqual(nra5.document(nra5.Scan(file))["entries"], found["entries"])
                expectation = file.with_suffix(".json")
                if expectation.exists():
                    self.assert_contains(json.loads(expectation.read_text("utf-8")), found, file.stem)


if __name__ == "__main__":
    unittest.main()
