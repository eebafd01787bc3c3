//! Looking into files of many kinds.

use std::sync::Arc;

use insta::assert_snapshot;

use super::Story;
use crate::format::archive::Archive;
use crate::tui::sample;

const SIZES: [(u16, u16); 3] = [(120, 40), (80, 24), (40, 10)];

fn snapshots(archive: &Arc<dyn Archive>, name: &str, keys: &str) {
    for (width, height) in SIZES {
        let mut story = Story::begin(Arc::clone(archive), width, height);
        story.then(keys);
        assert_snapshot!(format!("{name}-{width}x{height}"), story.screen());
    }
}

/// Returns a safetensors file with the tensors of so many layers.
fn safetensors(layers: usize) -> Vec<u8> {
    let tensor =
        |name: &str, shape: &str, end: usize| format!(r#""{name}":{{"dtype":"BF16","shape":{shape},"data_offsets":[0,{end}]}}"#);
    let mut parts = vec![r#""__metadata__":{"format":"pt","made by":"a test\u001b[31m"}"#.to_owned()];
    for layer in 0..layers {
        parts.push(tensor(&format!("model.layers.{layer}.attention.weight"), "[512,64]", 65_536));
        parts.push(tensor(&format!("model.layers.{layer}.norm.bias"), "[512]", 1_024));
    }
    let json = format!("{{{}}}", parts.join(","));
    let mut bytes = u64::try_from(json.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend(json.as_bytes());
    bytes.resize(bytes.len() + 70_000, 7);
    bytes
}

fn files() -> Arc<dyn Archive> {
    let mut npy = b"\x93NUMPY\x01\0\x3b\0{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n".to_vec();
    npy.resize(npy.len() + 48, 0);
    let csv = "name,size,note\ncat.png,1203,\"good, but dark\"\ndog.png,88,\nа\u{202e}б.png,9,日本語のメモ\n";
    sample::with_contents(&[
        ("a.npy", &npy),
        ("b.safetensors", &safetensors(40)),
        ("c.csv", csv.as_bytes()),
        ("d.parquet", include_bytes!("../../format/inside/small.parquet")),
        ("e.npy", b"\x93NUMPY\x01\0\xff\xff{"),
    ])
}

#[test]
fn tensors() {
    snapshots(&files(), "tensors", "j f3");
}

#[test]
fn separated_values() {
    snapshots(&files(), "csv", "j j f3");
}

#[test]
fn arrays_and_columns() {
    let mut story = Story::begin(files(), 120, 40);
    story.sees("NPY · 1").sees("float32").sees("3 × 4");
    story.then("j j j");
    story.sees("who.name").sees("bytes (text)").sees("row groups");
    // Damage is no reason to show nothing, and is told when a table is asked for.
    story.then("j");
    story.sees("hex · 11 B");
    story.then("4");
    story.sees("NPY header");
}

#[test]
fn a_table_is_scrolled_and_left_for_bytes() {
    let mut story = Story::begin(files(), 120, 40);
    story.then("j tab G");
    story.sees("model.layers.39.norm.bias").misses("made by");
    story.then("2");
    story.sees("hex · ");
    story.then("0 g");
    story.sees("made by").sees("a test␛[31m");
    assert!(!story.screen().contains('\u{1b}'));
}
