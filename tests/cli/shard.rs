//! Shard files: output about intact and damaged ones.

use std::path::Path;

use serde_json::Value;

use super::{Outcome, nra, outcome, schema};

/// Runs the program in the directory of fixtures.
fn run(arguments: &[&str]) -> Outcome {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/shard");
    outcome(nra().args(arguments).current_dir(folder).output().unwrap())
}

fn out(arguments: &[&str]) -> String {
    let outcome = run(arguments);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""), "{arguments:?}");
    outcome.out
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&out(arguments)).unwrap()
}

#[test]
fn list_shows_header_descriptions() {
    let list = out(&["list", "-l", "go_tensorv1.mosh", "model.*"]);
    let ends: Vec<&str> = list.lines().map(|line| line.rsplit("model.").next().unwrap()).collect();
    assert_eq!(
        ends,
        ["embed.weight  f32 [2, 3]", "layers.0.q.weight  i8 [3, 2], quantised", "layers.0.q.weight.scales  f32 [3]"]
    );
    assert!(!out(&["list", "go_tensorv1.mosh"]).contains("f32"));
    let list = json(&["list", "--json", "go_episode.wshard", "signal/pos"]);
    let entry = &list["entries"][0];
    schema::check(entry);
    assert_eq!((entry["inside"]["dtype"].as_str(), entry["inside"]["shape"].to_string()), (Some("f32"), "[10,3]".into()));
    assert_eq!(entry["inside"]["brief"], "f32 [10, 3]");
}

#[test]
fn info_shows_content_description() {
    let info = out(&["info", "der_columns.cshard"]);
    assert!(info.contains("\nrows          6\n"), "{info}");
    assert!(info.contains("\nscore   f32     no        split bytes  0      0.11   0.99     ?\n"), "{info}");
    for file in ["go_tensorv1.mosh", "smp_json.smpl", "wpy_lz4.wshard", "der_columns.cshard", "go_metadata.shard"] {
        let info = json(&["info", "--json", file]);
        schema::check(&info);
        assert!(info["inside"]["row_count"].as_u64() > Some(0), "{file}: {info}");
    }
    let plain = json(&["info", "--json", "py_role_7f_unknown.shard"]);
    assert_eq!(plain["inside"]["facts"][0]["value"], "unknown role 127: a plain container");
}

#[test]
fn damaged_header_is_reported_without_failing() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/shard/go_tensorv1.mosh");
    let mut bytes = std::fs::read(fixture).unwrap();
    // The number of dimensions of the first tensor, whose checksum is not compared for a list.
    bytes[0x201] = 200;
    std::fs::write(folder.path().join("bad.mosh"), bytes).unwrap();
    let list = outcome(nra().args(["list", "-l", "bad.mosh"]).current_dir(folder.path()).output().unwrap());
    assert_eq!((list.code, list.out.lines().count()), (Some(0), 7), "{}", list.err);
    let expected = "nra: warning: model.embed.weight: TensorV1 header at offset 512 is damaged: header of 1604 bytes expected for \
                    200 dimensions, 44 found\n";
    assert_eq!(list.err, expected);
}

/// Exit code and message of `verify` for damaged files.
const DAMAGED: [(&str, i32, &str); 57] = [
    ("alignment_7", 0, "ok"),
    ("bad_magic", 4, "not a supported archive: it has an unknown format"),
    ("bad_version_1", 4, "Shard version 1 is not supported (known: 2)"),
    ("bad_version_3", 4, "Shard version 3 is not supported (known: 2)"),
    ("checksum_zeroed", 4, "Shard entry at offset 320: checksum 00000000 expected, 9a71bb4c found; affects 1 entry\n    alpha"),
    ("checksum_zeroed_no_flag", 0, "ok"),
    ("compression_default_9", 0, "ok"),
    (
        "data_before_strings",
        4,
        "names at 256 and data at 100; between the end of the index, 256, and that of the file, 515, expected",
    ),
    ("data_offset_beyond_eof", 4, "offset 208 is damaged: entry 3: 3 bytes at 1000000000000 are not within the file (515 bytes)"),
    ("data_offset_in_index", 4, "offset 64 is damaged: entry 0: content starts at 64, 320 or more expected"),
    ("disk_size_beyond_eof", 4, "entry 0: 1000000 bytes at 320 are not within the file (515 bytes)"),
    ("empty_file", 4, "not a supported archive: it is empty"),
    ("entry_count_1000", 4, "an index of 1000 entries does not fit into 515 bytes"),
    ("entry_count_10000001", 4, "number of entries is 10000001, more than the limit of 10000000"),
    ("entry_count_4294967295", 4, "number of entries is 4294967295, more than the limit of 10000000"),
    ("entry_count_5", 4, "names at 256 and data at 320; between the end of the index, 304, and that of the file, 515, expected"),
    ("flipped_data_byte", 4, "offset 384: checksum 4bb0dc25 expected, d070ddcf found; affects 1 entry\n    beta/hundred"),
    ("flipped_data_byte_no_checksum_flag", 4, "checksum 4bb0dc25 expected, d070ddcf found; affects 1 entry\n    beta/hundred"),
    ("flipped_lz4_byte", 4, "offset 512: checksum 6039a0a0 expected, 17a5e40f found; affects 1 entry\n    text"),
    ("flipped_zstd_byte", 4, "offset 512: checksum 6039a0a0 expected, 189c0731 found; affects 1 entry\n    text"),
    ("header_only_63", 4, "64 bytes expected, the file has 63"),
    ("index_entry_size_49", 4, "index records of 49 bytes, 48 expected"),
    ("index_not_in_offset_order", 4, "entry 3: content starts at 384, 515 or more expected"),
    ("lz4_both_codec_bits", 4, "offset 512: compressed with two codecs; affects 1 entry\n    text"),
    ("lz4_flag_no_codec", 4, "offset 512: compressed without a codec; affects 1 entry\n    text"),
    (
        "lz4_flags_cleared",
        4,
        "offset 512: 4050 bytes of content, but 72 stored bytes without compression; affects 1 entry\n    text",
    ),
    ("lz4_orig_size_minus1", 4, "offset 512: 4049 raw bytes expected, more found; affects 1 entry\n    text"),
    (
        "lz4_orig_size_over_1g",
        4,
        "offset 512: 1073741825 bytes of content, more than the limit of 1073741824; affects 1 entry\n    text",
    ),
    ("lz4_orig_size_plus1", 4, "offset 512: 4051 raw bytes expected, 4050 found; affects 1 entry\n    text"),
    ("lz4_unknown_flag_bits", 0, "ok"),
    ("name_hash_wrong", 0, "the stored hash of name alpha is wrong"),
    ("name_len_out_of_range", 4, "offset 208 is damaged: entry 3: the name ends at 60030, past the end of the names (64 bytes)"),
    ("name_not_utf8", 0, "the stored hash of name $'\\xfflpha' is wrong"),
    (
        "name_offset_out_of_range",
        4,
        "offset 112 is damaged: entry 1: the name ends at 1000010, past the end of the names (64 bytes)",
    ),
    ("offset_plus_size_wraps", 4, "entry 3: 3 bytes at 18446744073709551614 are not within the file (515 bytes)"),
    ("offsets_u64_max", 4, "names at 18446744073709551615 and data at 18446744073709551615; between the end of the index, 256,"),
    ("overlap", 4, "entry 3: content starts at 434, 484 or more expected"),
    ("reserved_nonzero", 0, "ok"),
    ("schema_bad_json", 4, "Shard metadata at offset 135: invalid JSON"),
    (
        "schema_offset_beyond_eof",
        4,
        "Shard metadata at offset 513: expected between the end of the content (135) and of the file (413)",
    ),
    (
        "schema_offset_in_index",
        4,
        "Shard metadata at offset 64: expected between the end of the content (135) and of the file (413)",
    ),
    (
        "string_table_beyond_eof",
        4,
        "names at 1000000000 and data at 320; between the end of the index, 256, and that of the file, 515,",
    ),
    (
        "string_table_too_big",
        4,
        "names at 256 and data at 104857857; between the end of the index, 256, and that of the file, 515,",
    ),
    ("trailing_byte", 4, "a length of 515 bytes expected, the file has 516"),
    ("truncated_data", 4, "a length of 515 bytes expected, the file has 513"),
    ("truncated_data_size_fixed", 4, "entry 3: 3 bytes at 512 are not within the file (513 bytes)"),
    ("truncated_header", 4, "64 bytes expected, the file has 40"),
    ("truncated_index", 4, "a length of 515 bytes expected, the file has 170"),
    ("truncated_index_size_fixed", 4, "an index of 4 entries does not fit into 170 bytes"),
    ("zstd_bomb", 4, "offset 128: 100 raw bytes expected, more found; affects 1 entry\n    bomb"),
    ("zstd_both_codec_bits", 4, "offset 512: compressed with two codecs; affects 1 entry\n    text"),
    ("zstd_flag_no_codec", 4, "offset 512: compressed without a codec; affects 1 entry\n    text"),
    (
        "zstd_flags_cleared",
        4,
        "offset 512: 4050 bytes of content, but 65 stored bytes without compression; affects 1 entry\n    text",
    ),
    ("zstd_orig_size_minus1", 4, "offset 512: 4049 raw bytes expected, more found; affects 1 entry\n    text"),
    (
        "zstd_orig_size_over_1g",
        4,
        "offset 512: 1073741825 bytes of content, more than the limit of 1073741824; affects 1 entry\n    text",
    ),
    ("zstd_orig_size_plus1", 4, "offset 512: 4051 raw bytes expected, 4050 found; affects 1 entry\n    text"),
    ("zstd_unknown_flag_bits", 0, "ok"),
];

#[test]
fn verify_reports_position_and_reason() {
    for (name, code, sentence) in DAMAGED {
        let outcome = run(&["verify", &format!("corrupt/{name}.shard")]);
        assert_eq!(outcome.code, Some(code), "{name}: {}{}", outcome.out, outcome.err);
        let output = [outcome.out.as_str(), &outcome.err].concat();
        assert!(output.contains(sentence), "{name}: {output}");
        // A hint follows each error that the user can do something about.
        let is_final = sentence.contains("version") || sentence.starts_with("number of entries");
        assert_eq!(output.contains("hint: "), code == 4 && !is_final, "{name}: {output}");
    }
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/shard/corrupt");
    assert_eq!(std::fs::read_dir(all).unwrap().count(), DAMAGED.len(), "every damaged file is in the table");
}

/// Returns a directory that contains the fixture `name`.
fn directory_with(name: &str) -> (tempfile::TempDir, impl Fn(&[&str]) -> Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/shard").join(name);
    std::fs::copy(from, folder.path().join(Path::new(name).file_name().unwrap())).unwrap();
    let path = folder.path().to_owned();
    (folder, move |arguments: &[&str]| outcome(nra().args(arguments).current_dir(&path).output().unwrap()))
}

#[test]
fn options_override_properties_of_input() {
    let (folder, run) = directory_with("py_zstd.shard");
    let before = std::fs::read(folder.path().join("py_zstd.shard")).unwrap();
    for (options, role, alignment, is_same) in [
        (&[][..], 2, 64, true),
        (&["--codec", "zstd"], 2, 64, false),
        (&["--codec", "none"], 2, 64, false),
        (&["--align", "16"], 2, 16, false),
        (&["--align", "64"], 2, 64, true),
        (&["--to", "smpl"], 2, 64, true),
        (&["--to", "shard"], 2, 64, true),
    ] {
        let outcome = run(&[&["convert", "-fq", "py_zstd.shard", "out.shard"], options].concat());
        assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""), "{options:?}");
        let after = std::fs::read(folder.path().join("out.shard")).unwrap();
        // Incompressible entries are stored uncompressed when compression is requested again.
        assert_eq!((after[5], after[8], after == before), (role, alignment, is_same), "{options:?}");
        assert_eq!(run(&["diff", "--content", "py_zstd.shard", "out.shard"]).code, Some(0), "{options:?}");
        assert_eq!(after.len() > 3 * before.len(), options.contains(&"none"), "{options:?}");
    }
    // The extension sets the role too.
    std::fs::write(folder.path().join("none.shard"), {
        let mut bytes = before.clone();
        bytes[5] = 0;
        bytes
    })
    .unwrap();
    run(&["convert", "-q", "py_zstd.shard", "between.nra"]);
    for (ending, role, called) in [
        ("mosh", 1, "ModelShard"),
        ("smpl", 2, "SampleShard"),
        ("gemm", 3, "GemmShard"),
        ("wshard", 5, "WShard"),
        ("gshard", 6, "GraphShard"),
        ("tshard", 7, "TraceShard"),
        ("cshard", 8, "ColumnShard"),
    ] {
        let out = format!("out.{ending}");
        for (arguments, was) in [
            (&["py_zstd.shard", &out][..], 2),
            (&["between.nra", &out], 2),
            (&["between.nra", "out.shard", "--to", ending], 2),
            (&["none.shard", &out], 0),
        ] {
            let outcome = run(&[&["convert", "-f"], arguments].concat());
            let warning = format!(
                "nra: warning: {}: OUT is labelled as a {called}, but its entries are those of a SampleShard\n",
                arguments[0]
            );
            let is_told = was != 0 && was != role;
            assert_eq!((outcome.code, outcome.err.starts_with(&warning)), (Some(0), is_told), "{arguments:?}: {}", outcome.err);
            let after = std::fs::read(folder.path().join(arguments[1])).unwrap();
            assert_eq!((after[5], after == before), (role, role == 2), "{arguments:?}");
        }
    }
    for (options, sentence) in [
        (&["--align", "8", "out.shard"][..], "--align 8 is not supported for Shard files"),
        (&["--align", "4096", "out.shard"], "--align 4096 is not supported for Shard files"),
        (&["--dialect", "go", "out.nra"], "--dialect requires a Shard file"),
        (&["--to", "shard", "-"], "cannot write a Shard file to standard output"),
    ] {
        let outcome = run(&[&["convert", "-f", "py_zstd.shard"], options].concat());
        assert!(outcome.code == Some(2) && outcome.err.contains(sentence), "{}", outcome.err);
    }
}

#[test]
fn archive_comment_becomes_description() {
    let (folder, run) = directory_with("py_metadata.shard");
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let description = |name: &str| {
        let info: Value = serde_json::from_str(&run(&["info", "--json", name]).out).unwrap();
        info["message"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(description("py_metadata.shard"), "m\u{e9}ta <&> test");
    let done = |arguments: &[&str]| {
        let outcome = run(arguments);
        assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""), "{arguments:?}");
    };
    done(&["convert", "-q", "py_metadata.shard", "a.nra"]);
    assert_eq!(description("a.nra"), "m\u{e9}ta <&> test");
    done(&["convert", "-q", "a.nra", "same.shard"]);
    assert!(read("same.shard") == read("py_metadata.shard"));
    done(&["convert", "-q", "-m", "other", "a.nra", "other.shard"]);
    assert_eq!(description("other.shard"), "other");
    // The other metadata cannot be kept; the loss is reported once.
    let zip = run(&["convert", "py_metadata.shard", "a.zip"]);
    let lost = "nra: warning: py_metadata.shard: attributes of the archive can't be kept in a zip archive\n\
                nra: warning: py_metadata.shard: properties of Shard entries other than names can't be kept in a zip archive\n";
    assert!(zip.code == Some(3) && zip.err.starts_with(lost), "{}", zip.err);
    assert_eq!(zip.err.lines().count(), 3);
    done(&["convert", "-q", "a.zip", "b.nra"]);
    assert_eq!(description("b.nra"), "m\u{e9}ta <&> test");
    let shard = run(&["convert", "-q", "a.zip", "b.shard"]);
    assert_eq!(shard.code, Some(0), "{}", shard.err);
    assert_eq!(description("b.shard"), "m\u{e9}ta <&> test");
}

#[test]
fn plain_file_converts_without_loss() {
    let (_folder, run) = directory_with("py_basic_a16.shard");
    let outcome = run(&["convert", "py_basic_a16.shard", "a.tar"]);
    let lost = "nra: warning: py_basic_a16.shard: properties of Shard entries other than names can't be kept in a tar archive\n";
    assert!(outcome.code == Some(0) && outcome.err.starts_with(lost), "{}", outcome.err);
    assert_eq!(outcome.err.lines().count(), 2);
}

#[test]
fn damaged_shard_file_gives_hints() {
    let (_folder, run) = directory_with("corrupt/flipped_data_byte.shard");
    let outcome = run(&["convert", "flipped_data_byte.shard", "a.nra"]);
    assert!(outcome.code == Some(4) && outcome.err.contains("use --keep-going to skip damaged entries"), "{}", outcome.err);
    let (_folder, run) = directory_with("corrupt/overlap.shard");
    let outcome = run(&["convert", "overlap.shard", "a.nra"]);
    assert!(
        outcome.code == Some(4) && outcome.err.contains("use another copy") && !outcome.err.contains("--keep-going"),
        "{}",
        outcome.err
    );
    let (_folder, run) = directory_with("corrupt/lz4_orig_size_over_1g.shard");
    let outcome = run(&["convert", "lz4_orig_size_over_1g.shard", "a.nra"]);
    assert!(outcome.code == Some(4) && !outcome.err.contains("--limit-size"), "{}", outcome.err);
}

#[test]
fn converted_file_keeps_dialect_of_writer() {
    for (name, changes, flags) in [
        ("py_basic_a16.shard", &[&["rm", "-q", "x.nra", "gamma"][..]][..], 0xa2),
        ("go_basic_a16.shard", &[&["rm", "-q", "x.nra", "gamma"]], 0x22),
        ("py_basic_a16.shard", &[&["add", "-q", "x.nra", "new.txt"]], 0xa2),
        ("wpy_none.wshard", &[&["add", "-q", "x.nra", "new.txt"]], 0),
        ("py_stream_none.shard", &[&["add", "-q", "x.nra", "new.txt"]], 0xe2),
    ] {
        let (folder, run) = directory_with(name);
        std::fs::write(folder.path().join("new.txt"), "new").unwrap();
        assert_eq!(run(&["convert", "-q", name, "x.nra"]).code, Some(0));
        for change in changes {
            assert_eq!(run(change).code, Some(0), "{name}");
        }
        let outcome = run(&["convert", "-q", "x.nra", "x.shard"]);
        // Earlier commits are lost, but nothing else.
        assert!(outcome.code == Some(3), "{name}: {}", outcome.err);
        let after = std::fs::read(folder.path().join("x.shard")).unwrap();
        assert_eq!(u16::from_le_bytes([after[6], after[7]]), flags, "{name}");
        assert_eq!(run(&["verify", "-q", "x.shard"]).code, Some(0), "{name}");
        assert_eq!(run(&["diff", "--content", "x.nra", "x.shard"]).code, Some(0), "{name}");
    }
}

#[test]
fn dialect_preserves_layout() {
    for (name, dialect) in [
        ("go_stream_none.shard", "go"),
        ("py_stream_none.shard", "python"),
        ("go_basic_a16.shard", "go"),
        ("py_basic_a16.shard", "python"),
    ] {
        let (folder, run) = directory_with(name);
        let outcome = run(&["convert", "-q", "--dialect", dialect, name, "x.shard"]);
        assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""), "{name}");
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        assert!(read("x.shard") == read(name), "{name}");
    }
}

#[test]
fn moved_entry_gets_new_name() {
    let (folder, run) = directory_with("py_names_unicode.shard");
    assert_eq!(run(&["convert", "-q", "py_names_unicode.shard", "x.nra"]).code, Some(0));
    assert_eq!(run(&["mv", "-q", "x.nra", "abs/path", "abs/other"]).code, Some(0));
    assert_eq!(run(&["convert", "-q", "x.nra", "x.shard"]).code, Some(3));
    let after = std::fs::read(folder.path().join("x.shard")).unwrap();
    let has = |name: &[u8]| after.windows(name.len()).any(|window| window == name);
    // Entries that were not moved keep their names.
    assert!(has(b"\0abs/other\0") && !has(b"/abs/path") && has(b"\0../escape\0"));
}

#[test]
fn streamed_file_without_reserved_space_changes_layout() {
    let long = "long/".repeat(200);
    for (path, message, flags) in [(long.as_str(), "", 0x22), ("short", "a description", 0x32), ("short", "", 0x62)] {
        let (folder, run) = directory_with("go_stream_none.shard");
        assert_eq!(run(&["convert", "-q", "go_stream_none.shard", "x.nra"]).code, Some(0));
        assert_eq!(run(&["mv", "-q", "x.nra", "a", path.trim_end_matches('/')]).code, Some(0));
        let outcome = run(&["convert", "-q", "-m", message, "x.nra", "x.shard"]);
        assert_eq!(outcome.code, Some(3), "{}", outcome.err);
        let after = std::fs::read(folder.path().join("x.shard")).unwrap();
        assert_eq!(u16::from_le_bytes([after[6], after[7]]) & !0x80, flags);
        assert_eq!(run(&["verify", "-q", "x.shard"]).code, Some(0));
    }
}
