//! Commits and archive attributes.
//!
//! Spec: nra.md, sections 12 and 13.

use crate::content::FrameRef;
use crate::entry_page::Child;
use crate::frame::REFERENCE_LEN;
use crate::layout::{Field, commit as field};
use crate::records::metadata::{encode_attribute_set, parse_attribute_set};
use nra_core::entry::{Attribute, Timestamp};
use nra_core::limits::{MAX_MESSAGE, MAX_OFFSET, MAX_RUNS};
use nra_core::wire::{Cursor, Malformed};

/// Length of the fixed part, bytes.
pub const FIXED_LEN: usize = 208;

const HAS_TIME: u32 = 1 << 0;

/// One complete version of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Commit {
    /// Identity of the archive, equal in all of its commits.
    pub archive_id: [u8; 16],
    /// Number, from 1.
    pub number: u64,
    /// Time of the commit, if it is recorded.
    pub time: Option<Timestamp>,
    pub entries: u64,
    pub files: u64,
    /// Sum of the sizes of all files, bytes.
    pub content_bytes: u64,
    /// Sum of the lengths of all chunks, bytes.
    pub chunk_bytes: u64,
    /// Sum of the stored payloads of all blocks, bytes.
    pub stored_bytes: u64,
    pub blocks: u64,
    pub chunks: u64,
    pub entry_root: Option<FrameRef>,
    /// The preceding commit.
    pub previous: Option<FrameRef>,
    pub attributes: Option<FrameRef>,
    /// Highest link group number in use; 0 = none.
    pub link_groups: u64,
    /// Root pages of the chunk runs, at most 16.
    pub runs: Vec<FrameRef>,
    /// Message, at most 65,535 bytes.
    pub message: String,
}

nra_core::stored_numbers!(Commit (archive_id, time, entry_root, previous, attributes, runs, message) {
    number: field::NUMBER.offset,
    entries: field::ENTRIES.offset,
    files: field::FILES.offset,
    content_bytes: field::CONTENT_BYTES.offset,
    chunk_bytes: field::CHUNK_BYTES.offset,
    stored_bytes: field::STORED_BYTES.offset,
    blocks: field::BLOCKS.offset,
    chunks: field::CHUNKS.offset,
    link_groups: field::LINK_GROUPS.offset,
});

impl Commit {
    /// Returns the payload of the commit frame.
    ///
    /// # Panics
    ///
    /// If there are too many chunk runs or the message is too long. A writer merges runs and
    /// rejects long messages.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let run_count = u32::try_from(self.runs.len()).ok().filter(|&runs| runs <= MAX_RUNS);
        let run_count = run_count.expect("a writer merges runs");
        let message_len = u32::try_from(self.message.len()).ok().filter(|_| self.message.len() <= MAX_MESSAGE);
        let message_len = message_len.expect("a writer rejects longer messages");
        let mut bytes = vec![0; FIXED_LEN];
        self.put_numbers(&mut bytes);
        if let Some(time) = self.time {
            field::SECONDS.put_number(&mut bytes, time.seconds);
            field::NANOSECONDS.put_number(&mut bytes, time.nanoseconds);
            field::FLAGS.put_number(&mut bytes, HAS_TIME);
        }
        field::ARCHIVE_ID.put(&mut bytes, self.archive_id);
        field::ENTRY_ROOT.put(&mut bytes, FrameRef::encode(self.entry_root.as_ref()));
        field::PREVIOUS.put(&mut bytes, FrameRef::encode(self.previous.as_ref()));
        field::ATTRIBUTES.put(&mut bytes, FrameRef::encode(self.attributes.as_ref()));
        field::RUNS.put_number(&mut bytes, run_count);
        field::MESSAGE_LEN.put_number(&mut bytes, message_len);
        self.runs.iter().for_each(|run| bytes.extend_from_slice(&FrameRef::encode(Some(run))));
        bytes.extend_from_slice(self.message.as_bytes());
        bytes
    }

    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(payload);
        let fixed: [u8; FIXED_LEN] = cursor.array()?;
        let reference = |field: Field<REFERENCE_LEN>| FrameRef::parse(&field.get(&fixed));
        if !field::RESERVED.is_zero(&fixed) {
            return Err("reserved bytes are not zero".into());
        }
        let run_count: u32 = field::RUNS.number(&fixed);
        if run_count > MAX_RUNS {
            return Err(format!("{run_count} chunk runs, more than {MAX_RUNS}"));
        }
        let mut runs = Vec::new();
        for _ in 0..run_count {
            runs.push(FrameRef::parse(&cursor.array()?)?.ok_or("an empty reference to a chunk run")?);
        }
        let message_len = usize::try_from(field::MESSAGE_LEN.number::<u32>(&fixed)).unwrap_or(usize::MAX);
        if message_len > MAX_MESSAGE {
            return Err(format!("a message of {message_len} bytes, more than {MAX_MESSAGE}"));
        }
        let message = str::from_utf8(cursor.take(message_len)?).map_err(|_| "a message that is not UTF-8")?;
        cursor.end("the commit")?;
        let mut commit = Self {
            archive_id: field::ARCHIVE_ID.get(&fixed),
            time: time(&fixed)?,
            entry_root: reference(field::ENTRY_ROOT)?,
            previous: reference(field::PREVIOUS)?,
            attributes: reference(field::ATTRIBUTES)?,
            runs,
            message: message.into(),
            ..Self::default()
        };
        commit.get_numbers(&fixed);
        commit.check()?;
        Ok(commit)
    }

    /// Returns the root page of the entry tree as a child.
    pub(crate) fn root(&self) -> Option<Child> {
        let (entries, content_bytes) = (self.entries, self.content_bytes);
        self.entry_root.map(|page| Child { key: Box::default(), page, entries, content_bytes })
    }

    /// Checks the rules that relate fields to each other.
    pub(crate) fn check(&self) -> Result<(), Malformed> {
        let counts =
            [self.entries, self.content_bytes, self.chunk_bytes, self.stored_bytes, self.blocks, self.chunks, self.link_groups];
        if counts.into_iter().any(|count| count > MAX_OFFSET) {
            return Err("a count or sum above 2^63 - 1".into());
        }
        if self.files > self.entries {
            return Err(format!("{} files among {} entries", self.files, self.entries));
        }
        if (self.entries == 0) != self.entry_root.is_none() {
            return Err(format!("{} entries with the root page {:?}", self.entries, self.entry_root));
        }
        if self.number == 0 || (self.number == 1) != self.previous.is_none() {
            return Err(format!("commit {} with the preceding commit {:?}", self.number, self.previous));
        }
        Ok(())
    }

    /// Returns the archive ID derived from the other fields, for reproducible archives (section
    /// 13).
    pub(crate) fn derived_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        let rest = &self.encode()[field::NUMBER.offset..];
        id.copy_from_slice(&blake3::hash(rest).as_bytes()[..16]);
        id
    }
}

fn time(fixed: &[u8; FIXED_LEN]) -> Result<Option<Timestamp>, Malformed> {
    let (seconds, nanoseconds): (i64, u32) = (field::SECONDS.number(fixed), field::NANOSECONDS.number(fixed));
    match field::FLAGS.number::<u32>(fixed) {
        0 if seconds == 0 && nanoseconds == 0 => Ok(None),
        HAS_TIME if nanoseconds < 1_000_000_000 => Ok(Some(Timestamp { seconds, nanoseconds })),
        flags => Err(format!("flags {flags:#x} with {seconds} seconds and {nanoseconds} nanoseconds")),
    }
}

/// Returns the payload of an attributes frame. `attributes` is sorted and not empty.
pub(crate) fn encode_attributes(attributes: &[Attribute]) -> Vec<u8> {
    let mut payload = Vec::new();
    encode_attribute_set(&mut payload, attributes);
    payload
}

pub(crate) fn parse_attributes(payload: &[u8]) -> Result<Vec<Attribute>, Malformed> {
    let mut cursor = Cursor::new(payload);
    let attributes = parse_attribute_set(&mut cursor)?;
    cursor.end("the attributes")?;
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::any_attributes;
    use proptest::prelude::*;

    fn full() -> Commit {
        let reference = |n: u64| FrameRef { offset: n * 256, length: 128, header_checksum: n };
        let mut commit = Commit {
            archive_id: *b"0123456789abcdef",
            number: 2,
            time: Some(Timestamp { seconds: -1, nanoseconds: 999_999_999 }),
            entries: 7,
            files: 6,
            content_bytes: 5,
            chunk_bytes: 4,
            stored_bytes: 3,
            blocks: 2,
            chunks: 1,
            entry_root: Some(reference(1)),
            previous: Some(reference(2)),
            attributes: Some(reference(3)),
            link_groups: 3,
            runs: vec![reference(5), reference(6)],
            message: "first light ☀".into(),
        };
        commit.archive_id = commit.derived_id();
        commit
    }

    #[test]
    fn commits_round_trip() {
        let first = Commit { number: 1, ..Commit::default() };
        for commit in [first, full()] {
            let payload = commit.encode();
            assert_eq!(Commit::parse(&payload), Ok(commit));
            assert!(Commit::parse(&payload[..payload.len() - 1]).is_err());
            assert!(Commit::parse(&[&payload[..], b"x"].concat()).is_err());
        }
        assert_eq!(full().derived_id(), full().archive_id, "does not depend on the id itself");
    }

    #[test]
    fn broken_commits_are_rejected() {
        let with = |change: &dyn Fn(&mut Commit)| {
            let mut commit = full();
            change(&mut commit);
            commit.encode()
        };
        let at = |place: usize, byte| {
            let mut payload = full().encode();
            payload[place] = byte;
            payload
        };
        for (why, payload) in [
            ("number 0", with(&|c| c.number = 0)),
            ("first with a commit before", with(&|c| c.number = 1)),
            ("second without", with(&|c| c.previous = None)),
            ("no root", with(&|c| c.entry_root = None)),
            ("no entries", with(&|c| (c.entries, c.files) = (0, 0))),
            ("more files than entries", with(&|c| c.files = 8)),
            ("count", with(&|c| c.chunks = 1 << 63)),
            ("nanoseconds", with(&|c| c.time = Some(Timestamp { seconds: 0, nanoseconds: 1_000_000_000 }))),
            ("time without flag", at(field::FLAGS.offset, 0)),
            ("unknown flag", at(field::FLAGS.offset, 3)),
            ("link groups", with(&|c| c.link_groups = 1 << 63)),
            ("runs", at(field::RUNS.offset, 17)),
            ("a run that is none", with(&|c| c.runs[0] = FrameRef { offset: 0, length: 0, header_checksum: 0 })),
            ("message", at(full().encode().len() - 1, 0xff)),
            ("message length", at(field::MESSAGE_LEN.offset + 2, 1)),
            ("reserved bytes", at(field::RESERVED.offset, 1)),
        ] {
            assert!(Commit::parse(&payload).is_err(), "{why}");
        }
    }

    proptest! {
        #[test]
        fn attributes_round_trip(attributes in any_attributes()) {
            let payload = encode_attributes(&attributes);
            let parsed = parse_attributes(&payload);
            prop_assert_eq!(parsed.is_ok(), !attributes.is_empty());
            prop_assert_eq!(parsed.unwrap_or_default(), attributes);
            prop_assert!(parse_attributes(&[&payload[..], b"x"].concat()).is_err());
        }

        #[test]
        fn changed_bytes_do_not_panic(at in any::<prop::sample::Index>(), to: u8) {
            let mut payload = full().encode();
            let at = at.index(payload.len());
            payload[at] = to;
            if let Ok(commit) = Commit::parse(&payload) {
                prop_assert_eq!(commit.encode(), payload);
            }
        }
    }

    #[test]
    fn unsorted_attributes_are_rejected() {
        let attribute =
            |name: &[u8]| Attribute { namespace: nra_core::entry::Namespace::User, name: name.into(), value: Box::default() };
        for bad in [[attribute(b"b"), attribute(b"a")], [attribute(b"a"), attribute(b"a")]] {
            assert!(parse_attributes(&encode_attributes(&bad)).is_err());
        }
        assert!(parse_attributes(&[1, 4, 0, 0]).is_err(), "unknown namespace");
    }
}
