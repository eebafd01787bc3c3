//! Random trees.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use nra::format::entry::Kind;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::noise;
use crate::{Packing, Place};

/// The type and content of an entry.
#[derive(Debug, Clone)]
enum Node {
    File(Vec<u8>),
    Symlink(Vec<u8>),
    Directory(Vec<(Vec<u8>, Node)>),
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let odd = vec(any::<u8>().prop_filter("no part of a name", |&byte| byte != 0 && byte != b'/'), 1..12);
    let usual = "[a-c]{1,2}[0-9]{0,3}(\\.(txt|png))?".prop_map(String::into_bytes);
    prop_oneof![odd, usual].prop_filter("not a name", |name| name != b"." && name != b"..")
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..50),
        (0_usize..6000).prop_map(|len| b"some words ".iter().copied().cycle().take(len).collect()),
        (0_u64..4, 0_usize..400_000).prop_map(|(seed, len)| noise(len, seed)),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    let target = vec(any::<u8>().prop_filter("ends a path", |&byte| byte != 0), 1..20);
    let leaf = prop_oneof![3 => content().prop_map(Node::File), 1 => target.prop_map(Node::Symlink)];
    leaf.prop_recursive(4, 40, 6, |inner| vec((name(), inner), 0..6).prop_map(Node::Directory))
}

/// Creates the tree on disk. Repeated names are skipped.
fn make(directory: PathBuf, nodes: &[(Vec<u8>, Node)], stored: &[u8], expected: &mut BTreeMap<Vec<u8>, Node>) {
    for (name, node) in nodes {
        let path = directory.join(OsStr::from_bytes(name));
        let mut stored = stored.to_vec();
        if !stored.is_empty() {
            stored.push(b'/');
        }
        stored.extend_from_slice(name);
        if expected.contains_key(&stored) {
            continue;
        }
        expected.insert(stored.clone(), node.clone());
        match node {
            Node::File(content) => fs::write(path, content).unwrap(),
            Node::Symlink(target) => symlink(OsStr::from_bytes(target), path).unwrap(),
            Node::Directory(nodes) => {
                fs::create_dir(&path).unwrap();
                make(path, nodes, &stored, expected);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_trees_are_kept(nodes in vec((name(), node()), 0..8), window_names in 1_usize..40, threads in 1_usize..4) {
        let place = Place::new();
        let mut expected = BTreeMap::new();
        make(place.at("in"), &nodes, b"", &mut expected);
        let packing = Packing::with(|packing| (packing.source.window_names, packing.options.threads) = (window_names, threads));
        let packed = place.packed(&packing);
        prop_assert_eq!(packed.entries.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (path, node) in &expected {
            let entry = packed.entry(path);
            match node {
                Node::File(content) => {
                    prop_assert_eq!(entry.kind, Kind::File);
                    prop_assert!(packed.content(path) == *content);
                }
                Node::Symlink(target) => {
                    prop_assert_eq!(entry.kind, Kind::Symlink);
                    prop_assert_eq!(&*entry.target, &**target);
                }
                Node::Directory(_) => prop_assert_eq!(entry.kind, Kind::Directory),
            }
        }
    }
}
