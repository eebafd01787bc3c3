//! Pages of extent maps.
//!
//! Spec: nra.md, section 10.

use crate::format::nra::content::{FrameRef, Segment};
use crate::format::wire::Malformed;

/// A node of an extent map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtentPage {
    /// Extents and holes in order.
    Leaf(Vec<Segment>),
    /// Level, then children with the content bytes below them.
    Inner(u8, Vec<(FrameRef, u64)>),
}

impl ExtentPage {
    /// Returns the raw payload of the page.
    pub fn encode(&self) -> Vec<u8> {
        todo!()
    }
    /// Parses the raw payload of a page.
    pub(crate) fn parse(_payload: &[u8]) -> Result<Self, Malformed> {
        todo!()
    }
}
