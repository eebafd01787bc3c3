//! The reader finds what a model of the calls expects.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::{file, noise, options, path, text, whole};
use crate::reader::NraReader;
use crate::writer::{BlockPolicy, EntryId, NewContent, Writer, WriterOptions};
use nra_core::archive::{Archive, Depth, OpenOptions};
use nra_core::codec::{Method, looks_incompressible};
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind};
use nra_core::progress::Recorder;
use nra_core::source::MemorySource;

/// A part of a large file.
#[derive(Debug, Clone)]
enum Part {
    Text(usize, u64),
    Noise(usize, u64),
    Hole(u64),
}

/// A call.
#[derive(Debug, Clone)]
enum Call {
    Directory(String),
    Text(String, usize, u64),
    Noise(String, usize, u64),
    Large(String, Vec<Part>),
    Abandoned(Vec<Part>),
    /// A link to the file added this many calls before.
    Link(String, usize),
}

fn names() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c!", "d", "e-longer-name"]), 1..4)
        .prop_map(|parts| parts.join("/"))
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        (1..40_000usize, 0..5u64).prop_map(|(len, seed)| Part::Text(len, seed)),
        (1..40_000usize, 0..5u64).prop_map(|(len, seed)| Part::Noise(len, seed)),
        (1..100_000u64).prop_map(Part::Hole),
    ];
    prop::collection::vec(part, 0..12)
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        names().prop_map(Call::Directory),
        (names(), 0..20_000usize, 0..9u64).prop_map(|(name, len, seed)| Call::Text(name, len, seed)),
        (names(), 0..20_000usize, 0..9u64).prop_map(|(name, len, seed)| Call::Noise(name, len, seed)),
        (names(), parts()).prop_map(|(name, parts)| Call::Large(name, parts)),
        parts().prop_map(Call::Abandoned),
        (names(), 0..9usize).prop_map(|(name, back)| Call::Link(name, back)),
    ];
    prop::collection::vec(call, 0..60)
}

fn bytes(part: &Part) -> Vec<u8> {
    match part {
        Part::Text(len, seed) => text(*len, *seed),
        Part::Noise(len, seed) => noise(*len, *seed),
        Part::Hole(len) => vec![0; usize::try_from(*len).unwrap()],
    }
}

fn give(writer: &mut Writer<Vec<u8>>, parts: &[Part]) {
    for part in parts {
        match part {
            Part::Hole(len) => writer.add_hole(*len).unwrap(),
            _ => {
                let bytes = bytes(part);
                writer.add_chunk(&bytes, Digest::of(&bytes), looks_incompressible(&bytes)).unwrap();
            }
        }
    }
}

/// Expected content by path; `None` for a directory.
type Model = BTreeMap<String, Option<Vec<u8>>>;

fn play(writer: &mut Writer<Vec<u8>>, calls: &[Call]) -> Model {
    let mut model = Model::new();
    let mut files: Vec<(EntryId, Vec<u8>)> = Vec::new();
    for call in calls {
        let (name, id, content) = match call {
            Call::Directory(name) => {
                writer.add(Entry::new(path(name), Kind::Directory), NewContent::None).unwrap();
                model.insert(name.clone(), None);
                continue;
            }
            Call::Abandoned(parts) => {
                writer.begin_file(file("abandoned")).unwrap();
                give(writer, parts);
                writer.abandon_file();
                continue;
            }
            Call::Text(name, len, seed) => {
                let content = text(*len, *seed);
                (name, writer.add(file(name), whole(&content)).unwrap(), content)
            }
            Call::Noise(name, len, seed) => {
                let content = noise(*len, *seed);
                (name, writer.add(file(name), whole(&content)).unwrap(), content)
            }
            Call::Large(name, parts) => {
                let content: Vec<u8> = parts.iter().flat_map(bytes).collect();
                writer.begin_file(file(name)).unwrap();
                give(writer, parts);
                (name, writer.end_file(Some(Digest::of(&content))).unwrap(), content)
            }
            Call::Link(name, back) => {
                let Some((earlier, content)) = files.iter().rev().nth(*back).cloned() else { continue };
                (name, writer.add_link(file(name), earlier).unwrap(), content)
            }
        };
        files.push((id, content.clone()));
        model.insert(name.clone(), Some(content));
    }
    // A path with entries below it is a directory.
    for name in model.keys().cloned().collect::<Vec<_>>() {
        for (at, _) in name.match_indices('/') {
            model.insert(name[..at].into(), None);
        }
    }
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn reader_matches_the_model(
        calls in calls(),
        align in prop::sample::select(vec![0, 16, 64]),
        method in prop::sample::select(vec![Method::zstd(1), Method::LZ4, Method::NONE]),
        max in 1..2u32 << 17,
    ) {
        let block = BlockPolicy { min_raw_bytes: max.div_ceil(2), max_raw_bytes: max, stored_bytes: max / 4, max_cheap_bytes: 16 << 20 };
        let options = WriterOptions { align, method, block, ..options() };
        let mut writer = Writer::create(Vec::new(), options).unwrap();
        let model = play(&mut writer, &calls);
        let (archive, stats) = writer.finish(&Recorder::default()).unwrap();
        prop_assert_eq!(stats.entries, model.len() as u64);
        let reader = NraReader::open(Arc::new(MemorySource::new(archive)), &OpenOptions::default()).unwrap();
        let mut groups: BTreeMap<u64, u32> = BTreeMap::new();
        for (name, expected) in &model {
            let (_, entry) = reader.find(name.as_bytes()).unwrap().expect("it was added");
            match expected {
                None => prop_assert_eq!(entry.kind, Kind::Directory),
                Some(content) => {
                    prop_assert_eq!(entry.size, content.len() as u64);
                    prop_assert!(reader.read_all(&entry, u64::MAX).unwrap() == *content, "content of {}", name);
                    *groups.entry(entry.link_group).or_default() += 1;
                }
            }
        }
        groups.remove(&0);
        prop_assert!(groups.values().all(|&members| members > 1));
        let verdict = reader.verify(Depth::Full, None, &Recorder::default()).unwrap();
        prop_assert_eq!(verdict.damage, Vec::new());
    }
}
