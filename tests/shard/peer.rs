//! The published Python package `shard-py` reads what nra writes. Skipped if it is not installed.

use std::process::Command;

use nra::format::shard::{Compression, Dialect, Layout, NewEntry, Role, ShardWriter, Style};
use sha2::{Digest, Sha256};

use crate::common;

const READ_ALL: &str = "
import hashlib, sys
from shard_v2 import ShardV2Reader
for path in sys.argv[1:]:
    reader = ShardV2Reader(path)
    for i in range(reader.entry_count()):
        content = reader.read_entry(i)
        name = reader.entry_name(i)
        assert reader.read_entry_by_name(name) == content
        print(hashlib.sha256(content).hexdigest(), len(content), name)
";

#[test]
fn published_package_reads_written_files() {
    let Some(python) = common::python_with("shard-py", "import shard_v2") else { return };
    let directory = tempfile::tempdir().unwrap();
    let text: Vec<u8> = (0..9_000u32).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    let noise: Vec<u8> = (0..2_000u32).flat_map(|number| blake3::hash(&number.to_le_bytes()).as_bytes().to_owned()).collect();
    let contents = [("a/text", &text), ("b/noise", &noise), ("empty", &Vec::new()), ("ü/ж", &text)];
    let names: Vec<Box<[u8]>> = contents.iter().map(|(name, _)| name.as_bytes().into()).collect();
    let digest = |content: &[u8]| Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let expected: String =
        contents.iter().map(|(name, content)| format!("{} {} {name}\n", digest(content), content.len())).collect();
    for (dialect, compression, is_streamed) in [
        (Dialect::Go, None, false),
        (Dialect::Go, Some(Compression::Zstd), true),
        (Dialect::Go, Some(Compression::Lz4), false),
        (Dialect::Python, None, true),
        (Dialect::Python, Some(Compression::Zstd), false),
        (Dialect::Python, Some(Compression::Lz4), true),
    ] {
        let what = format!("{dialect:?} {compression:?} {is_streamed}");
        let path = directory.path().join("written.shard");
        let layout = if is_streamed { Layout::Streaming(4) } else { Layout::Names(names.clone()) };
        let style = Style::new(dialect, Role::SAMPLES, 64, compression, &layout);
        let mut writer = ShardWriter::create(std::fs::File::create(&path).unwrap(), style, layout).unwrap();
        for (name, content) in contents {
            let (name, content) = (name.as_bytes(), content.as_slice());
            writer.add(NewEntry { name, content, compression, fields: Default::default() }).unwrap();
        }
        drop(writer.finish(None).unwrap());
        let output = Command::new(&python).arg("-c").arg(READ_ALL).arg(&path).env("PYTHONIOENCODING", "utf-8").output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && stderr.is_empty(), "{what}: {stderr}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{what}");
    }
}
