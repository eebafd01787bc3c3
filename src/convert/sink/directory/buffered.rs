//! Content of a small file, read by one thread and written by any.

use nra_format::archive::{Access, Archive, ContentSink, Part};
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};

/// The content of one entry, as the archive passed it on.
pub(super) struct BufferedContent {
    bytes: Vec<u8>,
    /// Lengths of the parts, data and holes.
    parts: Vec<Length>,
    /// How reading ended.
    end: Result<()>,
}

enum Length {
    Data(usize),
    Hole(u64),
}

impl BufferedContent {
    /// Reads the content of `entry`. Bytes past its size are not read.
    pub(super) fn read(archive: &dyn Archive, entry: &Entry) -> Self {
        let mut bytes = Vec::with_capacity(usize::try_from(entry.size).unwrap_or(0));
        let (mut parts, mut left) = (Vec::new(), Some(entry.size));
        let end = archive.with_content(entry, Access::Sequential, &mut |part| {
            let len = match part {
                Part::Data(data) => {
                    bytes.extend_from_slice(data);
                    parts.push(Length::Data(data.len()));
                    data.len() as u64
                }
                Part::Hole(len) => {
                    parts.push(Length::Hole(len));
                    len
                }
            };
            // The receiver of the parts reports that the content is too long.
            left = left.and_then(|left| left.checked_sub(len));
            left.map(|_| ()).ok_or(Error::Cancelled)
        });
        Self { bytes, parts, end }
    }

    /// Passes the parts to `sink`, as [`Archive::with_content`] does.
    ///
    /// # Errors
    ///
    /// Those of `sink`, then that of reading.
    pub(super) fn pass_to(self, sink: ContentSink<'_>) -> Result<()> {
        let mut rest = &self.bytes[..];
        for part in self.parts {
            match part {
                Length::Data(len) => {
                    let (data, next) = rest.split_at(len);
                    rest = next;
                    sink(Part::Data(data))?;
                }
                Length::Hole(len) => sink(Part::Hole(len))?,
            }
        }
        self.end
    }
}
