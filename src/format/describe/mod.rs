//! Describes files by their headers: arrays, tensors, columns, audio, video and archives.
//!
//! [`describe`] detects the format from the first bytes and reads only headers. Header lengths and
//! row counts are limited before anything is read. Texts in a [`Description`] are not sanitized;
//! callers that print them must do that.

mod bytes;
mod container;
mod gguf;
mod hdf5;
mod matroska;
mod mp4;
mod npy;
mod npz;
mod parquet;
mod safetensors;
mod sound;
mod thrift;

use std::sync::Arc;

use nra_core::description::MAX_TEXT;
pub use nra_core::description::{Description, Elements, MAX_ROWS};
pub(crate) use nra_core::description::{known, product, shape, short};

use nra_core::error::Result;
use nra_core::source::ReadAt;

/// Bytes that suffice to detect the format of a file: the length of a tar header.
const DETECT_LEN: usize = 512;

/// Formats tenths of a second as `1:02.5`, or as `1:00:02.5` from an hour on.
fn clock(tenths: u128) -> String {
    let (hours, minutes, rest) = (tenths / 36_000, tenths / 600 % 60, format!("{:02}.{}", tenths / 10 % 60, tenths % 10));
    if hours > 0 { format!("{hours}:{minutes:02}:{rest}") } else { format!("{minutes}:{rest}") }
}

/// Describes a file of a known format from its headers. Returns `None` for other files.
///
/// # Errors
///
/// `Corrupt` if a header is invalid, `Limit` if it is too long, and errors of the source.
pub fn describe(source: &Arc<dyn ReadAt>) -> Result<Option<Description>> {
    let first = bytes::up_to(&**source, 0, DETECT_LEN)?;
    let table = match first.as_slice() {
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => npy::describe(&**source),
        [b'P', b'K', 3, 4, ..] if npz::is_npz(&first) => npz::describe(source),
        [b'G', b'G', b'U', b'F', ..] => gguf::describe(&**source),
        [b'P', b'A', b'R', b'1', ..] => parquet::describe(&**source),
        [b'R', b'I', b'F' | b'X', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => sound::wav(&**source),
        [b'f', b'L', b'a', b'C', ..] => sound::flac(&**source),
        [b'I', b'D', b'3', ..] => return sound::mp3(&**source),
        [0xff, second, ..] if second & 0xe0 == 0xe0 => return sound::mp3(&**source),
        [_, _, _, _, _, 0, 0, 0, b'{', ..] => safetensors::describe(&**source),
        _ if first.starts_with(hdf5::MAGIC) => hdf5::describe(&**source),
        [0x1a, 0x45, 0xdf, 0xa3, ..] => matroska::describe(&**source),
        _ if mp4::is_mp4(&first) => mp4::describe(&**source),
        _ => {
            let Some(access) = container::access(&first) else { return Ok(None) };
            return container::describe(source, access);
        }
    };
    table.map(Some)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use nra_core::source::MemorySource;

    pub fn source(bytes: &[u8]) -> Arc<dyn ReadAt> {
        Arc::new(MemorySource::new(bytes.to_vec()))
    }

    #[test]
    fn other_files_have_no_description() {
        for bytes in [&b""[..], b"x", b"text\n", &[0; 100]] {
            assert_eq!(describe(&source(bytes)).unwrap(), None);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(magic in 0usize..17, rest in proptest::collection::vec(any::<u8>(), 0..400)) {
            let magics: [&[u8]; 17] = [
                b"\x93NUMPY\x01\0", b"PK\x03\x04", b"GGUF\x03\0\0\0", b"PAR1", b"RIFF\0\0\0\0WAVE", b"fLaC", b"ID3\x04\0\0", b"\xff\xfb",
                b"\x40\0\0\0\0\0\0\0{", b"\x1a\x45\xdf\xa3", b"\0\0\0\x0cftypisom", b"\x1f\x8b\x08", b"7z\xbc\xaf\x27\x1c", b"NRA\0\x05\0",
                b"\x28\xb5\x2f\xfd", b"SHRD\x02", b"\x89HDF\r\n\x1a\n\0",
            ];
            let mut bytes = magics[magic].to_vec();
            bytes.extend(&rest);
            if magic == 3 {
                bytes.extend(u32::try_from(rest.len()).unwrap().to_le_bytes());
                bytes.extend(b"PAR1");
            }
            if let Ok(Some(table)) = describe(&source(&bytes)) {
                prop_assert!(table.rows.len() <= MAX_ROWS);
            }
        }
    }
}
