//! The footer, which locates the commit frame before it.
//!
//! Spec: nra.md, section 14.

use crate::frame::{HEADER_LEN, is_frame_offset};
use crate::layout::footer;
use crate::superblock::{VERSION, check_keys, check_sum, check_version};
use nra_core::checksum::checksum;
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_OFFSET;

/// Length of a footer, bytes.
pub const FOOTER_LEN: usize = 64;
/// First bytes of a footer.
pub const FOOTER_MAGIC: [u8; 8] = *b"NRATAIL\n";

/// The footer: the 64 bytes after a commit frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Features that a reader must support.
    pub required: u32,
    pub commit_offset: u64,
    pub commit_length: u64,
    /// Offset and frame length of the newest key frame; zeros if the archive is not encrypted.
    pub keys: (u64, u64),
    pub number: u64,
}

impl Footer {
    /// Returns the length of the archive up to the first copy of this footer. Recovery data and a
    /// second copy may follow.
    pub(crate) fn archive_end(&self) -> u64 {
        self.commit_offset + self.commit_length + FOOTER_LEN as u64
    }

    pub(crate) fn encode(&self, offset: u64) -> [u8; FOOTER_LEN] {
        let mut bytes = [0; FOOTER_LEN];
        footer::MAGIC.put(&mut bytes, FOOTER_MAGIC);
        footer::VERSION.put_number(&mut bytes, VERSION);
        footer::REQUIRED.put_number(&mut bytes, self.required);
        footer::COMMIT_OFFSET.put_number(&mut bytes, self.commit_offset);
        footer::COMMIT_LENGTH.put_number(&mut bytes, self.commit_length);
        footer::KEY_FRAME_OFFSET.put_number(&mut bytes, self.keys.0);
        footer::KEY_FRAME_LENGTH.put_number(&mut bytes, self.keys.1);
        footer::NUMBER.put_number(&mut bytes, self.number);
        let sum = checksum(&bytes[..footer::CHECKSUM.offset], offset);
        footer::CHECKSUM.put_number(&mut bytes, sum);
        bytes
    }

    pub(crate) fn parse(bytes: &[u8; FOOTER_LEN], offset: u64) -> Result<Self> {
        let corrupt = |detail: String| Error::corrupt("footer", offset, detail);
        if footer::MAGIC.get(bytes) != FOOTER_MAGIC {
            return Err(corrupt("no footer at this offset".into()));
        }
        check_sum(&bytes[..footer::CHECKSUM.offset], offset, footer::CHECKSUM.number(bytes)).map_err(corrupt)?;
        check_version(footer::VERSION.number(bytes))?;
        if !footer::RESERVED_A.is_zero(bytes) {
            return Err(corrupt("reserved bytes are not zero".into()));
        }
        let parsed = Self {
            required: footer::REQUIRED.number(bytes),
            commit_offset: footer::COMMIT_OFFSET.number(bytes),
            commit_length: footer::COMMIT_LENGTH.number(bytes),
            keys: (footer::KEY_FRAME_OFFSET.number(bytes), footer::KEY_FRAME_LENGTH.number(bytes)),
            number: footer::NUMBER.number(bytes),
        };
        check_keys(parsed.required, parsed.keys).map_err(corrupt)?;
        let fits = is_frame_offset(parsed.commit_offset)
            && parsed.commit_length >= HEADER_LEN as u64
            // Recovery data may lie between commit and footer.
            && parsed.commit_offset.checked_add(parsed.commit_length).is_some_and(|end| end <= offset)
            && offset <= MAX_OFFSET
            && parsed.keys.0.saturating_add(parsed.keys.1) <= parsed.commit_offset
            && parsed.number != 0;
        if fits { Ok(parsed) } else { Err(corrupt(format!("it contradicts its offset: {parsed:?}"))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::REQUIRED_ENCRYPTION;

    const FOOTER: Footer = Footer { required: 0, commit_offset: 256, commit_length: 272, keys: (0, 0), number: 1 };

    #[test]
    fn every_changed_byte_of_the_footer_is_detected() {
        let sealed = Footer { required: REQUIRED_ENCRYPTION, commit_offset: 456, commit_length: 72, keys: (256, 200), ..FOOTER };
        for footer in [FOOTER, sealed] {
            let bytes = footer.encode(528);
            assert_eq!(Footer::parse(&bytes, 528).unwrap(), footer);
            assert!(Footer::parse(&bytes, 536).is_err());
            for at in 0..FOOTER_LEN {
                let mut bytes = bytes;
                bytes[at] ^= 0x10;
                assert!(matches!(Footer::parse(&bytes, 528), Err(Error::Corrupt { .. })), "byte {at}");
            }
        }
    }

    #[test]
    fn inconsistent_footers_are_rejected() {
        for (why, bad) in [
            ("length", Footer { commit_length: 280, ..FOOTER }),
            ("offset", Footer { commit_offset: 0, commit_length: 528, ..FOOTER }),
            ("number", Footer { number: 0, ..FOOTER }),
            ("keys without encryption", Footer { keys: (256, 64), ..FOOTER }),
            ("encryption without keys", Footer { required: 1, ..FOOTER }),
            ("key frame after the commit frame", Footer { required: 1, keys: (256, 200), ..FOOTER }),
        ] {
            assert!(matches!(Footer::parse(&bad.encode(528), 528), Err(Error::Corrupt { .. })), "{why}");
        }
    }
}
