//! HDF5: groups and datasets, with their types and shapes.
//!
//! Object headers of both kinds are read, groups with a table of symbols and those with compact links. Groups whose links lie in dense storage
//! (more than a few, in files of the newer kind) are named, not entered.

use std::collections::{HashSet, VecDeque};

use crate::describe::{Description, MAX_TEXT, bytes, known, product, shape};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// First bytes of a file.
pub const MAGIC: &[u8] = b"\x89HDF\r\n\x1a\n";
/// Objects that are looked at.
const MAX_OBJECTS: usize = 2_000;
/// Blocks of messages of an object, and nodes of a group.
const MAX_BLOCKS: usize = 256;
/// Bytes of a block of messages, and of the names of a group.
const MAX_BLOCK: u64 = 1 << 20;
/// Bytes of all those that are read.
const MAX_READ: u64 = 16 << 20;
/// Dimensions of a dataset.
const MAX_RANK: usize = 32;

const DATASPACE: u64 = 0x01;
const LINKS: u64 = 0x02;
const DATATYPE: u64 = 0x03;
const LINK: u64 = 0x06;
const CONTINUATION: u64 = 0x10;
const SYMBOLS: u64 = 0x11;

/// What the messages of an object say.
#[derive(Default)]
struct Object {
    shape: Option<Vec<u64>>,
    kind: String,
    size: u64,
    /// Names and addresses of objects in it.
    members: Vec<(String, u64)>,
    is_group: bool,
    is_dense: bool,
}

/// The file, and how much more of it is read.
struct File<'a> {
    source: &'a dyn ReadAt,
    left: u64,
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes.get(at..at.saturating_add(len)).map_or(0, bytes::little)
}

/// Reads a file.
pub fn describe(source: &dyn ReadAt) -> Result<Description> {
    let mut table = Description::new("HDF5", &["name", "type", "shape", "bytes"]);
    let head = bytes::some(source, 0, 128)?;
    let version = number(&head, 8, 1);
    table.fact("version of the superblock", version.to_string());
    let (widths, root) = match version {
        0 | 1 => {
            // Behind four addresses the entry of the root group: its name, then its address.
            let at = if version == 0 { 24 } else { 28 } + 4 * 8 + 8;
            ((number(&head, 13, 1), number(&head, 14, 1)), number(&head, at, 8))
        }
        2 | 3 => ((number(&head, 9, 1), number(&head, 10, 1)), number(&head, 36, 8)),
        _ => return Err(Error::Unsupported { what: "version of HDF5", found: version.to_string(), known: "0 to 3".to_owned() }),
    };
    if widths != (8, 8) {
        table.fact("addresses", format!("{} bytes wide: not gone through", widths.0));
        return Ok(table);
    }
    let mut file = File { source, left: MAX_READ };
    let (mut groups, mut datasets) = (0u64, 0u64);
    let (mut queue, mut seen) = (VecDeque::from([(String::new(), root)]), HashSet::from([root]));
    for _ in 0..MAX_OBJECTS {
        let Some((path, address)) = queue.pop_front() else { break };
        let object = match file.object(address) {
            Ok(object) => object,
            Err(error) if path.is_empty() => return Err(error),
            Err(_) => {
                table.row(&[&path, "damaged", "", ""]);
                continue;
            }
        };
        if let Some(sizes) = &object.shape {
            datasets += 1;
            let total = product(sizes).and_then(|count| count.checked_mul(object.size));
            table.row(&[&path, &object.kind, &shape(sizes), &known(total)]);
        } else if object.is_group {
            groups += 1;
            if object.is_dense {
                table.row(&[&format!("{path}/"), "many entries, not listed", "", ""]);
            } else if object.members.is_empty() && !path.is_empty() {
                table.row(&[&format!("{path}/"), "empty group", "", ""]);
            }
        }
        for (name, address) in object.members {
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            // A link back to a group is no reason to go round.
            if path.len() <= 4 * MAX_TEXT && seen.len() < MAX_OBJECTS && seen.insert(address) {
                queue.push_back((path, address));
            }
        }
    }
    table.rows.sort();
    table.fact("groups", groups.to_string());
    table.fact("datasets", datasets.to_string());
    Ok(table)
}

impl File<'_> {
    fn read(&mut self, structure: &'static str, at: u64, len: u64) -> Result<Vec<u8>> {
        self.left = self.left.checked_sub(len).ok_or(Error::Limit { what: structure, found: len, limit: self.left })?;
        bytes::exactly(self.source, structure, at, len, MAX_BLOCK)
    }

    /// Reads the messages of an object.
    fn object(&mut self, address: u64) -> Result<Object> {
        let mut object = Object::default();
        let head = bytes::some(self.source, address, 64)?;
        // Where messages lie; and for the newer kind whether each has a number.
        let mut blocks = VecDeque::new();
        let numbered = if head.starts_with(b"OHDR") {
            let flags = number(&head, 5, 1);
            let at = 6 + if flags & 0x20 != 0 { 16 } else { 0 } + if flags & 0x10 != 0 { 4 } else { 0 };
            let width = 1usize << (flags & 3);
            blocks.push_back((address.saturating_add((at + width) as u64), number(&head, at, width)));
            Some(flags & 4 != 0)
        } else if head.first() == Some(&1) {
            blocks.push_back((address.saturating_add(16), number(&head, 8, 4)));
            None
        } else {
            return Err(Error::corrupt("HDF5 object", address, "it begins like none"));
        };
        for _ in 0..MAX_BLOCKS {
            let Some((at, len)) = blocks.pop_front() else { break };
            let block = self.read("HDF5 object", at, len)?;
            let mut rest = match numbered {
                // Behind a signature, and in front of a checksum.
                Some(_) if block.starts_with(b"OCHK") => block.get(4..block.len().saturating_sub(4)).unwrap_or_default(),
                _ => block.as_slice(),
            };
            loop {
                let (kind, len, front) = match numbered {
                    Some(numbered) => (number(rest, 0, 1), number(rest, 1, 2), if numbered { 6 } else { 4 }),
                    None => (number(rest, 0, 2), number(rest, 2, 2), 8),
                };
                let end = front + usize::try_from(len).expect("two bytes");
                let Some(body) = rest.get(front..end) else { break };
                match kind {
                    CONTINUATION => blocks.push_back((number(body, 0, 8), number(body, 8, 8))),
                    SYMBOLS => self.symbols(number(body, 0, 8), number(body, 8, 8), &mut object)?,
                    kind => object.take(kind, body),
                }
                rest = &rest[end..];
            }
        }
        Ok(object)
    }

    /// Reads the table of symbols of a group: a tree of nodes, and a heap of names.
    fn symbols(&mut self, tree: u64, heap: u64, object: &mut Object) -> Result<()> {
        object.is_group = true;
        let head = self.read("HDF5 heap", heap, 32)?;
        if !head.starts_with(b"HEAP") {
            return Err(Error::corrupt("HDF5 heap", heap, "it begins like none"));
        }
        let names = self.read("HDF5 heap", number(&head, 24, 8), number(&head, 8, 8))?;
        let mut nodes = VecDeque::from([tree]);
        for _ in 0..MAX_BLOCKS {
            let Some(at) = nodes.pop_front() else { break };
            let head = self.read("HDF5 tree", at, 8)?;
            match head.get(..4) {
                Some(b"TREE") => {
                    let used = number(&head, 6, 2);
                    let body = self.read("HDF5 tree", at.saturating_add(24), used * 16 + 8)?;
                    // Each address stands between two keys.
                    nodes.extend(body.chunks_exact(16).map(|pair| number(pair, 8, 8)));
                }
                Some(b"SNOD") => {
                    let body = self.read("HDF5 symbols", at.saturating_add(8), number(&head, 6, 2) * 40)?;
                    for symbol in body.chunks_exact(40) {
                        let from = usize::try_from(number(symbol, 0, 8)).unwrap_or(usize::MAX);
                        let name = names.get(from..).unwrap_or_default();
                        object.member(name.split(|byte| *byte == 0).next().unwrap_or_default(), number(symbol, 8, 8));
                    }
                }
                _ => return Err(Error::corrupt("HDF5 tree", at, "it begins like none")),
            }
        }
        Ok(())
    }
}

impl Object {
    fn member(&mut self, name: &[u8], address: u64) {
        if self.members.len() < MAX_OBJECTS {
            self.members.push((String::from_utf8_lossy(&name[..name.len().min(MAX_TEXT)]).into_owned(), address));
        }
    }

    fn take(&mut self, kind: u64, body: &[u8]) {
        match kind {
            DATASPACE => {
                let rank = usize::try_from(number(body, 1, 1)).expect("a byte").min(MAX_RANK);
                let at = if number(body, 0, 1) == 1 { 8 } else { 4 };
                self.shape = Some((0..rank).map(|dimension| number(body, at + dimension * 8, 8)).collect());
            }
            DATATYPE => {
                self.size = number(body, 4, 4);
                let bits = self.size.saturating_mul(8);
                self.kind = match number(body, 0, 1) & 0xf {
                    0 => format!("{}int{bits}", if number(body, 1, 1) & 8 == 0 { "u" } else { "" }),
                    1 => format!("float{bits}"),
                    2 => "time".to_owned(),
                    3 => format!("text of {} bytes", self.size),
                    4 => format!("bits, {bits}"),
                    5 => "opaque".to_owned(),
                    6 => format!("record of {} fields", number(body, 1, 2)),
                    7 => "reference".to_owned(),
                    8 => "enumeration".to_owned(),
                    9 if number(body, 1, 1) & 0xf == 1 => "text".to_owned(),
                    9 => "lists".to_owned(),
                    10 => "arrays".to_owned(),
                    class => format!("class {class}"),
                };
            }
            LINKS => {
                self.is_group = true;
                // Links are dense when there is a heap for them.
                let at = if number(body, 1, 1) & 1 != 0 { 10 } else { 2 };
                self.is_dense = body.len() >= at + 8 && number(body, at, 8) != u64::MAX;
            }
            LINK => {
                self.is_group = true;
                let flags = number(body, 1, 1);
                let mut at = 2;
                let hard = flags & 8 == 0 || number(body, at, 1) == 0;
                for (bit, len) in [(8, 1), (4, 8), (0x10, 1)] {
                    at += if flags & bit != 0 { len } else { 0 };
                }
                let width = 1usize << (flags & 3);
                let from = at + width;
                let to = from.saturating_add(usize::try_from(number(body, at, width)).unwrap_or(usize::MAX));
                if let Some(name) = body.get(from..to).filter(|_| hard) {
                    self.member(name, number(body, to, 8));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::source::MemorySource;

    /// Written by h5py 3.16 with the oldest format, and with the newest: a group of two datasets, an empty group, a record, a text.
    const FILES: [&[u8]; 2] = [include_bytes!("old.h5"), include_bytes!("new.h5")];

    #[test]
    fn datasets_of_both_kinds_of_file() {
        for (file, version) in FILES.into_iter().zip(["0", "3"]) {
            let table = describe(&MemorySource::new(file.to_vec())).unwrap();
            let facts: Vec<&str> = table.facts.iter().map(|(_, value)| value.as_str()).collect();
            assert_eq!(facts, [version, "3", "4"], "{table:?}");
            let rows: Vec<[&str; 4]> = table.rows.iter().map(|row| std::array::from_fn(|at| row[at].as_str())).collect();
            assert_eq!(
                rows,
                [
                    ["empty/", "empty group", "", ""],
                    ["model/bias", "int16", "5", "10"],
                    ["model/weights", "float32", "3 × 4", "48"],
                    ["note", "text", "1", "16"],
                    ["points", "record of 2 fields", "2", "24"],
                ]
            );
        }
    }

    #[test]
    fn damaged_files_do_no_harm() {
        for file in FILES {
            for at in 8..file.len() {
                for value in [0, 1, 0xff] {
                    let mut file = file.to_vec();
                    file[at] = value;
                    let _ = describe(&MemorySource::new(file));
                }
            }
            for cut in (8..file.len()).step_by(5) {
                let _ = describe(&MemorySource::new(file[..cut].to_vec()));
            }
        }
    }
}
