//! The order in which files are stored: similar ones next to each other.
//!
//! Compression sees a bounded number of bytes, so similar files must be close. Files are sorted by
//! extension, then by directory and name with each run of digits replaced by one sign ("folded"),
//! then by directory and name. The same file in `v1/`, `v2/` and `v3/` is therefore stored three
//! times in a row, and numbered files keep the order of their directory. The order depends on paths
//! alone, not on the order in which they were found.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::source::walk::{DirId, Tree, Window};

/// Returns the numbers of the names of `window` in storage order. Equal paths are adjacent, in the
/// order in which they were found.
pub(super) fn order(tree: &Tree, window: &Window, exact: &Ranks) -> Vec<u32> {
    let folded = Ranks::new(tree, |name, out| fold(name).for_each(|byte| out.push(byte)));
    let extensions = extension_ranks(window);
    let mut keys: Vec<Key> = window
        .names
        .iter()
        .zip(&extensions)
        .enumerate()
        .map(|(number, (name, &extension))| Key {
            group: u64::from(extension) << 32 | u64::from(folded.of(name.directory)),
            directory: exact.of(name.directory),
            number: u32::try_from(number).expect("a window has fewer than 2^32 names"),
        })
        .collect();
    let name = |key: &Key| window.name(&window.names[key.number as usize]);
    // Stable, and fast on sorted runs, which a walk returns.
    keys.sort_by(|a, b| {
        a.group.cmp(&b.group).then_with(|| {
            let (x, y) = (name(a), name(b));
            compare_folded(x, y).then(a.directory.cmp(&b.directory)).then_with(|| x.cmp(y))
        })
    });
    keys.into_iter().map(|key| key.number).collect()
}

struct Key {
    /// Rank of the extension, then of the folded directory.
    group: u64,
    directory: u32,
    number: u32,
}

/// Returns the bytes of a name with `#` for each run of digits.
fn fold(name: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut in_digits = false;
    name.iter().filter_map(move |&byte| {
        let digit = byte.is_ascii_digit();
        let first = digit && !in_digits;
        in_digits = digit;
        if first {
            Some(b'#')
        } else if digit {
            None
        } else {
            Some(byte)
        }
    })
}

fn compare_folded(a: &[u8], b: &[u8]) -> Ordering {
    if a == b { Ordering::Equal } else { fold(a).cmp(fold(b)) }
}

/// Returns the part of a name after its last dot; empty without a dot, or if the only dot is the
/// first character.
fn extension(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|&byte| byte == b'.') {
        None | Some(0) => b"",
        Some(dot) => &name[dot + 1..],
    }
}

/// Returns the rank of each name's extension, in lower case, among those of the window.
fn extension_ranks(window: &Window) -> Vec<u32> {
    let mut numbers: HashMap<Vec<u8>, u32> = HashMap::new();
    let mut lower = Vec::new();
    let found: Vec<u32> = window
        .names
        .iter()
        .map(|name| {
            lower.clear();
            lower.extend(extension(window.name(name)).iter().map(u8::to_ascii_lowercase));
            match numbers.get(&lower) {
                Some(&number) => number,
                None => {
                    let number = u32::try_from(numbers.len()).expect("fewer extensions than names");
                    numbers.insert(lower.clone(), number);
                    number
                }
            }
        })
        .collect();
    let mut sorted: Vec<(Vec<u8>, u32)> = numbers.into_iter().collect();
    sorted.sort_unstable();
    let mut rank = vec![0; sorted.len()];
    for (place, (_, number)) in (0..).zip(&sorted) {
        rank[*number as usize] = place;
    }
    found.into_iter().map(|number| rank[number as usize]).collect()
}

/// Ranks of the directories of a tree in path order; equal for equal (folded) paths. Computed
/// without building the paths, whose total length grows with the square of the depth.
pub(super) struct Ranks(Vec<u32>);

impl Ranks {
    /// Ranks the directories of `tree` by their paths.
    pub(super) fn by_path(tree: &Tree) -> Self {
        Self::new(tree, |name, out| out.extend_from_slice(name))
    }

    fn new(tree: &Tree, spell: impl Fn(&[u8], &mut Vec<u8>)) -> Self {
        let mut trie = Trie::default();
        let mut node_of = Vec::with_capacity(tree.len());
        let mut spelled = Vec::new();
        for id in tree.ids() {
            let node = match tree.parent(id) {
                Some(parent) => {
                    spelled.clear();
                    spell(tree.name(id), &mut spelled);
                    trie.child(node_of[parent.index()], &spelled)
                }
                None => tree.root(id).stored.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).fold(0, |node, name| {
                    spelled.clear();
                    spell(name, &mut spelled);
                    trie.child(node, &spelled)
                }),
            };
            node_of.push(node);
        }
        let places = trie.places();
        Self(node_of.into_iter().map(|node| places[node as usize]).collect())
    }

    /// Returns the rank of a directory.
    pub(super) fn of(&self, id: DirId) -> u32 {
        self.0[id.index()]
    }
}

/// A node and the name of a child.
type Edge = (u32, Box<[u8]>);

/// A trie of names. Node 0 is the top.
#[derive(Default)]
struct Trie {
    numbers: HashMap<Edge, u32>,
}

impl Trie {
    fn child(&mut self, parent: u32, name: &[u8]) -> u32 {
        let next = u32::try_from(self.numbers.len() + 1).expect("fewer nodes than directories and components");
        *self.numbers.entry((parent, name.into())).or_insert(next)
    }

    /// Returns the rank of each node. Parents precede their children, which are sorted by name.
    fn places(self) -> Vec<u32> {
        let count = self.numbers.len() + 1;
        let mut children: Vec<(Edge, u32)> = self.numbers.into_iter().collect();
        children.sort_unstable();
        let mut first = vec![children.len(); count + 1];
        for (i, ((parent, _), _)) in children.iter().enumerate().rev() {
            first[*parent as usize] = i;
        }
        let mut places = vec![0; count];
        let mut place = 0;
        let mut stack = vec![0_u32];
        while let Some(node) = stack.pop() {
            places[node as usize] = place;
            place += 1;
            let start = first[node as usize].min(children.len());
            let own = children[start..].iter().take_while(|((parent, _), _)| *parent == node).count();
            stack.extend(children[start..start + own].iter().rev().map(|(_, child)| *child));
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::walk::{NameKind, Root};

    fn paths(names: &[&str]) -> Vec<String> {
        let mut tree = Tree::default();
        let root = tree.add_root(Root { path: b"."[..].into(), stored: Box::default(), shown: Box::default(), hidden_len: 0 });
        let mut ids: HashMap<String, DirId> = HashMap::from([(String::new(), root)]);
        let mut window = Window::default();
        for path in names {
            let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
            let mut at = root;
            let mut so_far = String::new();
            for component in directory.split('/').filter(|c| !c.is_empty()) {
                so_far = format!("{so_far}/{component}");
                at = *ids.entry(so_far.clone()).or_insert_with(|| tree.add(at, component.as_bytes()));
            }
            window.push(at, NameKind::File, 0, name.as_bytes());
        }
        order(&tree, &window, &Ranks::by_path(&tree)).into_iter().map(|i| names[i as usize].to_owned()).collect()
    }

    #[test]
    fn same_file_of_versions_is_adjacent() {
        let expected =
            ["README", "v1/README", "v2/README", "v1/a.c", "v2/a.c", "v1/b.c", "v10/b.c", "v2/b.c", "x/0001.PNG", "x/0002.png"];
        assert_eq!(paths(&expected), expected);
        let mut turned = expected;
        turned.reverse();
        assert_eq!(paths(&turned), expected);
    }

    #[test]
    fn folding_replaces_runs_of_digits() {
        assert_eq!(fold(b"img_0012-3.png").collect::<Vec<_>>(), b"img_#-#.png");
        assert_eq!(extension(b".bashrc"), b"");
        assert_eq!(extension(b"a.tar.gz"), b"gz");
    }
}
