//! Pages of the entry tree.
//!
//! Spec: nra.md, section 9.

use crate::format::entry::Entry;
use crate::format::nra::content::FrameRef;
use crate::format::wire::Malformed;

/// Raw payload at which a writer closes a leaf, bytes.
pub const LEAF_TARGET: usize = 16 << 10;
/// Raw payload at which a writer closes an inner page, bytes.
pub const INNER_TARGET: usize = 32 << 10;

/// A node of the entry tree.
#[derive(Debug, Clone, PartialEq)]
pub enum Page {
    /// Entries in path order.
    Leaf(Vec<Entry>),
    /// Children and what lies below them.
    Inner(InnerPage),
}

/// An inner node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerPage {
    /// 1 for the parent of leaves.
    pub level: u8,
    /// Children in path order.
    pub children: Vec<Child>,
}

/// Reference to a child page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Shortest prefix of the first path below that is greater than the last path in front; empty for the leftmost.
    pub key: Box<[u8]>,
    /// The page.
    pub page: FrameRef,
    /// Entries below it.
    pub entries: u64,
    /// Sum of the sizes of the files below it, bytes.
    pub content_bytes: u64,
}

impl Page {
    /// Returns the raw payload of the page.
    pub fn encode(&self) -> Vec<u8> {
        todo!()
    }
    /// Parses the raw payload of a page.
    pub(crate) fn parse(_payload: &[u8]) -> Result<Self, Malformed> {
        todo!()
    }
}

/// Returns the shortest prefix of `first` that is greater than `last` in path order.
pub fn separator<'a>(_last: &[u8], _first: &'a [u8]) -> &'a [u8] {
    todo!()
}
