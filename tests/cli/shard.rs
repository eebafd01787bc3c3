//! Shard files: what is told of them, and of damaged ones.

use std::path::Path;

use serde_json::Value;

use super::{Said, nra, said, schema};

/// Runs the program beside the files of other programs.
fn run(arguments: &[&str]) -> Said {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/shard");
    said(nra().args(arguments).current_dir(folder).output().unwrap())
}

fn out(arguments: &[&str]) -> String {
    let said = run(arguments);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{arguments:?}");
    said.out
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&out(arguments)).unwrap()
}

#[test]
fn lists_tell_what_headers_say() {
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
fn info_tells_what_is_inside() {
    let info = out(&["info", "der_columns.cshard"]);
    assert!(info.contains("\nrows          6\n"), "{info}");
    assert!(info.contains("\nscore   f32     no        split bytes  0      0.11   0.99     ?\n"), "{info}");
    for file in ["go_tensorv1.mosh", "smp_json.smpl", "wpy_lz4.wshard", "der_columns.cshard", "go_metadata.shard"] {
        let info = json(&["info", "--json", file]);
        schema::check(&info);
        assert!(info["inside"]["row_count"].as_u64() > Some(0), "{file}: {info}");
    }
    let plain = json(&["info", "--json", "py_role_7f_unknown.shard"]);
    assert_eq!(plain["inside"]["facts"][0]["value"], "role 127 is not known: a plain container");
}

#[test]
fn a_damaged_header_is_told_and_hinders_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/shard/go_tensorv1.mosh");
    let mut bytes = std::fs::read(fixture).unwrap();
    // The number of dimensions of the first tensor, whose checksum is not compared for a list.
    bytes[0x201] = 200;
    std::fs::write(folder.path().join("bad.mosh"), bytes).unwrap();
    let list = said(nra().args(["list", "-l", "bad.mosh"]).current_dir(folder.path()).output().unwrap());
    assert_eq!((list.code, list.out.lines().count()), (Some(0), 7), "{}", list.err);
    let expected = "nra: warning: model.embed.weight: TensorV1 header at offset 512 is damaged: a header of 1604 bytes expected for \
                    200 dimensions, 44 found\n";
    assert_eq!(list.err, expected);
}

/// What `verify` says of a damaged file, and with which exit code.
const DAMAGED: [(&str, i32, &str); 57] = [
    ("alignment_7", 0, "ok"),
    ("bad_magic", 4, "file type (unknown) is not supported"),
    ("bad_version_1", 4, "Shard version 1 is not supported (known: 2)"),
    ("bad_version_3", 4, "Shard version 3 is not supported (known: 2)"),
    ("checksum_zeroed", 4, "Shard entry at offset 320: checksum 00000000 expected, 9a71bb4c found; hurts 1 entry\n    alpha"),
    ("checksum_zeroed_no_flag", 0, "ok"),
    ("compression_default_9", 0, "ok"),
    (
        "data_before_strings",
        4,
        "names at 256 and data at 100; between the end of the index, 256, and that of the file, 515, expected",
    ),
    ("data_offset_beyond_eof", 4, "offset 208 is damaged: entry 3: 3 bytes at 1000000000000 do not lie in a file of 515"),
    ("data_offset_in_index", 4, "offset 64 is damaged: entry 0: content at 64, 320 or more expected"),
    ("disk_size_beyond_eof", 4, "entry 0: 1000000 bytes at 320 do not lie in a file of 515"),
    ("empty_file", 4, "file type (empty file) is not supported"),
    ("entry_count_1000", 4, "an index of 1000 entries does not fit into 515 bytes"),
    ("entry_count_10000001", 4, "number of entries is 10000001, more than the limit of 10000000"),
    ("entry_count_4294967295", 4, "number of entries is 4294967295, more than the limit of 10000000"),
    ("entry_count_5", 4, "names at 256 and data at 320; between the end of the index, 304, and that of the file, 515, expected"),
    ("flipped_data_byte", 4, "offset 384: checksum 4bb0dc25 expected, d070ddcf found; hurts 1 entry\n    beta/hundred"),
    ("flipped_data_byte_no_checksum_flag", 4, "checksum 4bb0dc25 expected, d070ddcf found; hurts 1 entry\n    beta/hundred"),
    ("flipped_lz4_byte", 4, "offset 512: checksum 6039a0a0 expected, 17a5e40f found; hurts 1 entry\n    text"),
    ("flipped_zstd_byte", 4, "offset 512: checksum 6039a0a0 expected, 189c0731 found; hurts 1 entry\n    text"),
    ("header_only_63", 4, "64 bytes expected, the file has 63"),
    ("index_entry_size_49", 4, "index records of 49 bytes, 48 expected"),
    ("index_not_in_offset_order", 4, "entry 3: content at 384, 515 or more expected"),
    ("lz4_both_codec_bits", 4, "offset 512: compressed with two codecs; hurts 1 entry\n    text"),
    ("lz4_flag_no_codec", 4, "offset 512: compressed without a codec; hurts 1 entry\n    text"),
    ("lz4_flags_cleared", 4, "offset 512: 4050 bytes of content in 72 that are not compressed; hurts 1 entry\n    text"),
    ("lz4_orig_size_minus1", 4, "offset 512: 4049 raw bytes expected, more found; hurts 1 entry\n    text"),
    (
        "lz4_orig_size_over_1g",
        4,
        "length of the content is 1073741825, more than the limit of 1073741824; hurts 1 entry\n    text",
    ),
    ("lz4_orig_size_plus1", 4, "offset 512: 4051 raw bytes expected, 4050 found; hurts 1 entry\n    text"),
    ("lz4_unknown_flag_bits", 0, "ok"),
    ("name_hash_wrong", 0, "the stored hash of name alpha is wrong"),
    ("name_len_out_of_range", 4, "offset 208 is damaged: entry 3: a name that ends at 60030 of 64 bytes of names"),
    ("name_not_utf8", 0, "the stored hash of name $'\\xfflpha' is wrong"),
    ("name_offset_out_of_range", 4, "offset 112 is damaged: entry 1: a name that ends at 1000010 of 64 bytes of names"),
    ("offset_plus_size_wraps", 4, "entry 3: 3 bytes at 18446744073709551614 do not lie in a file of 515"),
    ("offsets_u64_max", 4, "names at 18446744073709551615 and data at 18446744073709551615; between the end of the index, 256,"),
    ("overlap", 4, "entry 3: content at 434, 484 or more expected"),
    ("reserved_nonzero", 0, "ok"),
    ("schema_bad_json", 0, "ok"),
    ("schema_offset_beyond_eof", 4, "Shard metadata at offset 513: it starts there, the data ends at 135 and the file at 413"),
    ("schema_offset_in_index", 4, "Shard metadata at offset 64: it starts there, the data ends at 135 and the file at 413"),
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
    ("truncated_data_size_fixed", 4, "entry 3: 3 bytes at 512 do not lie in a file of 513"),
    ("truncated_header", 4, "64 bytes expected, the file has 40"),
    ("truncated_index", 4, "a length of 515 bytes expected, the file has 170"),
    ("truncated_index_size_fixed", 4, "an index of 4 entries does not fit into 170 bytes"),
    ("zstd_bomb", 4, "offset 128: 100 raw bytes expected, more found; hurts 1 entry\n    bomb"),
    ("zstd_both_codec_bits", 4, "offset 512: compressed with two codecs; hurts 1 entry\n    text"),
    ("zstd_flag_no_codec", 4, "offset 512: compressed without a codec; hurts 1 entry\n    text"),
    ("zstd_flags_cleared", 4, "offset 512: 4050 bytes of content in 65 that are not compressed; hurts 1 entry\n    text"),
    ("zstd_orig_size_minus1", 4, "offset 512: 4049 raw bytes expected, more found; hurts 1 entry\n    text"),
    (
        "zstd_orig_size_over_1g",
        4,
        "length of the content is 1073741825, more than the limit of 1073741824; hurts 1 entry\n    text",
    ),
    ("zstd_orig_size_plus1", 4, "offset 512: 4051 raw bytes expected, 4050 found; hurts 1 entry\n    text"),
    ("zstd_unknown_flag_bits", 0, "ok"),
];

#[test]
fn damage_is_told_with_place_and_reason() {
    for (name, code, sentence) in DAMAGED {
        let said = run(&["verify", &format!("corrupt/{name}.shard")]);
        assert_eq!(said.code, Some(code), "{name}: {}{}", said.out, said.err);
        let told = [said.out.as_str(), &said.err].concat();
        assert!(told.contains(sentence), "{name}: {told}");
        // Whatever is wrong is followed by what can be done about it, but for what no reader can help.
        let is_final = sentence.contains("version") || sentence.starts_with("number of entries");
        assert_eq!(told.contains("hint: "), code == 4 && !is_final, "{name}: {told}");
    }
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/shard/corrupt");
    assert_eq!(std::fs::read_dir(all).unwrap().count(), DAMAGED.len(), "every damaged file is in the table");
}
