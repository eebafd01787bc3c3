//! Manifests that earlier versions accepted or rejected, built from one block that holds `hello\n`.

use nra::format::Error;
use serde_json::{Value, json};

use super::{fixture, open_bytes};

/// Returns the block of `beta-tiny.nra` and the hash of its chunk.
fn block() -> (Vec<u8>, String) {
    (fixture("beta-tiny.nra")[304..].to_vec(), blake3::hash(b"hello\n").to_hex().to_string())
}

/// Encodes JSON values as MessagePack. `{"bin": [...]}` represents a byte string.
fn encode(value: &Value, out: &mut Vec<u8>) {
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
            values.iter().for_each(|value| encode(value, out));
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
                encode(&json!(name), out);
                encode(value, out);
            }
        }
    }
}

/// Returns a file with a block at offset 32, followed by the manifest.
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

fn messagepack_file(root: &Value) -> Vec<u8> {
    let mut manifest = b"NRA\x01".to_vec();
    encode(root, &mut manifest);
    file(&manifest)
}

/// Returns the manifest as arrays.
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

/// Returns the manifest as maps.
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

fn assert_reads(what: &str, bytes: Vec<u8>) {
    let archive = open_bytes(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (_, entry) = archive.find(b"a/b.txt").unwrap().unwrap();
    assert_eq!(archive.read_all(&entry, 100).unwrap(), b"hello\n", "{what}");
    let (_, empty) = archive.find(b"z").unwrap().unwrap();
    assert_eq!(archive.read_all(&empty, 100).unwrap(), b"", "{what}");
}

fn assert_rejected(what: &str, bytes: Vec<u8>) {
    match open_bytes(bytes) {
        Err(Error::Corrupt { .. } | Error::Unsupported { .. } | Error::NotAnArchive { .. }) => {}
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what} is accepted"),
    }
}

#[test]
fn manifests_that_earlier_versions_accepted_are_read() {
    assert_reads("arrays", messagepack_file(&arrays()));
    assert_reads("maps", messagepack_file(&maps()));
    assert_reads("JSON", file(maps().to_string().as_bytes()));
    assert_reads("JSON and a new line", file(format!("{}\n", maps()).as_bytes()));
    assert_reads("bytes after the root", {
        let mut manifest = messagepack_file(&arrays()).split_off(48);
        manifest.extend_from_slice(b"more");
        file(&manifest)
    });
    assert_reads("garbage after the last block", [messagepack_file(&arrays()), vec![7; 100]].concat());
    for (what, at, byte) in [("flags", 6, 1), ("offset of the data", 24, 9), ("header version 1", 4, 1)] {
        let mut bytes = messagepack_file(&arrays());
        bytes[at] = byte;
        assert_reads(what, bytes);
    }
    assert_reads("no dictionary", messagepack_file(&changed(arrays(), |root| drop(root.as_array_mut().unwrap().pop()))));
    assert_reads(
        "no flag for encryption",
        messagepack_file(&changed(arrays(), |root| drop(root[1].as_array_mut().unwrap().pop()))),
    );
    assert_reads("an empty dictionary", messagepack_file(&changed(arrays(), |root| root[4] = json!(""))));
    assert_reads("a whole ratio", messagepack_file(&changed(arrays(), |root| root[1][3] = json!(1))));
    assert_reads("wrong counters", messagepack_file(&changed(arrays(), |root| root[1] = json!(["x", 9, 9, 9.0, 9, 9, false]))));
    assert_reads("another version", messagepack_file(&changed(arrays(), |root| root[0] = json!("9"))));
    assert_reads("files as maps", {
        messagepack_file(&changed(arrays(), |root| {
            root[3] = maps()["files"].clone();
            root[3][0]["mode"] = json!(0o644);
            root[3][0]["mtime"] = json!([1, {"deep": [2]}]);
        }))
    });
    assert_reads("unknown fields", messagepack_file(&changed(maps(), |root| root["more"] = json!({"a": [1, 2]}))));
    assert_reads("unknown fields in JSON", file(changed(maps(), |root| root["more"] = json!([[1], {}])).to_string().as_bytes()));
    assert_reads("fields that may be missing", {
        messagepack_file(&changed(maps(), |root| {
            remove(root, "dictionary");
            remove(&mut root["summary"], "encrypted");
            remove(&mut root["chunk_table"][0], "inner_offset");
        }))
    });
    assert_reads("other names of chunks", {
        messagepack_file(&changed(arrays(), |root| {
            root[2][0][0] = json!("one");
            root[3][0][2][0] = json!("one");
        }))
    });
    assert_reads("files before chunks", {
        let mut root = maps();
        let files = root["files"].take();
        remove(&mut root, "files");
        let text = root.to_string();
        file(format!("{{\"files\":{files},{}", &text[1..]).as_bytes())
    });
}

#[test]
fn manifests_that_earlier_versions_rejected_are_rejected() {
    for version in [0, 3] {
        let mut bytes = messagepack_file(&arrays());
        bytes[4] = version;
        assert_rejected("header version", bytes);
    }
    assert_rejected("a longer root", messagepack_file(&changed(arrays(), |root| push(root, json!(1)))));
    assert_rejected("a longer summary", messagepack_file(&changed(arrays(), |root| push(&mut root[1], json!(1)))));
    assert_rejected("a longer file", messagepack_file(&changed(arrays(), |root| push(&mut root[3][0], json!(1)))));
    assert_rejected("a longer chunk", messagepack_file(&changed(arrays(), |root| push(&mut root[2][0], json!(1)))));
    assert_rejected("hashes as bytes", {
        let bytes = json!({"bin": blake3::hash(b"hello\n").as_bytes()});
        messagepack_file(&changed(arrays(), |root| (root[2][0][0], root[3][0][2][0]) = (bytes.clone(), bytes.clone())))
    });
    assert_rejected("a space before JSON", file(format!(" {}", maps()).as_bytes()));
    assert_rejected("more after JSON", file(format!("{} x", maps()).as_bytes()));
    assert_rejected("another prefix", {
        let mut bytes = messagepack_file(&arrays());
        bytes[51] = 2;
        assert_rejected("no root", file(b"NRA\x01"));
        bytes
    });
    assert_rejected("an empty manifest", file(b""));
    assert_rejected("no files", messagepack_file(&changed(maps(), |root| remove(root, "files"))));
    assert_rejected(
        "a chunk without CRC",
        messagepack_file(&changed(maps(), |root| remove(&mut root["chunk_table"][0], "crc32"))),
    );
}

#[test]
fn names_that_lead_outside_are_skipped() {
    let files = |hash: &str| json!([["../x", 6, [hash]], ["/etc/x", 6, [hash]], ["a/b.txt", 6, [hash]], ["z", 0, []]]);
    let archive = open_bytes(messagepack_file(&changed(arrays(), |root| root[3] = files(&block().1)))).unwrap();
    assert!(archive.skips_entries());
    let remarks = archive.remarks().join("; ");
    assert!(remarks.contains("../x") && remarks.contains("/etc/x"), "{remarks}");
    let paths: Vec<String> = archive.entries(0..99).map(|entry| entry.unwrap().path.to_string()).collect();
    assert_eq!(paths, ["a", "a/b.txt", "etc", "etc/x", "z"]);
}

#[test]
fn files_named_like_the_top_directory_are_skipped() {
    for name in [".", "/", "./", "//"] {
        let files = json!([[name, 6, [block().1]], ["a/b.txt", 6, [block().1]], ["z", 0, []]]);
        let archive = open_bytes(messagepack_file(&changed(arrays(), |root| root[3] = files))).unwrap();
        assert!(archive.skips_entries(), "{name}");
        assert_eq!(archive.remarks(), [format!("1 entry is skipped, because its name is invalid: {name}")]);
        assert_eq!(archive.entry_count(), 3);
    }
}

#[test]
fn false_manifest_fields_affect_only_their_entries() {
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
        let archive = open_bytes(messagepack_file(&changed(arrays(), change))).unwrap_or_else(|error| panic!("{what}: {error}"));
        let (_, entry) = archive.find(b"a/b.txt").unwrap().unwrap();
        let mut buffer = [0; 6];
        match archive.read_at(&entry, 0, &mut buffer) {
            Err(Error::Corrupt { .. } | Error::Limit { .. }) => {}
            other => panic!("{what}: {other:?}"),
        }
        let (_, empty) = archive.find(b"z").unwrap().unwrap();
        assert_eq!(archive.read_all(&empty, 100).unwrap(), b"", "{what}");
        let report =
            archive.verify(nra::format::archive::Depth::Full, None, &nra::format::progress::Recorder::default()).unwrap();
        assert_eq!((report.damage.len(), report.damage[0].entry_count), (1, 1), "{what}");
    }
}

#[test]
fn highly_compressed_blocks_cannot_make_small_files_expensive() {
    const LEN: usize = 8 << 20;
    let mut frame = Vec::with_capacity(LEN);
    zstd_safe::compress(&mut frame, &vec![0; LEN], 1).unwrap();
    let block = [&[1][..], &frame].concat();
    let record = |name: &str, block: &[u8], offset: usize, inner: usize| {
        json!([name, offset, block.len(), LEN - inner, inner, crc32fast::hash(block)])
    };
    let opened = |table: Vec<Value>, files: Value| {
        let mut manifest = b"NRA\x01".to_vec();
        encode(&json!(["3.0.0-beta", ["t", 1, 1, 1.0, 1, 1, false], table, files]), &mut manifest);
        let mut bytes = b"NRA\0\x02\0\0\0".to_vec();
        for number in [32 + 3 * block.len(), manifest.len(), 32] {
            bytes.extend_from_slice(&(number as u64).to_le_bytes());
        }
        bytes.extend([&block[..], &block, &block].concat());
        bytes.extend(manifest);
        open_bytes(bytes)
    };
    let offset = |number: usize| 32 + number * block.len();
    let end = LEN - 1;
    // Equal blocks in several records are one block.
    let table = vec![
        record("a", &block, offset(0), end),
        record("b", &block, offset(1), end),
        record("c", &block, offset(0), end),
        record("whole", &block, offset(1), 0),
    ];
    let archive =
        opened(table, json!([["a", 3, ["a", "b", "a"]], ["b", 2, ["a", "c"]], ["c", LEN + 1, ["a", "whole"]]])).unwrap();
    assert_eq!(archive.info().blocks, Some(2));
    let read = |path: &[u8]| archive.read_all(&archive.find(path).unwrap().unwrap().1, 1 << 30);
    assert!(matches!(read(b"a"), Err(Error::Limit { what: "length of the blocks of a file", .. })));
    assert_eq!(read(b"b").unwrap(), [0; 2]);
    assert_eq!(read(b"c").unwrap().len(), LEN + 1);
    // A hundred blocks at the same position are rejected.
    let table: Vec<Value> =
        (0..100).map(|more| record(&more.to_string(), &block[..block.len() - more], offset(0), end)).collect();
    assert!(matches!(opened(table, json!([])), Err(Error::Corrupt { .. })));
}

#[test]
fn deep_nesting_and_false_counts_are_rejected() {
    let deep = [b"NRA\x01".to_vec(), vec![0x91; 1 << 20]].concat();
    assert_rejected("nested arrays", file(&deep));
    let skipped = [b"NRA\x01\x95".to_vec(), vec![0x91; 1 << 20]].concat();
    assert_rejected("nested arrays to skip", file(&skipped));
    assert_rejected("nested JSON", file(format!("{{\"more\":{}", "[".repeat(1 << 20)).as_bytes()));
    // Counts do not cause allocations before the elements are read.
    assert_rejected("a long list", file(b"NRA\x01\x95\xa1x\x92\xa1x\x01\xdd\xff\xff\xff\xff"));
}
