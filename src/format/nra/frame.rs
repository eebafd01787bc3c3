//! Frames, the self-delimiting units of a file, and references to them.
//!
//! Spec: nra.md, sections 2 and 6.

use crate::content::FrameRef;
use crate::layout::SUPERBLOCK_LEN;
use crate::layout::{frame as field, reference};
use nra_core::checksum::checksum;
use nra_core::codec::Codec;
use nra_core::crypt::sealed_len;
use nra_core::error::{Error, Result};
use nra_core::limits::{
    self, MAX_BLOCK_INDEX, MAX_BLOCK_RAW, MAX_COMMIT, MAX_DICTIONARY, MAX_KEYS, MAX_OFFSET, MAX_PAD, MAX_PAGE_RAW, MAX_RECOVERY,
};
use nra_core::wire::{Cursor, Malformed, put_uv};

/// Length of a frame header.
pub const HEADER_LEN: usize = 64;
/// Length of a reference in its fixed form.
pub const REFERENCE_LEN: usize = 24;
/// Shortest block index: no chunks, no records.
const MIN_BLOCK_INDEX_LEN: u32 = 3;
/// Sync bytes at the start of a frame.
pub const SYNC: [u8; 4] = [0x8a, 0x4e, 0x0d, 0x0a];
/// Length of the start of a sealed frame: sync bytes, salt and sealed header (section 18).
pub const SEALED_HEADER_LEN: usize = 112;
/// Sync bytes at the start of a sealed frame.
pub const SEALED_SYNC: [u8; 8] = [0x8a, 0x53, 0x0d, 0x0a, 0, 0, 0, 0];
/// Offsets and frame lengths are multiples of this.
pub const ALIGNMENT: u64 = 8;

const STRUCTURE: &str = "frame header";

/// Kinds of frames. The numbers are those of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum FrameKind {
    #[default]
    Block = 1,
    Dictionary = 2,
    EntryPage = 3,
    ExtentPage = 4,
    ChunkPage = 5,
    Attributes = 6,
    Commit = 7,
    Keys = 8,
    Recovery = 9,
}

impl FrameKind {
    /// All kinds by number, with the names that the specification uses.
    pub const ALL: [(Self, &str); 9] = [
        (Self::Block, "block"),
        (Self::Dictionary, "dictionary"),
        (Self::EntryPage, "entry page"),
        (Self::ExtentPage, "extent page"),
        (Self::ChunkPage, "chunk page"),
        (Self::Attributes, "attributes"),
        (Self::Commit, "commit"),
        (Self::Keys, "keys"),
        (Self::Recovery, "recovery"),
    ];

    /// Returns the kind with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().map(|(kind, _)| kind).find(|&kind| kind as u8 == number)
    }

    /// Returns the name that the specification uses.
    pub fn name(self) -> &'static str {
        let named = Self::ALL.into_iter().find(|&(kind, _)| kind == self);
        named.expect("the table has all kinds").1
    }

    /// Returns the error for a damaged frame of this kind at file offset `offset`.
    pub(crate) fn corrupt(self, offset: u64, detail: impl Into<String>) -> Error {
        Error::corrupt(self.name(), offset, detail)
    }

    /// Returns the limit of the payload after decompression, bytes.
    pub fn max_raw_len(self) -> u32 {
        match self {
            Self::Block => MAX_BLOCK_RAW,
            Self::Dictionary => MAX_DICTIONARY,
            Self::EntryPage | Self::ExtentPage | Self::ChunkPage | Self::Attributes => MAX_PAGE_RAW,
            Self::Commit => MAX_COMMIT,
            Self::Keys => MAX_KEYS,
            Self::Recovery => MAX_RECOVERY,
        }
    }

    /// Returns whether such a frame is sealed in an encrypted archive. Key frames must be readable
    /// without a key. Recovery frames protect sealed bytes and are used without a key.
    pub fn is_sealed(self) -> bool {
        !matches!(self, Self::Keys | Self::Recovery)
    }

    fn allows(self, codec: Codec) -> bool {
        match codec {
            Codec::None => true,
            Codec::Zstd => !matches!(self, Self::Dictionary | Self::Commit | Self::Keys | Self::Recovery),
            Codec::Lz4 => self == Self::Block,
        }
    }
}

/// Header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameHeader {
    /// What the frame holds.
    pub kind: FrameKind,
    /// How the payload is compressed.
    pub codec: Codec,
    /// Length of the payload after decompression.
    pub raw_len: u32,
    /// Length of the payload as stored.
    pub stored_len: u32,
    /// Zero bytes between header and payload.
    pub pad_len: u32,
    /// Length of the block index.
    pub block_index_len: u32,
    /// Offset of the dictionary frame, 0 = none.
    pub dictionary: u64,
    /// Checksum of the stored payload.
    pub payload_checksum: u64,
    /// Checksum of the block index, 0 if there is none.
    pub block_index_checksum: u64,
    /// Number of the commit for which the frame was written.
    pub commit: u64,
    /// Whether the frame is sealed. The sync bytes show this, not the header.
    pub sealed: bool,
}

nra_core::stored_numbers!(FrameHeader (kind, codec, sealed) {
    raw_len: field::RAW_LEN.offset,
    stored_len: field::STORED_LEN.offset,
    pad_len: field::PAD_LEN.offset,
    block_index_len: field::BLOCK_INDEX_LEN.offset,
    dictionary: field::DICTIONARY.offset,
    payload_checksum: field::PAYLOAD_CHECKSUM.offset,
    block_index_checksum: field::BLOCK_INDEX_CHECKSUM.offset,
    commit: field::COMMIT.offset,
});

impl FrameHeader {
    /// Returns the frame length.
    pub fn frame_len(&self) -> u64 {
        (self.block_index_start() + self.block_index_span()).next_multiple_of(ALIGNMENT)
    }

    /// Returns the length of the frame start, bytes.
    pub fn start_len(&self) -> usize {
        start_len(self.sealed)
    }

    /// Returns where the stored payload starts, bytes from the start of the frame.
    pub fn payload_start(&self) -> u64 {
        self.start_len() as u64 + u64::from(self.pad_len)
    }

    /// Returns the length of the payload in the file, including the tags of a sealed frame.
    pub fn payload_span(&self) -> u64 {
        span(self.sealed, self.stored_len)
    }

    /// Returns where the block index starts, bytes from the start of the frame.
    pub fn block_index_start(&self) -> u64 {
        self.payload_start() + self.payload_span()
    }

    /// Returns the length of the block index in the file, including the tags of a sealed frame.
    pub fn block_index_span(&self) -> u64 {
        span(self.sealed, self.block_index_len)
    }

    /// Returns the bytes of the header at file offset `offset`, and the header checksum.
    pub fn encode(&self, offset: u64) -> ([u8; HEADER_LEN], u64) {
        let bytes = self.encode_with(0);
        let header_checksum = header_checksum(&bytes, offset);
        (self.encode_with(header_checksum), header_checksum)
    }

    pub(crate) fn encode_with(&self, header_checksum: u64) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        field::SYNC.put(&mut bytes, SYNC);
        field::KIND.put_number(&mut bytes, self.kind as u8);
        field::CODEC.put_number(&mut bytes, self.codec as u8);
        self.put_numbers(&mut bytes);
        field::HEADER_CHECKSUM.put_number(&mut bytes, header_checksum);
        bytes
    }

    /// Parses the header of the frame at file offset `offset` and returns the header checksum, too.
    /// Checks the checksum, reserved bytes, limits of the kind, and the rules of section 6.
    ///
    /// # Errors
    ///
    /// `Corrupt` or `Limit`.
    pub fn parse(bytes: &[u8; HEADER_LEN], offset: u64) -> Result<(Self, u64)> {
        let header_checksum = authenticate(bytes, offset).map_err(|detail| Error::corrupt(STRUCTURE, offset, detail))?;
        Ok((Self::parse_fields(bytes, offset, false)?, header_checksum))
    }

    /// Parses the decrypted header of a sealed frame. `header_checksum` is the frame MAC that its
    /// key yields.
    pub(crate) fn parse_decrypted(bytes: &[u8; HEADER_LEN], offset: u64, header_checksum: u64) -> Result<Self> {
        let corrupt = |detail: &str| Err(Error::corrupt(STRUCTURE, offset, detail));
        if field::SYNC.get(bytes) != SYNC || field::HEADER_CHECKSUM.number::<u64>(bytes) != header_checksum {
            return corrupt("the sealed header has wrong sync bytes or another header checksum");
        }
        let header = Self::parse_fields(bytes, offset, true)?;
        if header.kind.is_sealed() { Ok(header) } else { corrupt("a frame of this kind is never sealed") }
    }

    fn parse_fields(bytes: &[u8; HEADER_LEN], offset: u64, sealed: bool) -> Result<Self> {
        let corrupt = |detail: String| Error::corrupt(STRUCTURE, offset, detail);
        let [kind] = field::KIND.get(bytes);
        let [codec] = field::CODEC.get(bytes);
        let kind = FrameKind::from_number(kind).ok_or_else(|| corrupt(format!("unknown kind {kind}")))?;
        let codec = Codec::from_number(codec).ok_or_else(|| corrupt(format!("unknown codec {codec}")))?;
        let mut header = Self { kind, codec, sealed, ..Self::default() };
        header.get_numbers(bytes);
        if !field::RESERVED.is_zero(bytes) {
            return Err(corrupt("reserved bytes are not zero".into()));
        }
        header.check_limits()?;
        header.check_rules(offset).map_err(corrupt)?;
        Ok(header)
    }

    /// Returns the kind number and frame length of the frame at file offset `offset` if `bytes` is
    /// a header with a valid checksum. The kind may be unknown: a scan needs only the length to
    /// continue.
    pub fn peek(bytes: &[u8; HEADER_LEN], offset: u64) -> Option<(u8, u64)> {
        authenticate(bytes, offset).ok()?;
        Some(Self::peek_fields(bytes, false))
    }

    /// As [`Self::peek`], for a decrypted header.
    pub(crate) fn peek_decrypted(bytes: &[u8; HEADER_LEN]) -> (u8, u64) {
        Self::peek_fields(bytes, true)
    }

    fn peek_fields(bytes: &[u8; HEADER_LEN], sealed: bool) -> (u8, u64) {
        let parts = span(sealed, field::STORED_LEN.number(bytes)) + span(sealed, field::BLOCK_INDEX_LEN.number(bytes));
        let len = start_len(sealed) as u64 + u64::from(field::PAD_LEN.number::<u32>(bytes)) + parts;
        (field::KIND.get(bytes)[0], len.next_multiple_of(ALIGNMENT))
    }

    /// Rejects a header that a reader would reject, so that it is never written.
    pub(crate) fn check(&self, offset: u64) -> Result<()> {
        self.check_limits()?;
        self.check_rules(offset).map_err(Error::usage)
    }

    fn check_limits(&self) -> Result<()> {
        limits::check("raw length of a frame", self.raw_len.into(), self.kind.max_raw_len().into())?;
        limits::check("block index length of a frame", self.block_index_len.into(), MAX_BLOCK_INDEX.into())?;
        limits::check("padding of a frame", self.pad_len.into(), MAX_PAD.into())
    }

    fn check_rules(&self, offset: u64) -> Result<(), Malformed> {
        let kind = self.kind.name();
        if !self.kind.allows(self.codec) {
            return Err(format!("{kind} with codec {}", self.codec.name()));
        }
        let fits = if self.codec == Codec::None { self.stored_len == self.raw_len } else { self.stored_len < self.raw_len };
        if !fits {
            return Err(format!(
                "stored length {}, raw length {} with codec {}",
                self.stored_len,
                self.raw_len,
                self.codec.name()
            ));
        }
        if self.kind != FrameKind::Block && (self.pad_len != 0 || self.block_index_len != 0) {
            return Err(format!("{kind} with padding or block index"));
        }
        if self.kind == FrameKind::Block && self.block_index_len < MIN_BLOCK_INDEX_LEN {
            return Err(format!("block with a block index of {} bytes", self.block_index_len));
        }
        if self.block_index_len == 0 && self.block_index_checksum != 0 {
            return Err("checksum of a missing block index".into());
        }
        if self.dictionary != 0 {
            if self.kind != FrameKind::Block || self.codec != Codec::Zstd {
                return Err(format!("{kind} of codec {} with a dictionary", self.codec.name()));
            }
            if !is_frame_offset(self.dictionary) || self.dictionary >= offset {
                return Err(format!("dictionary at offset {}", self.dictionary));
            }
        }
        if self.commit == 0 {
            return Err("the commit number is 0".into());
        }
        if offset.checked_add(self.frame_len()).is_none_or(|end| end > MAX_OFFSET) {
            return Err("the frame ends past 2^63".into());
        }
        Ok(())
    }
}

/// Returns the header checksum if `bytes` start with the sync bytes and have a valid checksum.
fn authenticate(bytes: &[u8; HEADER_LEN], offset: u64) -> Result<u64, Malformed> {
    if field::SYNC.get(bytes) != SYNC {
        return Err("no frame starts here".into());
    }
    let found: u64 = field::HEADER_CHECKSUM.number(bytes);
    let expected = header_checksum(bytes, offset);
    if found != expected {
        return Err(format!("header checksum is {found:016x}, expected {expected:016x}"));
    }
    Ok(found)
}

fn header_checksum(bytes: &[u8; HEADER_LEN], offset: u64) -> u64 {
    checksum(&bytes[..field::HEADER_CHECKSUM.offset], offset)
}

/// Returns the length of the start of a frame, bytes.
pub(crate) fn start_len(sealed: bool) -> usize {
    if sealed { SEALED_HEADER_LEN } else { HEADER_LEN }
}

/// Returns the length in the file of a payload or block index of `len` bytes.
pub(crate) fn span(sealed: bool, len: u32) -> u64 {
    if sealed { sealed_len(len) } else { len.into() }
}

/// Returns whether a frame can start at this offset.
pub(crate) fn is_frame_offset(offset: u64) -> bool {
    offset >= SUPERBLOCK_LEN as u64 && offset.is_multiple_of(ALIGNMENT) && offset <= MAX_OFFSET
}

impl FrameRef {
    /// Returns the fixed form of a reference. `None` becomes all zeros.
    pub fn encode(reference: Option<&Self>) -> [u8; REFERENCE_LEN] {
        let mut bytes = [0; REFERENCE_LEN];
        if let Some(frame) = reference {
            reference::OFFSET.put_number(&mut bytes, frame.offset);
            reference::LENGTH.put_number(&mut bytes, frame.length);
            reference::HEADER_CHECKSUM.put_number(&mut bytes, frame.header_checksum);
        }
        bytes
    }

    /// Parses the fixed form of a reference.
    pub(crate) fn parse(bytes: &[u8; REFERENCE_LEN]) -> Result<Option<Self>, Malformed> {
        if *bytes == [0; REFERENCE_LEN] {
            return Ok(None);
        }
        let frame = Self {
            offset: reference::OFFSET.number(bytes),
            length: reference::LENGTH.number(bytes),
            header_checksum: reference::HEADER_CHECKSUM.number(bytes),
        };
        frame.validate()?;
        Ok(Some(frame))
    }

    /// Appends the compact form of a reference.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_uv(out, self.offset);
        put_uv(out, self.length);
        out.extend_from_slice(&self.header_checksum.to_le_bytes());
    }

    /// Reads the compact form of a reference.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self, Malformed> {
        let frame = Self { offset: cursor.uv()?, length: cursor.uv()?, header_checksum: cursor.u64()? };
        frame.validate()?;
        Ok(frame)
    }

    /// Checks that a frame of this length is possible at this offset.
    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        if !is_frame_offset(self.offset)
            || self.length < HEADER_LEN as u64
            || !self.length.is_multiple_of(ALIGNMENT)
            || self.offset.checked_add(self.length).is_none_or(|end| end > MAX_OFFSET)
        {
            return Err(format!("reference to a frame of {} bytes at offset {}", self.length, self.offset));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: FrameHeader = FrameHeader {
        kind: FrameKind::Block,
        codec: Codec::Zstd,
        raw_len: 1000,
        stored_len: 500,
        pad_len: 0,
        block_index_len: 7,
        dictionary: 256,
        payload_checksum: 1,
        block_index_checksum: 2,
        commit: 3,
        sealed: false,
    };

    #[test]
    fn headers_round_trip() {
        let page =
            FrameHeader { kind: FrameKind::EntryPage, block_index_len: 0, block_index_checksum: 0, dictionary: 0, ..BLOCK };
        let raw = FrameHeader { codec: Codec::None, stored_len: 1000, pad_len: 4032, dictionary: 0, ..BLOCK };
        let commit = FrameHeader { kind: FrameKind::Commit, codec: Codec::None, stored_len: 1000, ..page };
        let empty = FrameHeader { codec: Codec::None, raw_len: 0, stored_len: 0, dictionary: 0, ..BLOCK };
        for header in [BLOCK, page, raw, commit, empty] {
            let (bytes, header_checksum) = header.encode(4096);
            assert_eq!(FrameHeader::parse(&bytes, 4096).unwrap(), (header, header_checksum));
            assert_eq!(FrameHeader::peek(&bytes, 4096), Some((header.kind as u8, header.frame_len())));
            assert!(FrameHeader::parse(&bytes, 4104).is_err(), "in another place");
        }
        assert_eq!(BLOCK.frame_len(), 64 + 500 + 7 + 5);
    }

    #[test]
    fn headers_that_break_rules_are_rejected() {
        let page =
            FrameHeader { kind: FrameKind::EntryPage, block_index_len: 0, block_index_checksum: 0, dictionary: 0, ..BLOCK };
        for (why, header) in [
            ("stored more than raw", FrameHeader { stored_len: 1001, ..BLOCK }),
            ("codec none, other length", FrameHeader { codec: Codec::None, dictionary: 0, ..BLOCK }),
            ("lz4 with dictionary", FrameHeader { codec: Codec::Lz4, ..BLOCK }),
            ("empty and compressed", FrameHeader { raw_len: 0, stored_len: 0, ..BLOCK }),
            ("dictionary after the block", FrameHeader { dictionary: 4096, ..BLOCK }),
            ("dictionary in the superblock", FrameHeader { dictionary: 8, ..BLOCK }),
            ("dictionary not aligned", FrameHeader { dictionary: 257, ..BLOCK }),
            ("padding", FrameHeader { pad_len: 4096, ..BLOCK }),
            ("too long", FrameHeader { raw_len: MAX_BLOCK_RAW + 1, ..BLOCK }),
            ("block index too long", FrameHeader { block_index_len: MAX_BLOCK_INDEX + 1, ..BLOCK }),
            ("checksum without directory", FrameHeader { block_index_len: 0, ..BLOCK }),
            ("commit 0", FrameHeader { commit: 0, ..BLOCK }),
            ("page with directory", FrameHeader { block_index_len: 1, ..page }),
            ("page with padding", FrameHeader { pad_len: 8, ..page }),
            ("page with dictionary", FrameHeader { dictionary: 256, ..page }),
            ("page with lz4", FrameHeader { codec: Codec::Lz4, ..page }),
            ("page too long", FrameHeader { raw_len: MAX_PAGE_RAW + 1, ..page }),
            ("compressed commit", FrameHeader { kind: FrameKind::Commit, ..page }),
            ("compressed dictionary", FrameHeader { kind: FrameKind::Dictionary, ..page }),
        ] {
            let (bytes, _) = header.encode(4096);
            assert!(FrameHeader::parse(&bytes, 4096).is_err(), "{why}");
        }
        let (bytes, _) = BLOCK.encode(MAX_OFFSET - 7);
        assert!(FrameHeader::parse(&bytes, MAX_OFFSET - 7).is_err());
    }

    #[test]
    fn unknown_kinds_are_rejected_but_can_be_skipped() {
        for (field, number) in [(field::KIND.offset, 10), (field::CODEC.offset, 3), (field::RESERVED.offset, 1)] {
            let (mut bytes, _) = BLOCK.encode(4096);
            bytes[field] = number;
            assert_eq!(FrameHeader::peek(&bytes, 4096), None);
            let header_checksum = header_checksum(&bytes, 4096);
            field::HEADER_CHECKSUM.put(&mut bytes, header_checksum.to_le_bytes());
            assert!(FrameHeader::parse(&bytes, 4096).is_err());
            assert_eq!(FrameHeader::peek(&bytes, 4096).map(|(_, len)| len), Some(BLOCK.frame_len()));
        }
    }

    #[test]
    fn references_round_trip_or_are_rejected() {
        let good = FrameRef { offset: 256, length: 64, header_checksum: u64::MAX };
        assert_eq!(FrameRef::parse(&FrameRef::encode(Some(&good))), Ok(Some(good)));
        assert_eq!(FrameRef::parse(&FrameRef::encode(None)), Ok(None));
        for bad in [
            FrameRef { offset: 0, ..good },
            FrameRef { offset: 260, ..good },
            FrameRef { length: 56, ..good },
            FrameRef { length: 70, ..good },
            FrameRef { length: MAX_OFFSET & !7, ..good },
            FrameRef { offset: 1 << 63, ..good },
        ] {
            assert!(FrameRef::parse(&FrameRef::encode(Some(&bad))).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_headers_do_not_panic(mut bytes in prop::array::uniform32(any::<u8>()).prop_map(|half| {
            let mut bytes = [0; HEADER_LEN];
            bytes[..32].copy_from_slice(&half);
            bytes
        }), offset in 32u64..1000) {
            field::SYNC.put(&mut bytes, SYNC);
            let header_checksum = header_checksum(&bytes, offset * 8);
            field::HEADER_CHECKSUM.put(&mut bytes, header_checksum.to_le_bytes());
            if let Ok((header, header_checksum)) = FrameHeader::parse(&bytes, offset * 8) {
                prop_assert_eq!(header.encode(offset * 8), (bytes, header_checksum));
            }
        }
    }
}
