//! Tests of descriptions of files written by other programs, and of damaged files.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::{Dialect, Layout, NewEntry, RecordFields, ShardWriter, Style};
use nra_core::description::MAX_ROWS;
use nra_core::source::MemorySource;

fn open(bytes: Vec<u8>) -> Shard {
    Shard::open(Arc::new(MemorySource::new(bytes))).unwrap()
}

fn fixture(name: &str) -> Shard {
    open(std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/shard").join(name)).unwrap())
}

/// Returns a file with these entries: name, content type, content.
fn file(role: Role, entries: &[(&str, u16, &[u8])], metadata: Option<&str>) -> Shard {
    let layout = Layout::Names(entries.iter().map(|(name, ..)| name.as_bytes().into()).collect());
    let style = Style::new(Dialect::Go, role, 16, None, &layout);
    let mut writer = ShardWriter::create(std::io::Cursor::new(Vec::new()), style, layout).unwrap();
    for (name, content_type, content) in entries {
        let fields = RecordFields { content_type: *content_type, tags: 2, flags: 0 };
        let entry = NewEntry { name: name.as_bytes(), content, compression: None, fields };
        writer.add(entry).unwrap();
    }
    open(writer.finish(metadata.map(str::as_bytes)).unwrap().into_inner())
}

/// Returns the names of entries with their short descriptions.
fn briefs(shard: &Shard) -> Vec<String> {
    let profile = Profile::read(shard).unwrap();
    let brief = |number| match profile.describe_entry(shard, number) {
        Ok(table) => table.map(|table| table.brief).unwrap_or_default(),
        Err(error) => error.to_string(),
    };
    (0..shard.entries().len())
        .map(|number| format!("{}: {}", String::from_utf8_lossy(shard.name(number)), brief(number)))
        .collect()
}

fn describe_file(shard: &Shard) -> Description {
    Profile::read(shard).unwrap().describe_file(shard).unwrap()
}

fn fact<'a>(table: &'a Description, label: &str) -> &'a str {
    table.facts.iter().find(|(found, _)| found == label).map_or("", |(_, value)| value.as_str())
}

#[test]
fn tensors_of_a_model_are_described() {
    let shard = fixture("go_tensorv1.mosh");
    let expected = [
        "model.embed.weight: f32 [2, 3]",
        "model.layers.0.q.weight: i8 [3, 2], quantised",
        "model.layers.0.q.weight.scales: f32 [3]",
        "scalar: f64 []",
        "empty: i64 [0, 4]",
        "bf16: bf16 [2]",
        "__metadata__: JSON",
    ];
    assert_eq!(briefs(&shard), expected);
    let table = describe_file(&shard);
    assert_eq!((table.format, table.row_count), ("ModelShard", 6));
    assert_eq!(table.rows[1], ["model.layers.0.q.weight", "i8", "3 × 2", "6", "i8, one scale (f32) per row"]);
    assert_eq!((fact(&table, "arch"), fact(&table, "producer")), ("toy", "mosh-writer"));
    assert_eq!((fact(&table, "elements"), fact(&table, "but")), ("18", ""));
}

#[test]
fn damaged_tensor_header_affects_only_its_tensor() {
    let good = [&[1, 1, 0, 0][..], &2u64.to_le_bytes(), &[0; 8]].concat();
    let shard = file(Role::MODEL, &[("a", TENSOR, b"\x01\x09\0\0"), ("b", TENSOR, &good), ("c", TENSOR, b"")], None);
    let briefs = briefs(&shard);
    assert!(briefs[0].ends_with("header of 76 bytes expected for 9 dimensions, 4 found"), "{briefs:?}");
    assert_eq!(briefs[1], "b: f32 [2]");
    let table = describe_file(&shard);
    assert_eq!((table.row_count, table.rows[0][1].as_str(), table.rows[1][1].as_str()), (3, "?", "f32"));
    assert!(fact(&table, "but").starts_with("a: TensorV1 header at offset"), "{table:?}");
}

#[test]
fn series_of_both_dialects_are_described() {
    let expected = [
        "meta/wshard: JSON",
        "meta/episode: JSON",
        "meta/channels: JSON",
        "signal/cam/rgb: u8 [10, 2, 2, 3]",
        "signal/pos: f32 [10, 3]",
        "action/ctrl: f32 [10, 1]",
        "reward: f32 [10]",
        "done: u8 [10]",
        "omen/pos/dreamer: f32 [10, 3]",
        "uncert/pos/dreamer/std: f32 [10]",
        "residual/pos/sign2nddiff: bit [10]",
    ];
    assert_eq!(briefs(&fixture("go_episode.wshard")), expected);
    let table = describe_file(&fixture("go_episode.wshard"));
    assert_eq!((fact(&table, "episode"), fact(&table, "steps"), fact(&table, "but")), ("go_ep", "10", ""));
    assert_eq!(fact(&table, "time"), "ticks, 30 Hz, 33333333 ns per step");
    assert_eq!(table.rows[0], ["signal/cam/rgb", "signal", "u8", "10 × 2 × 2 × 3", "rgb"]);
    for (name, steps) in [("wpy_none.wshard", "10"), ("wpy_zstd.wshard", "60"), ("wpy_lz4.wshard", "60")] {
        let table = describe_file(&fixture(name));
        assert_eq!((fact(&table, "steps"), fact(&table, "but"), table.row_count), (steps, "", 6), "{name}");
        assert!(table.rows.iter().any(|row| row[0] == "time/ticks" && row[2] == "i32" && row[3] == steps), "{name}");
    }
    let chunk = describe_file(&fixture("wpy_chunked/longpy_chunk_0001.wshard"));
    assert_eq!((fact(&chunk, "chunk"), fact(&chunk, "range")), ("2 of 3", "4 to 7"));
}

#[test]
fn mismatching_series_are_reported() {
    let channels = br#"{"signal/a":{"dtype":"float32","shape":[2]},"signal/b":{"dtype":"f31"}}"#;
    let entries: [(&str, u16, &[u8]); 6] = [
        ("meta/wshard", 2, b"{}"),
        ("meta/episode", 2, br#"{"id":"old","length_t":3}"#),
        ("meta/channels", 2, channels),
        ("signal/a", 0, &[0; 23]),
        ("signal/b", 0, &[0; 3]),
        ("signal/c", 0, &[0; 3]),
    ];
    let shard = file(Role::EPISODE, &entries, None);
    let expected = [
        "signal/a: f32 [3, 2], but 24 bytes expected, 23 found",
        "signal/b: signal, but unknown type f31",
        "signal/c: signal, but not listed in meta/channels",
    ];
    assert_eq!(briefs(&shard)[3..], expected);
    let table = describe_file(&shard);
    assert_eq!((fact(&table, "episode"), fact(&table, "steps")), ("old", "3"));
    let bare = describe_file(&fixture("py_golden_wshard.shard"));
    assert_eq!(fact(&bare, "but"), "signal/imu: not listed in meta/channels");
}

#[test]
fn long_names_and_rows_past_the_limit_are_not_described() {
    let channels = br#"{"signal/a":{"dtype":"float32","shape":[]}}"#;
    let names: Vec<String> = ["omen/a/b".to_owned(), format!("omen/a/{}", "b/".repeat(3_000))].into();
    let meta: [(&str, u16, &[u8]); 3] =
        [("meta/wshard", 2, b"{}"), ("meta/episode", 2, br#"{"length_t":1}"#), ("meta/channels", 2, channels)];
    let series = names.iter().map(|name| (name.as_str(), 0, &[0; 4][..]));
    let shard = file(Role::EPISODE, &meta.into_iter().chain(series).collect::<Vec<_>>(), None);
    let briefs = briefs(&shard);
    assert_eq!(briefs[3], "omen/a/b: f32 [1]");
    assert!(briefs[4].ends_with("/: prediction"), "a name of 6 KB is not searched for a channel");
    let many: Vec<String> = (0..2 * MAX_ROWS).map(|number| format!("signal/{number}")).collect();
    let entries: Vec<(&str, u16, &[u8])> = many.iter().map(|name| (name.as_str(), 0, &b""[..])).collect();
    let table = describe_file(&file(Role::EPISODE, &[&meta[..], &entries].concat(), None));
    assert_eq!((table.rows.len(), table.row_count), (MAX_ROWS, 2 * MAX_ROWS as u64));
    let problem = table.facts.iter().filter(|(label, _)| label == "but").nth(1).map(|(_, value)| value.as_str());
    assert_eq!(problem, Some("4999 more series have problems"));
}

#[test]
fn records_of_samples_are_described() {
    let expected = [
        "7: input: int [3], target: int",
        "1: input: float [2], target: int, meta: object",
        "1000000: text: string, n: int, big: int, none: null, flag: bool, arr: int [20]",
    ];
    let found = briefs(&fixture("smp_cowrie.smpl"));
    assert_eq!(found[0], expected[0]);
    assert!(found[1].starts_with("1: input: float [2], target: int"), "{found:?}");
    assert!(found[2].starts_with("1000000: text: string, n: int, big: int, none: null, flag: bool"), "{found:?}");
    let table = describe_file(&fixture("smp_cowrie.smpl"));
    assert_eq!((fact(&table, "samples"), fact(&table, "IDs")), ("3", "1 to 1000000"));
    let table = describe_file(&fixture("smp_json.smpl"));
    assert_eq!((fact(&table, "samples"), fact(&table, "IDs")), ("3", "0 to 10"));
    assert_eq!(fact(&table, "record"), "JSON; fields are those of sample 0");
}

#[test]
fn metadata_of_samples_are_described() {
    let metadata = r#"{"schema_version":"shard-v2.1","profile":"sampleshard.v1","tag_dictionary":["train","test"],
        "sample_shard":{"dataset_name":"digits","sample_count":3,"splits":{"train":[0,9]},"label_map":{"0":"zero"}},
        "entry_metadata":{"0":{"row_count":12,"shape":[3,4]}}}"#;
    let shard = file(Role::SAMPLES, &[("0", 0, b"{\"x\":1}"), ("__index__", 0, b"?")], Some(metadata));
    let table = describe_file(&shard);
    assert_eq!((fact(&table, "dataset"), fact(&table, "profile")), ("digits", "sampleshard.v1"));
    assert_eq!(fact(&table, "but"), "the metadata declare 3 samples");
    let entry = Profile::read(&shard).unwrap().describe_entry(&shard, 0).unwrap().unwrap();
    assert_eq!((fact(&entry, "rows"), fact(&entry, "declared shape"), fact(&entry, "marked")), ("12", "[3, 4]", "test"));
    let long = format!("{{\"id\":1,\"input\":[{}1]}}", "0.5,".repeat(40_000));
    let shard = file(Role::SAMPLES, &[("0", 0, long.as_bytes()), ("1", 0, b"no record")], None);
    let briefs = briefs(&shard);
    assert_eq!(briefs[0], "0: id: int, input: …");
    assert!(briefs[1].contains("neither Cowrie nor JSON"), "{briefs:?}");
}

#[test]
fn columns_are_described_with_statistics() {
    let shard = fixture("der_columns.cshard");
    let table = describe_file(&shard);
    assert_eq!((fact(&table, "rows"), fact(&table, "row groups"), fact(&table, "columns")), ("6", "2 of up to 4 rows", "5"));
    let expected = [
        ["id", "i64", "no", "delta", "0", "1", "6", "?"],
        ["label", "bool", "no", "run-length", "0", "false", "true", "?"],
        ["score", "f32", "no", "split bytes", "0", "0.11", "0.99", "?"],
        ["name", "string", "no", "dictionary", "0", "alice", "charlie", "?"],
        ["opt", "i64", "yes", "plain", "2", "-5", "300", "?"],
    ];
    assert_eq!(table.rows, expected);
    assert_eq!(fact(&table, "but"), "");
    let briefs = briefs(&shard);
    assert_eq!((briefs[0].as_str(), briefs[8].as_str()), ("0:id: i64 [4], delta", "1:name: string [2], dictionary"));
    let entry = Profile::read(&shard).unwrap().describe_entry(&shard, 3).unwrap().unwrap();
    assert_eq!((fact(&entry, "min"), fact(&entry, "max"), fact(&entry, "distinct")), ("alice", "charlie", "3"));
}

#[test]
fn mismatching_column_chunks_are_reported() {
    let schema =
        br#"{"row_count":9,"columns":[{"name":"a","type":8,"encoding":9,"stats":[{"count":9,"max":9223372036854775809}]}]}"#;
    let shard = file(Role::COLUMNS, &[("0:a", 0, b"\x09\x08\0\0\0"), ("0:b", 0, b"\0"), ("__schema__", 3, schema)], None);
    let found = briefs(&shard);
    assert_eq!(found[0], "0:a: u32 [8], encoding 9");
    assert!(found[1].ends_with("is damaged: 5 bytes expected, 1 found"), "{found:?}");
    let entry = Profile::read(&shard).unwrap().describe_entry(&shard, 0).unwrap().unwrap();
    assert_eq!(fact(&entry, "but"), "__schema__ declares 9 values");
    assert_eq!(describe_file(&shard).rows[0][6], "9223372036854775809");
    let none = describe_file(&file(Role::COLUMNS, &[("0:a", 0, b"\0\x01\0\0\0\x01")], None));
    assert_eq!((fact(&none, "rows"), fact(&none, "but")), ("?", "missing entry __schema__"));
}

#[test]
fn manifests_of_files_and_of_chunks_are_described() {
    let table = describe_file(&fixture("go_metadata.shard"));
    assert_eq!(table.rows[0][..6], ["part-0.smpl", "sample", "sampleshard.v1", "1000", "0", "999"]);
    assert_eq!((fact(&table, "files"), fact(&table, "partitions")), ("1", "{by: range}"));
    for (name, episode) in [("go_chunked/long_manifest.wshard", "long"), ("wpy_chunked/longpy_manifest.wshard", "longpy")] {
        let table = describe_file(&fixture(name));
        assert_eq!((fact(&table, "episode"), fact(&table, "steps"), fact(&table, "but")), (episode, "10", ""));
        assert_eq!(table.rows[1][2..5], ["4", "4", "7"]);
        assert_eq!(briefs(&fixture(name)), ["meta/manifest: manifest of 3 chunks"]);
    }
    let chunk = |index: u64, from: u64| {
        format!(r#"{{"chunk_index":{index},"uri":"../c","timestep_range":[{from},{}],"length_T":2}}"#, from + 1)
    };
    let manifest = format!(r#"{{"total_timesteps":5,"total_chunks":3,"chunks":[{},{}]}}"#, chunk(0, 0), chunk(1, 3));
    let table = describe_file(&file(Role::MANIFEST, &[("meta/manifest", 2, manifest.as_bytes())], None));
    let problems: Vec<&str> = table.facts.iter().filter(|(label, _)| label == "but").map(|(_, value)| value.as_str()).collect();
    let expected = [
        "the chunks have 4 steps in total",
        "3 chunks expected",
        "chunk 1 does not start where the preceding chunk ends",
        "../c leads outside the folder",
    ];
    assert_eq!(problems, expected);
}

#[test]
fn roles_without_layout_are_plain_containers() {
    for (name, expected) in [
        ("py_role_00.shard", "none: a plain container"),
        ("py_role_03.shard", "GemmShard (role 3) has no published layout: a plain container"),
        ("py_role_7f_unknown.shard", "unknown role 127: a plain container"),
    ] {
        assert_eq!(fact(&describe_file(&fixture(name)), "role"), expected);
    }
    let briefs = briefs(&fixture("py_content_types.shard"));
    assert!(briefs.iter().any(|brief| brief.ends_with(": JSON")), "{briefs:?}");
    assert!(briefs.iter().any(|brief| brief.ends_with(": content type 65535")), "{briefs:?}");
}

#[test]
fn damaged_metadata_do_not_affect_entries() {
    let shard = file(Role::MODEL, &[("a", 2, b"{}")], Some("{\"producer\":"));
    assert_eq!(briefs(&shard), ["a: JSON"]);
    assert!(fact(&describe_file(&shard), "but").starts_with("Shard metadata at offset"), "{:?}", describe_file(&shard));
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(5 << 20));
    let shard = file(Role::MODEL, &[("a", 2, b"{}")], Some(&long));
    assert!(fact(&describe_file(&shard), "but").starts_with("length of the metadata is"));
    let shard = file(Role::EPISODE, &[("meta/wshard", 2, b"["), ("meta/episode", 2, b"7"), ("meta/channels", 2, b"null")], None);
    assert_eq!((fact(&describe_file(&shard), "steps"), describe_file(&shard).row_count), ("?", 0));
}

#[test]
fn all_fixtures_and_their_entries_are_described() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/shard");
    let mut count = 0;
    for subfolder in ["", "corrupt", "quirks", "go_chunked", "wpy_chunked"] {
        for file in std::fs::read_dir(folder.join(subfolder)).unwrap() {
            let path = file.unwrap().path();
            let Some(bytes) = path.is_file().then(|| std::fs::read(&path).unwrap()) else { continue };
            let Ok(shard) = Shard::open(Arc::new(MemorySource::new(bytes))) else { continue };
            assert_eq!(briefs(&shard).len(), shard.entries().len());
            assert!(!describe_file(&shard).facts.is_empty(), "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 90, "{count}");
}
