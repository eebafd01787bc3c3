//! What earlier versions accepted, and what they refused: built by hand from one block that holds `hello\n`.

use nra::format::Error;
use serde_json::{Value, json};

use super::{fixture, open_bytes};

/// Block of `beta-tiny.nra`, and the name of the chunk in it.
fn block() -> (Vec<u8>, String) {
    (fixture("beta-tiny.nra")[304..].to_vec(), blake3::hash(b"hello\n").to_hex().to_string())
}

/// Writes JSON values as MessagePack; `{"bin": [...]}` stands for bytes.
fn pack(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0xc0),
        Value::Bool(value) => out.push(if *value { 0xc3 } else { 0xc2 }),
        Value::Number(number) => match number.as_u64() {
            Some(number) => {
                out.push(0xcf);
                out.extend_from_slice(&number.to_be_bytes());
            }
            None => {
                out.push(0xcb);
                out.extend_from_slice(&number.as_f64().unwrap().to_be_bytes());
            }
        },
        Value::String(text) => {
            out.push(0xda);
            out.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        Value::Array(values) => {
            out.push(0xdc);
            out.extend_from_slice(&u16::try_from(values.len()).unwrap().to_be_bytes());
            values.iter().for_each(|value| pack(value, out));
        }
        Value::Object(fields) if fields.contains_key("bin") => {
            let bytes = fields["bin"].as_array().unwrap();
            out.extend_from_slice(&[0xc4, u8::try_from(bytes.len()).unwrap()]);
            out.extend(bytes.iter().map(|byte| u8::try_from(byte.as_u64().unwrap()).unwrap()));
        }
        Value::Object(fields) => {
            out.push(0xde);
            out.extend_from_slice(&u16::try_from(fields.len()).unwrap().to_be_bytes());
            for (name, value) in fields {
                pack(&json!(name), out);
                pack(value, out);
            }
        }
    }
}

/// A file of a block at 32, then the manifest.
fn file(manifest: &[u8]) -> Vec<u8> {
    let block = block().0;
    let mut bytes = b"NRA\0\x02\0\0\0".to_vec();
    for number in [32 + block.len(), manifest.len(), 32] {
        bytes.extend_from_slice(&(number as u64).to_le_bytes());
    }
    bytes.extend_from_slice(&block);
    bytes.extend_from_slice(manifest);
    bytes
}

fn packed(root: &Value) -> Vec<u8> {
    let mut manifest = b"NRA\x01".to_vec();
    pack(root, &mut manifest);
    file(&manifest)
}

/// The manifest as arrays.
fn arrays() -> Value {
    let (block, hash) = block();
    json!([
        "3.0.0-beta",
        ["tiny", 2, 1, 1.0, 6, 16, false],
        [[hash, 32, block.len(), 6, 0, crc32fast::hash(&block)]],
        [["a/b.txt", 6, [hash]], ["z", 0, []]],
        null
    ])
}

/// The manifest as maps.
fn maps() -> Value {
    let (block, hash) = block();
    json!({
        "version": "3.0.0-beta",
        "summary": {"name": "tiny", "total_files": 2, "total_chunks": 1, "dedup_ratio": 1.0, "total_original_bytes": 6, "total_stored_bytes": 16, "encrypted": false},
        "chunk_table": [{"hash": hash, "offset": 32, "compressed_size": block.len(), "original_size": 6, "inner_offset": 0, "crc32": crc32fast::hash(&block)}],
        "files": [{"id": "a/b.txt", "original_size": 6, "chunks": [hash]}, {"id": "z", "original_size": 0, "chunks": []}],
        "dictionary": null,
    })
}

fn changed(mut value: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut value);
    value
}

fn push(value: &mut Value, more: Value) {
    value.as_array_mut().unwrap().push(more);
}

fn remove(value: &mut Value, field: &str) {
    value.as_object_mut().unwrap().remove(field).unwrap();
}

fn reads(what: &str, bytes: Vec<u8>) {
    let archive = open_bytes(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (_, entry) = archive.find(b"a/b.txt").unwrap().unwrap();
    assert_eq!(archive.read_all(&entry, 100).unwrap(), b"hello\n", "{what}");
    let (_, empty) = archive.find(b"z").unwrap().unwrap();
    assert_eq!(archive.read_all(&empty, 100).unwrap(), b"", "{what}");
}

fn refused(what: &str, bytes: Vec<u8>) {
    match open_bytes(bytes) {
        Err(Error::Corrupt { .. } | Error::Unsupported { .. } | Error::NotAnArchive { .. }) => {}
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what} is accepted"),
    }
}

#[test]
fn what_earlier_versions_accepted() {
    reads("arrays", packed(&arrays()));
    reads("maps", packed(&maps()));
    reads("JSON", file(maps().to_string().as_bytes()));
    reads("JSON and a new line", file(format!("{}\n", maps()).as_bytes()));
    reads("bytes behind the root", {
        let mut manifest = packed(&arrays()).split_off(48);
        manifest.extend_from_slice(b"more");
        file(&manifest)
    });
    reads("garbage behind the last byte", [packed(&arrays()), vec![7; 100]].concat());
    for (what, at, byte) in [("flags", 6, 1), ("offset of the data", 24, 9), ("header version 1", 4, 1)] {
        let mut bytes = packed(&arrays());
        bytes[at] = byte;
        reads(what, bytes);
    }
    reads("no dictionary", packed(&changed(arrays(), |root| drop(root.as_array_mut().unwrap().pop()))));
    reads("no mark for encryption", packed(&changed(arrays(), |root| drop(root[1].as_array_mut().unwrap().pop()))));
    reads("an empty dictionary", packed(&changed(arrays(), |root| root[4] = json!(""))));
    reads("a whole ratio", packed(&changed(arrays(), |root| root[1][3] = json!(1))));
    reads("wrong counters", packed(&changed(arrays(), |root| root[1] = json!(["x", 9, 9, 9.0, 9, 9, false]))));
    reads("another version", packed(&changed(arrays(), |root| root[0] = json!("9"))));
    reads("files as maps", {
        packed(&changed(arrays(), |root| {
            root[3] = maps()["files"].clone();
            root[3][0]["mode"] = json!(0o644);
            root[3][0]["mtime"] = json!([1, {"deep": [2]}]);
        }))
    });
    reads("unknown fields", packed(&changed(maps(), |root| root["more"] = json!({"a": [1, 2]}))));
    reads("unknown fields in JSON", file(changed(maps(), |root| root["more"] = json!([[1], {}])).to_string().as_bytes()));
    reads("fields that may be missing", {
        packed(&changed(maps(), |root| {
            remove(root, "dictionary");
            remove(&mut root["summary"], "encrypted");
            remove(&mut root["chunk_table"][0], "inner_offset");
        }))
    });
    reads("other names of chunks", {
        packed(&changed(arrays(), |root| {
            root[2][0][0] = json!("one");
            root[3][0][2][0] = json!("one");
        }))
    });
    reads("files in front of chunks", {
        let mut root = maps();
        let files = root["files"].take();
        remove(&mut root, "files");
        let text = root.to_string();
        file(format!("{{\"files\":{files},{}", &text[1..]).as_bytes())
    });
}

#[test]
fn what_earlier_versions_refused() {
    for version in [0, 3] {
        let mut bytes = packed(&arrays());
        bytes[4] = version;
        refused("header version", bytes);
    }
    refused("a longer root", packed(&changed(arrays(), |root| push(root, json!(1)))));
    refused("a longer summary", packed(&changed(arrays(), |root| push(&mut root[1], json!(1)))));
    refused("a longer file", packed(&changed(arrays(), |root| push(&mut root[3][0], json!(1)))));
    refused("a longer chunk", packed(&changed(arrays(), |root| push(&mut root[2][0], json!(1)))));
    refused("hashes as bytes", {
        let bytes = json!({"bin": blake3::hash(b"hello\n").as_bytes()});
        packed(&changed(arrays(), |root| (root[2][0][0], root[3][0][2][0]) = (bytes.clone(), bytes.clone())))
    });
    refused("a blank in front of JSON", file(format!(" {}", maps()).as_bytes()));
    refused("more behind JSON", file(format!("{} x", maps()).as_bytes()));
    refused("another prefix", {
        let mut bytes = packed(&arrays());
        bytes[51] = 2;
        refused("no root", file(b"NRA\x01"));
        bytes
    });
    refused("an empty manifest", file(b""));
    refused("no files", packed(&changed(maps(), |root| remove(root, "files"))));
    refused("a chunk without CRC", packed(&changed(maps(), |root| remove(&mut root["chunk_table"][0], "crc32"))));
}

#[test]
fn names_that_lead_elsewhere_are_left_out() {
    let files = |hash: &str| json!([["../x", 6, [hash]], ["/etc/x", 6, [hash]], ["a/b.txt", 6, [hash]], ["z", 0, []]]);
    let archive = open_bytes(packed(&changed(arrays(), |root| root[3] = files(&block().1)))).unwrap();
    assert!(archive.skips_entries());
    let remarks = archive.remarks().join("; ");
    assert!(remarks.contains("../x") && remarks.contains("/etc/x"), "{remarks}");
    let paths: Vec<String> = archive.entries(0..99).map(|entry| entry.unwrap().path.to_string()).collect();
    assert_eq!(paths, ["a", "a/b.txt", "etc", "etc/x", "z"]);
}

#[test]
fn files_that_are_called_as_the_top_directory_are_left_out() {
    for name in [".", "/", "./", "//"] {
        let files = json!([[name, 6, [block().1]], ["a/b.txt", 6, [block().1]], ["z", 0, []]]);
        let archive = open_bytes(packed(&changed(arrays(), |root| root[3] = files))).unwrap();
        assert!(archive.skips_entries(), "{name}");
        assert_eq!(archive.remarks(), [format!("1 entry can't be reached, as the name means no place in an archive: {name}")]);
        assert_eq!(archive.entry_count(), 3);
    }
}

#[test]
fn claims_that_do_not_hold_cost_the_entries_they_touch() {
    let huge = u64::MAX / 4;
    for (what, change) in [
        ("a size", Box::new(|root: &mut Value| root[3][0][1] = json!(huge)) as Box<dyn Fn(&mut Value)>),
        ("a smaller size", Box::new(|root| root[3][0][1] = json!(3))),
        ("an inner offset", Box::new(|root| root[2][0][4] = json!(u64::MAX))),
        ("an inner offset near the end", Box::new(|root| root[2][0][4] = json!(1))),
        ("a size of a chunk", Box::new(|root| root[2][0][3] = json!(u64::MAX))),
        ("a size of a block", Box::new(|root| root[2][0][2] = json!(u64::MAX))),
        ("an offset of a block", Box::new(|root| root[2][0][1] = json!(u64::MAX))),
        ("an offset of a block in the header", Box::new(|root| root[2][0][1] = json!(2))),
        ("a CRC", Box::new(|root| root[2][0][5] = json!(1))),
        ("an unknown chunk", Box::new(|root| root[3][0][2][0] = json!("gone"))),
        (
            "another digest",
            Box::new(|root| {
                let other = blake3::hash(b"x").to_hex().to_string();
                (root[2][0][0], root[3][0][2][0]) = (json!(other), json!(other));
            }),
        ),
    ] {
        let archive = open_bytes(packed(&changed(arrays(), change))).unwrap_or_else(|error| panic!("{what}: {error}"));
        let (_, entry) = archive.find(b"a/b.txt").unwrap().unwrap();
        let mut buffer = [0; 6];
        match archive.read_at(&entry, 0, &mut buffer) {
            Err(Error::Corrupt { .. } | Error::Limit { .. }) => {}
            other => panic!("{what}: {other:?}"),
        }
        let (_, empty) = archive.find(b"z").unwrap().unwrap();
        assert_eq!(archive.read_all(&empty, 100).unwrap(), b"", "{what}");
        let verdict =
            archive.verify(nra::format::archive::Depth::Full, None, &nra::format::progress::Recorder::default()).unwrap();
        assert_eq!((verdict.damage.len(), verdict.damage[0].entry_count), (1, 1), "{what}");
    }
}

/// Blocks that are small as they are stored and long as they are decoded.
#[test]
fn little_content_does_not_cost_many_blocks() {
    const LEN: usize = 8 << 20;
    let mut frame = Vec::with_capacity(LEN);
    zstd_safe::compress(&mut frame, &vec![0; LEN], 1).unwrap();
    let block = [&[1][..], &frame].concat();
    let record = |name: &str, block: &[u8], offset: usize, inner: usize| {
        json!([name, offset, block.len(), LEN - inner, inner, crc32fast::hash(block)])
    };
    let opened = |table: Vec<Value>, files: Value| {
        let mut manifest = b"NRA\x01".to_vec();
        pack(&json!(["3.0.0-beta", ["t", 1, 1, 1.0, 1, 1, false], table, files]), &mut manifest);
        let mut bytes = b"NRA\0\x02\0\0\0".to_vec();
        for number in [32 + 3 * block.len(), manifest.len(), 32] {
            bytes.extend_from_slice(&(number as u64).to_le_bytes());
        }
        bytes.extend([&block[..], &block, &block].concat());
        bytes.extend(manifest);
        open_bytes(bytes)
    };
    let place = |number: usize| 32 + number * block.len();
    let end = LEN - 1;
    // Blocks that several parts of the table name are one.
    let table = vec![
        record("a", &block, place(0), end),
        record("b", &block, place(1), end),
        record("c", &block, place(0), end),
        record("whole", &block, place(1), 0),
    ];
    let archive =
        opened(table, json!([["a", 3, ["a", "b", "a"]], ["b", 2, ["a", "c"]], ["c", LEN + 1, ["a", "whole"]]])).unwrap();
    assert_eq!(archive.info().blocks, Some(2));
    let read = |path: &[u8]| archive.read_all(&archive.find(path).unwrap().unwrap().1, 1 << 30);
    assert!(matches!(read(b"a"), Err(Error::Limit { what: "length of the blocks of a file", .. })));
    assert_eq!(read(b"b").unwrap(), [0; 2]);
    assert_eq!(read(b"c").unwrap().len(), LEN + 1);
    // The same bytes as a hundred blocks are not a hundred blocks.
    let table: Vec<Value> = (0..100).map(|more| record(&more.to_string(), &block[..block.len() - more], place(0), end)).collect();
    assert!(matches!(opened(table, json!([])), Err(Error::Corrupt { .. })));
}

#[test]
fn nested_values_end_somewhere() {
    let deep = [b"NRA\x01".to_vec(), vec![0x91; 1 << 20]].concat();
    refused("nested arrays", file(&deep));
    let skipped = [b"NRA\x01\x95".to_vec(), vec![0x91; 1 << 20]].concat();
    refused("nested arrays to skip", file(&skipped));
    refused("nested JSON", file(format!("{{\"more\":{}", "[".repeat(1 << 20)).as_bytes()));
    // Counts are not believed before the elements are there.
    refused("a long list", file(b"NRA\x01\x95\xa1x\x92\xa1x\x01\xdd\xff\xff\xff\xff"));
}
