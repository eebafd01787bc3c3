//! Encodes headers of pax archives: a ustar header, preceded by records for values that do not fit
//! it.

use std::ops::Range;

use super::header::{BLOCK, Block};
use nra_core::entry::{Attribute, Entry, Kind, Namespace, Timestamp};
use nra_core::path::EntryPath;

/// The end of an archive: two zero blocks.
pub const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// Largest number with eleven octal digits, the limit of size and time fields.
const MAX_11: u64 = (1 << 33) - 1;
/// Largest number with seven octal digits.
const MAX_7: u64 = (1 << 21) - 1;

/// Metadata that a tar archive cannot store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// Tags, properties and metadata of other containers: their number.
    Attributes(usize),
    /// Device numbers that are too large.
    Device,
}

/// The result of encoding a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Metadata that is lost.
    pub losses: Vec<Loss>,
    /// Bytes of content that follow, before [`padding`].
    pub data_len: u64,
}

/// Appends the header of `entry`, or of a hard link to `link`. `holes` are ordered ranges of zero
/// bytes that are not adjacent. The header records them, and their content must not follow.
pub fn encode(entry: &Entry, link: Option<&EntryPath>, holes: &[Range<u64>], out: &mut Vec<u8>) -> Encoded {
    let mut losses = Vec::new();
    let mut records = Vec::new();
    let mut header: Block = [0; BLOCK];
    let mut name = entry.path.as_bytes().to_vec();
    if entry.kind == Kind::Directory {
        name.push(b'/');
    }
    let size = if link.is_none() { entry.size } else { 0 };
    let (map, data_len) = if holes.is_empty() { (Vec::new(), size) } else { map(size, holes) };
    if !holes.is_empty() {
        // Programs without support for sparse files see a file of another name that contains the
        // map, too.
        for (key, value) in [("major", "1".into()), ("minor", "0".into()), ("realsize", size.to_string())] {
            record(&mut records, format!("GNU.sparse.{key}").as_bytes(), value.as_bytes());
        }
        record(&mut records, b"GNU.sparse.name", &name);
        let own = entry.path.name().len();
        name.splice(name.len() - own..name.len() - own, *b"GNUSparseFile.0/");
    }
    if !text(&mut header[..100], &name) {
        record(&mut records, b"path", &name);
    }
    number(&mut header[100..108], entry.metadata.mode.into(), MAX_7);
    let target: &[u8] = link.map_or(&entry.target, EntryPath::as_bytes);
    if !text(&mut header[157..257], target) {
        record(&mut records, b"linkpath", target);
    }
    let stored = map.len() as u64 + data_len;
    if !number(&mut header[124..136], stored, MAX_11) {
        record(&mut records, b"size", stored.to_string().as_bytes());
    }
    time(&mut header[136..148], entry.modified, &mut records);
    let (user_id, group_id) = entry.metadata.owner.as_ref().map_or((0, 0), |owner| (owner.user_id, owner.group_id));
    for (field, key, id) in [(108..116, &b"uid"[..], user_id), (116..124, b"gid", group_id)] {
        if !number(&mut header[field], id, MAX_7) {
            record(&mut records, key, id.to_string().as_bytes());
        }
    }
    if let Some(owner) = &entry.metadata.owner {
        // These fields end with a NUL byte.
        for (field, key, name) in [(265..296, &b"uname"[..], &owner.user), (297..328, b"gname", &owner.group)] {
            if !text(&mut header[field], name) {
                record(&mut records, key, name);
            }
        }
    }
    header[156] = match entry.kind {
        _ if link.is_some() => b'1',
        Kind::File => b'0',
        Kind::Symlink => b'2',
        Kind::CharacterDevice => b'3',
        Kind::BlockDevice => b'4',
        Kind::Directory => b'5',
        Kind::Fifo => b'6',
    };
    header[257..265].copy_from_slice(b"ustar\x0000");
    let (major, minor) = entry.device.map_or((0, 0), |device| (device.major.into(), device.minor.into()));
    if !number(&mut header[329..337], major, MAX_7) | !number(&mut header[337..345], minor, MAX_7) {
        losses.push(Loss::Device);
    }
    let lost = entry.metadata.attributes.iter().filter(|attribute| !attribute_record(attribute, &mut records)).count();
    if lost > 0 {
        losses.push(Loss::Attributes(lost));
    }
    if !records.is_empty() {
        let mut front: Block = [0; BLOCK];
        // Programs without support for records extract them to a file of this name.
        text(&mut front[..100], &[b"PaxHeaders/", &entry.path.name()[..entry.path.name().len().min(80)]].concat());
        front[136..147].copy_from_slice(&header[136..147]);
        extension(front, b'x', &mut records, out);
    }
    seal(&mut header, out);
    out.extend(map);
    Encoded { losses, data_len }
}

/// Appends the comment of the archive. It precedes all entries.
pub fn encode_comment(comment: &str, out: &mut Vec<u8>) {
    let mut records = Vec::new();
    record(&mut records, b"comment", comment.as_bytes());
    let mut header: Block = [0; BLOCK];
    // The name that other programs give to global records.
    text(&mut header[..100], b"pax_global_header");
    extension(header, b'g', &mut records, out);
}

/// Appends an extension header with its records.
fn extension(mut header: Block, kind: u8, records: &mut Vec<u8>, out: &mut Vec<u8>) {
    header[100..107].copy_from_slice(b"0000644");
    number(&mut header[124..136], records.len() as u64, MAX_11);
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    seal(&mut header, out);
    let pad = padding(records.len() as u64);
    out.append(records);
    out.extend(std::iter::repeat_n(0, pad));
}

/// Returns the map of the segments between holes, as stored before the data, and the length of the
/// data.
fn map(size: u64, holes: &[Range<u64>]) -> (Vec<u8>, u64) {
    let mut segments = Vec::with_capacity(holes.len() + 1);
    let mut at = 0;
    // A file that ends with a hole gets an empty segment at its end.
    for hole in holes.iter().cloned().chain(std::iter::once(size..size)) {
        if hole.start > at || hole.end == size && hole.start == size {
            segments.push((at, hole.start - at));
        }
        at = hole.end;
    }
    let mut map = format!("{}\n", segments.len());
    segments.iter().for_each(|(offset, len)| map.push_str(&format!("{offset}\n{len}\n")));
    let mut map = map.into_bytes();
    map.resize(map.len() + padding(map.len() as u64), 0);
    (map, segments.iter().map(|(_, len)| len).sum())
}

/// Returns the number of zero bytes that follow content of this length.
pub fn padding(len: u64) -> usize {
    let over = usize::try_from(len % BLOCK as u64).expect("less than a block");
    if over == 0 { 0 } else { BLOCK - over }
}

/// Sets the checksum of a header and appends it.
fn seal(header: &mut Block, out: &mut Vec<u8>) {
    header[148..156].fill(b' ');
    let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.extend_from_slice(header);
}

/// Stores a text in a field. Returns whether it fits.
fn text(field: &mut [u8], text: &[u8]) -> bool {
    let fits = text.len() <= field.len() && !text.contains(&0);
    let len = if fits { text.len() } else { text.len().min(field.len()) };
    field[..len].copy_from_slice(&text[..len]);
    fits
}

/// Stores an octal number in a field, or 0 if it exceeds `max`. Returns whether it fits.
fn number(field: &mut [u8], number: u64, max: u64) -> bool {
    let fits = number <= max;
    let digits = field.len() - 1;
    field[..digits].copy_from_slice(format!("{:0digits$o}", if fits { number } else { 0 }).as_bytes());
    fits
}

fn time(field: &mut [u8], modified: Option<Timestamp>, records: &mut Vec<u8>) {
    let Timestamp { seconds, nanoseconds } = modified.unwrap_or(Timestamp { seconds: 0, nanoseconds: 0 });
    let fits = number(field, u64::try_from(seconds).unwrap_or(u64::MAX), MAX_11);
    if fits && nanoseconds == 0 {
        return;
    }
    let text = match (seconds, nanoseconds) {
        (seconds, 0) => seconds.to_string(),
        (0.., nanoseconds) => format!("{seconds}.{nanoseconds:09}"),
        // 0.75 s after −2 s is −1.25 s.
        (seconds, nanoseconds) => format!("-{}.{:09}", (seconds + 1).unsigned_abs(), 1_000_000_000 - nanoseconds),
    };
    record(records, b"mtime", text.as_bytes());
}

/// Appends the record of an attribute. Returns whether tar can store it.
fn attribute_record(attribute: &Attribute, records: &mut Vec<u8>) -> bool {
    let Attribute { namespace, name, value } = attribute;
    match namespace {
        // '=' would end the name.
        Namespace::Xattr if !name.contains(&b'=') => record(records, &[b"SCHILY.xattr.", &**name].concat(), value),
        Namespace::Foreign if name.starts_with(b"SCHILY.acl.") && !name.contains(&b'=') => record(records, name, value),
        _ => return false,
    }
    true
}

/// Appends a record: its length, which includes its own digits, key and value.
fn record(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    // A space, '=' and the newline.
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    records.extend_from_slice(len.to_string().as_bytes());
    records.push(b' ');
    records.extend_from_slice(key);
    records.push(b'=');
    records.extend_from_slice(value);
    records.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_length_includes_its_own_digits() {
        for (value, start) in [(1, &b"6 a="[..]), (4, b"9 a="), (5, b"11 a="), (92, b"98 a="), (93, b"99 a="), (94, b"101 a=")] {
            let mut records = Vec::new();
            record(&mut records, b"a", &vec![b'x'; value]);
            assert!(records.starts_with(start), "{value}: {}", records[..6].escape_ascii());
            let digits: usize = std::str::from_utf8(&start[..start.len() - 3]).unwrap().parse().unwrap();
            assert_eq!(records.len(), digits);
        }
    }
}
