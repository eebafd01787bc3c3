//! An archive in memory that can also contain what no writer writes.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nra::format::archive::{Access, Archive, ContentSink, Depth, Info, Part, Totals, Verdict};
use nra::format::digest::Digest;
use nra::format::entry::{Attribute, Device, Entry, Kind, Metadata, Namespace, Owner, Timestamp};
use nra::format::path::EntryPath;
use nra::format::progress::Monitor;
use nra::format::{Error, Result};

/// A run of content.
#[derive(Clone)]
pub enum Run {
    Data(Vec<u8>),
    Hole(u64),
    Damage,
}

#[derive(Default)]
pub struct Fake {
    info: Info,
    entries: Vec<Entry>,
    content: HashMap<Vec<u8>, Vec<Run>>,
    /// Numbers of entries that follow a damaged page of the index.
    pub damaged_pages: Vec<u64>,
    /// How often content was read.
    pub reads: AtomicU64,
}

impl Fake {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry after the previous ones, whatever its path.
    pub fn entry(mut self, path: &str, kind: Kind, change: impl FnOnce(&mut Entry)) -> Self {
        let mut entry = Entry::new(EntryPath::try_from(path).unwrap(), kind);
        change(&mut entry);
        self.entries.push(entry);
        self.info.entries += 1;
        self
    }

    pub fn dir(self, path: &str) -> Self {
        self.entry(path, Kind::Directory, |_| {})
    }

    pub fn file(self, path: &str, content: &[u8]) -> Self {
        self.file_with(path, content, |_| {})
    }

    pub fn file_with(self, path: &str, content: &[u8], change: impl FnOnce(&mut Entry)) -> Self {
        let runs = if content.is_empty() { vec![] } else { vec![Run::Data(content.to_vec())] };
        self.runs(path, runs, change)
    }

    pub fn runs(mut self, path: &str, runs: Vec<Run>, change: impl FnOnce(&mut Entry)) -> Self {
        let len = |run: &Run| match run {
            Run::Data(bytes) => bytes.len() as u64,
            Run::Hole(len) => *len,
            Run::Damage => 0,
        };
        let size = runs.iter().map(len).sum();
        self.content.insert(path.as_bytes().to_vec(), runs);
        self.entry(path, Kind::File, |entry| {
            entry.size = size;
            change(entry);
        })
    }

    pub fn symlink(self, path: &str, target: &str) -> Self {
        self.entry(path, Kind::Symlink, |entry| entry.target = target.as_bytes().into())
    }

    pub fn device(self, path: &str, major: u32, minor: u32) -> Self {
        self.entry(path, Kind::CharacterDevice, |entry| entry.device = Some(Device { major, minor }))
    }

    pub fn attributes(mut self, attributes: Vec<Attribute>) -> Self {
        self.info.attributes = attributes.into_iter().collect();
        self
    }
}

/// Sets the mode.
pub fn mode(mode: u16) -> impl FnOnce(&mut Entry) {
    move |entry| entry.metadata = Arc::new(Metadata { mode, ..(*entry.metadata).clone() })
}

/// Sets the time.
pub fn time(seconds: i64, nanoseconds: u32) -> impl FnOnce(&mut Entry) {
    move |entry| entry.modified = Some(Timestamp { seconds, nanoseconds })
}

/// Sets the owner.
pub fn owner(user_id: u64, group_id: u64) -> impl FnOnce(&mut Entry) {
    move |entry| {
        let owner = Some(Owner { user_id, group_id, ..Owner::default() });
        entry.metadata = Arc::new(Metadata { owner, ..(*entry.metadata).clone() });
    }
}

/// Sets extended attributes.
pub fn xattrs(pairs: &[(&str, &[u8])]) -> impl FnOnce(&mut Entry) {
    let attribute = |(name, value): &(&str, &[u8])| Attribute {
        namespace: Namespace::Xattr,
        name: name.as_bytes().into(),
        value: (*value).into(),
    };
    let attributes = pairs.iter().map(attribute).collect();
    move |entry| entry.metadata = Arc::new(Metadata { attributes, ..(*entry.metadata).clone() })
}

/// Sets the hard link group.
pub fn group(number: u64) -> impl FnOnce(&mut Entry) {
    move |entry| entry.link_group = number
}

impl Archive for Fake {
    fn info(&self) -> &Info {
        &self.info
    }

    fn entry(&self, number: u64) -> Result<Entry> {
        Ok(self.entries[usize::try_from(number).unwrap()].clone())
    }

    fn find(&self, path: &[u8]) -> Result<Option<(u64, Entry)>> {
        Ok((0..).zip(&self.entries).find(|(_, entry)| entry.path.as_bytes() == path).map(|(i, entry)| (i, entry.clone())))
    }

    fn subtree(&self, directory: Option<&[u8]>) -> Result<Range<u64>> {
        let all = 0..self.entry_count();
        let Some(directory) = directory else { return Ok(all) };
        let top = EntryPath::new(directory).unwrap();
        let inside = |i: &u64| {
            let path = &self.entries[usize::try_from(*i).unwrap()].path;
            *path == top || path.is_below(&top)
        };
        let mut inner = all.filter(inside);
        let first = inner.next().unwrap_or(0);
        Ok(first..inner.last().map_or(first + 1, |last| last + 1))
    }

    fn totals(&self, range: Range<u64>) -> Result<Totals> {
        Ok(Totals { entries: range.end - range.start, content_bytes: 0 })
    }

    fn entries(&self, range: Range<u64>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
        Box::new(range.flat_map(|i| {
            let damage = self.damaged_pages.contains(&i).then(|| Err(Error::corrupt("entry page", i, "made up")));
            damage.into_iter().chain([self.entry(i)])
        }))
    }

    fn children(&self, directory: Option<&[u8]>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
        let parent = directory.map(<[u8]>::to_vec);
        let inside = move |entry: &&Entry| entry.path.parent().map(|path| path.as_bytes().to_vec()) == parent;
        Box::new(self.entries.iter().filter(inside).map(|entry| Ok(entry.clone())))
    }

    fn read_at(&self, _: &Entry, _: u64, _: &mut [u8]) -> Result<usize> {
        panic!("extraction reads with `with_content`");
    }

    fn with_content(&self, entry: &Entry, _: Access, sink: ContentSink<'_>) -> Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        for run in &self.content[entry.path.as_bytes()] {
            match run {
                Run::Data(bytes) => bytes.chunks(1 << 20).try_for_each(|bytes| sink(Part::Data(bytes)))?,
                Run::Hole(len) => sink(Part::Hole(*len))?,
                Run::Damage => return Err(Error::corrupt("block payload", 264, "made up")),
            }
        }
        Ok(())
    }

    fn digest(&self, _: &Entry) -> Result<Option<Digest>> {
        Ok(None)
    }

    fn verify(&self, _: Depth, _: Option<&(dyn Fn(&Entry) -> bool + Sync)>, _: &dyn Monitor) -> Result<Verdict> {
        Ok(Verdict::default())
    }
}
