//! Default methods of the trait.

use std::cell::Cell;
use std::ops::Range;

use super::*;
use crate::digest::Digest;
use crate::entry::Kind;
use crate::path::EntryPath;

thread_local! {
    /// Number of decoded parts.
    static DECODED: Cell<u64> = const { Cell::new(0) };
}

/// An archive with one entry of this many parts. Each part is its number, repeated a thousand times.
struct Parts(u8, Info);

impl Parts {
    fn entry(&self) -> Entry {
        let mut entry = Entry::new(EntryPath::try_from("parts").unwrap(), Kind::File);
        entry.size = u64::from(self.0) * 1000;
        entry
    }
}

impl Archive for Parts {
    fn info(&self) -> &Info {
        &self.1
    }
    fn entry(&self, _: u64) -> Result<Entry> {
        Ok(self.entry())
    }
    fn find(&self, _: &[u8]) -> Result<Option<(u64, Entry)>> {
        Ok(None)
    }
    fn subtree(&self, _: Option<&[u8]>) -> Result<Range<u64>> {
        Ok(0..0)
    }
    fn totals(&self, _: Range<u64>) -> Result<Totals> {
        Ok(Totals::default())
    }
    fn entries(&self, _: Range<u64>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
        Box::new(std::iter::empty())
    }
    fn children(&self, _: Option<&[u8]>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
        Box::new(std::iter::empty())
    }
    fn read_at(&self, _: &Entry, _: u64, _: &mut [u8]) -> Result<usize> {
        Ok(0)
    }
    fn with_content(&self, _: &Entry, _: Access, sink: ContentSink<'_>) -> Result<()> {
        DECODED.set(0);
        for number in 0..self.0 {
            DECODED.set(DECODED.get() + 1);
            sink(Part::Data(&[number; 1000]))?;
        }
        // As a checksum after the content does.
        Err(Error::corrupt("content", 0, "another checksum"))
    }
    fn digest(&self, _: &Entry) -> Result<Option<Digest>> {
        Ok(None)
    }
    fn verify(&self, _: Depth, _: Option<&(dyn Fn(&Entry) -> bool + Sync)>, _: &dyn Monitor) -> Result<Verdict> {
        Ok(Verdict::default())
    }
}

#[test]
fn with_range_decodes_nothing_after_the_range() {
    let archive = Parts(100, Info::default());
    let part = |range: Range<u64>| {
        let mut bytes = Vec::new();
        let read = archive.with_range(&archive.entry(), range, Access::Random, &mut |part| {
            let Part::Data(part) = part else { panic!("there are no holes") };
            bytes.extend_from_slice(part);
            Ok(())
        });
        (read.is_ok(), bytes, DECODED.get())
    };
    let (is_ok, bytes, decoded) = part(1998..2003);
    assert_eq!((is_ok, bytes), (true, vec![1, 1, 2, 2, 2]));
    assert!(decoded <= 4, "{decoded} parts");
    // A range up to the end of the content is followed by its checksum.
    let (is_ok, bytes, decoded) = part(99_999..100_000);
    assert_eq!((is_ok, bytes, decoded), (false, vec![99], 100));
    // An error of the sink is not the end of the range.
    let stopped = archive.with_range(&archive.entry(), 0..5, Access::Random, &mut |_| Err(Error::Cancelled));
    assert!(matches!(stopped, Err(Error::Cancelled)));
}
