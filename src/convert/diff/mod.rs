//! Compares two trees: archives, commits of one archive, or directories.
//!
//! Both sides return their entries in path order, which are merged: memory holds one entry and one
//! page of each side. Index pages that two commits of one archive share are skipped without reading
//! them, so that a small change in a large archive is found with a few reads.

mod folder;

pub use self::folder::Folder;

use std::cmp::Ordering;
use std::ops::Range;

use nra_format::archive::{Archive, IndexPage};
use nra_format::digest::Digest;
use nra_format::entry::{Entry, Kind, Timestamp};
use nra_format::error::Result;
use nra_format::progress::{Counter, Monitor};

/// Properties compared besides kind, symlink target and device numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compare {
    /// Size, time and mode; between archives also owner and attributes. Times of directories are
    /// ignored, because they depend on their entries.
    #[default]
    Facts,
    /// Only the digest of the content.
    Content,
}

/// A property in which entries differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aspect {
    /// Kind.
    Kind,
    /// Length of the content.
    Size,
    /// Digest of the content.
    Content,
    /// Time of modification.
    Time,
    /// Permissions.
    Mode,
    /// User or group.
    Owner,
    /// Attributes.
    Attributes,
    /// Target of a symlink.
    Target,
    /// Device numbers.
    Device,
}

impl Aspect {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Size => "size",
            Self::Content => "content",
            Self::Time => "time",
            Self::Mode => "mode",
            Self::Owner => "owner",
            Self::Attributes => "attributes",
            Self::Target => "target",
            Self::Device => "device",
        }
    }
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Only the second side has it.
    Added(Entry),
    /// Only the first side has it.
    Removed(Entry),
    /// Both sides have it: the entry of each side, and the properties that differ.
    Changed(Entry, Entry, Vec<Aspect>),
}

/// Counts of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Entries that only the second side has.
    pub added: u64,
    /// Entries that only the first side has.
    pub removed: u64,
    /// Entries that differ.
    pub changed: u64,
    /// Equal entries.
    pub unchanged: u64,
}

impl Counts {
    /// Returns whether there are no differences.
    pub fn is_same(&self) -> bool {
        self.added + self.removed + self.changed == 0
    }
}

/// One side of a comparison.
pub trait Tree {
    /// Iterates over the entries in path order, starting with number `from`. Errors of single pages
    /// or directories do not end it.
    fn entries(&self, from: u64) -> Box<dyn Iterator<Item = Result<Entry>> + '_>;

    /// Returns the index pages that begin with entry `number`, as [`Archive::pages_at`].
    ///
    /// # Errors
    ///
    /// If the index cannot be read.
    fn pages_at(&self, number: u64) -> Result<Vec<IndexPage>>;

    /// Returns the digest of the content of a file.
    ///
    /// # Errors
    ///
    /// If the content cannot be read.
    fn digest(&self, entry: &Entry) -> Result<Option<Digest>>;

    /// Returns whether entries have all metadata of an archive, including owner and attributes.
    fn is_archive(&self) -> bool;
}

impl Tree for &dyn Archive {
    fn entries(&self, from: u64) -> Box<dyn Iterator<Item = Result<Entry>> + '_> {
        Box::new(Archive::entries(*self, from..self.entry_count()))
    }

    fn pages_at(&self, number: u64) -> Result<Vec<IndexPage>> {
        Archive::pages_at(*self, number)
    }

    fn digest(&self, entry: &Entry) -> Result<Option<Digest>> {
        Archive::digest(*self, entry)
    }

    fn is_archive(&self) -> bool {
        true
    }
}

/// Handles a read error at a path. Returning an error ends the comparison.
pub type ErrorHandler<'a, E> = dyn FnMut(&[u8], nra_format::Error) -> Result<(), E> + 'a;

/// Compares `before` with `after` and passes each difference to `visit`, in path order. Passes read
/// errors to `on_error`.
///
/// # Errors
///
/// Errors of `visit` and `on_error`; `Cancelled`.
pub fn diff<E: From<nra_format::Error>>(
    before: &dyn Tree,
    after: &dyn Tree,
    compare: Compare,
    monitor: &dyn Monitor,
    visit: &mut dyn FnMut(Difference) -> Result<(), E>,
    on_error: &mut ErrorHandler<'_, E>,
) -> Result<Counts, E> {
    let (mut a, mut b) = (Entries::new(before), Entries::new(after));
    let mut counts = Counts::default();
    loop {
        monitor.check()?;
        if let Some(shared) = a.skip_shared_page(&mut b)? {
            counts.unchanged += shared;
            monitor.add(Counter::Entries, shared);
            continue;
        }
        let order = match (a.peek(on_error)?, b.peek(on_error)?) {
            (None, None) => return Ok(counts),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(x), Some(y)) => x.path.cmp(&y.path),
        };
        monitor.add(Counter::Entries, 1);
        match order {
            Ordering::Less => {
                counts.removed += 1;
                a.next().map_or(Ok(()), |entry| visit(Difference::Removed(entry)))?;
            }
            Ordering::Greater => {
                counts.added += 1;
                b.next().map_or(Ok(()), |entry| visit(Difference::Added(entry)))?;
            }
            Ordering::Equal => {
                let Some((x, y)) = a.next().zip(b.next()) else { continue };
                let aspects = match compare_pair(before, &x, after, &y, compare) {
                    Ok(aspects) => aspects,
                    Err(error) => {
                        on_error(x.path.as_bytes(), error)?;
                        continue;
                    }
                };
                if aspects.is_empty() {
                    counts.unchanged += 1;
                } else {
                    counts.changed += 1;
                    visit(Difference::Changed(x, y, aspects))?;
                }
            }
        }
    }
}

/// Returns the properties in which two entries of the same path differ.
fn compare_pair(before: &dyn Tree, x: &Entry, after: &dyn Tree, y: &Entry, compare: Compare) -> Result<Vec<Aspect>> {
    if x.kind != y.kind {
        return Ok(vec![Aspect::Kind]);
    }
    let mut aspects = Vec::new();
    let mut note = |differs: bool, aspect| aspects.extend(differs.then_some(aspect));
    note(x.target != y.target, Aspect::Target);
    note(x.device != y.device, Aspect::Device);
    match compare {
        Compare::Content if x.kind == Kind::File => {
            let same = x.size == y.size && (x.size == 0 || before.digest(x)? == after.digest(y)?);
            note(!same, Aspect::Content);
        }
        Compare::Content => {}
        Compare::Facts => {
            note(x.size != y.size, Aspect::Size);
            // The metadata of implied directories is unknown.
            let is_known = !x.implied && !y.implied;
            // Mode and time of symlinks depend on the system.
            let is_symlink = x.kind == Kind::Symlink;
            note(!is_symlink && x.kind != Kind::Directory && !is_same_time(x.modified, y.modified), Aspect::Time);
            note(is_known && !is_symlink && x.metadata.mode != y.metadata.mode, Aspect::Mode);
            if before.is_archive() && after.is_archive() {
                note(x.metadata.owner != y.metadata.owner, Aspect::Owner);
                note(x.metadata.attributes != y.metadata.attributes, Aspect::Attributes);
            }
        }
    }
    Ok(aspects)
}

/// Compares times at the lower of their two resolutions, because some containers store only whole
/// seconds. An unknown time equals every time.
fn is_same_time(a: Option<Timestamp>, b: Option<Timestamp>) -> bool {
    let Some((a, b)) = a.zip(b) else { return true };
    a.seconds == b.seconds && (a.nanoseconds == b.nanoseconds || a.nanoseconds == 0 || b.nanoseconds == 0)
}

/// The remaining entries of one side, and the index pages that begin at the next one.
struct Entries<'a> {
    tree: &'a dyn Tree,
    entries: Option<Box<dyn Iterator<Item = Result<Entry>> + 'a>>,
    /// Number of the next entry.
    number: u64,
    next: Option<Entry>,
    /// Pages that begin at the next entry.
    pages: Vec<IndexPage>,
    /// Number of the next entry at which pages begin; `None` if numbers are unknown.
    boundary: Option<u64>,
}

impl<'a> Entries<'a> {
    fn new(tree: &'a dyn Tree) -> Self {
        Self { tree, entries: None, number: 0, next: None, pages: Vec::new(), boundary: Some(0) }
    }

    /// Skips the largest page that is next on both sides. Returns its number of entries.
    fn skip_shared_page(&mut self, other: &mut Self) -> Result<Option<u64>> {
        self.load_pages()?;
        other.load_pages()?;
        let shared = self.pages.iter().find_map(|own| {
            let others = other.pages.iter().find(|page| page.is_same(own))?;
            Some((own.numbers.clone(), others.numbers.clone()))
        });
        let Some((own, others)) = shared else { return Ok(None) };
        self.skip(&own);
        other.skip(&others);
        Ok(Some(own.end - own.start))
    }

    fn load_pages(&mut self) -> Result<()> {
        if self.boundary != Some(self.number) {
            return Ok(());
        }
        self.pages = self.tree.pages_at(self.number)?;
        self.boundary = self.pages.last().map(|leaf| leaf.numbers.end);
        Ok(())
    }

    fn skip(&mut self, page: &Range<u64>) {
        (self.entries, self.next, self.number, self.boundary) = (None, None, page.end, Some(page.end));
        self.pages.clear();
    }

    fn peek<E>(&mut self, on_error: &mut ErrorHandler<'_, E>) -> Result<Option<&Entry>, E> {
        while self.next.is_none() {
            let (tree, number) = (self.tree, self.number);
            match self.entries.get_or_insert_with(|| tree.entries(number)).next() {
                None => return Ok(None),
                Some(Ok(entry)) => self.next = Some(entry),
                Some(Err(error)) => {
                    // The numbers of the following entries are unknown.
                    self.boundary = None;
                    self.pages.clear();
                    on_error(b"", error)?;
                }
            }
        }
        Ok(self.next.as_ref())
    }

    fn next(&mut self) -> Option<Entry> {
        self.pages.clear();
        self.number += 1;
        self.next.take()
    }
}

#[cfg(test)]
mod tests;
