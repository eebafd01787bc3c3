//! What is different between two trees: archives, commits of one archive, directories.
//!
//! Both sides give their entries in path order, and the two runs are merged: memory holds one entry and one page of each. Pages of the index
//! that two commits of one archive have in common are stepped over unread, so that a small change in a large archive is found in
//! a few reads.

mod folder;

pub use self::folder::Folder;

use std::cmp::Ordering;
use std::ops::Range;

use nra_format::archive::{Archive, IndexPage};
use nra_format::digest::Digest;
use nra_format::entry::{Entry, Kind, Timestamp};
use nra_format::error::Result;
use nra_format::progress::{Counter, Monitor};

/// What is compared of entries that both sides have, beside kind, target of a symlink and numbers of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compare {
    /// Size, time and mode; between archives owner and attributes too. The time of a directory does not count: it follows its entries.
    #[default]
    Facts,
    /// Content by its digest, nothing else.
    Content,
}

/// What of an entry is different.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aspect {
    /// It is of another kind.
    Kind,
    /// Length of the content.
    Size,
    /// The content, as its digest says.
    Content,
    /// Time of modification.
    Time,
    /// Permissions.
    Mode,
    /// User or group.
    Owner,
    /// Attributes.
    Attributes,
    /// Where a symlink leads to.
    Target,
    /// Numbers of a device.
    Device,
}

impl Aspect {
    /// Returns the word for it.
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
    /// Both have it, and these aspects differ: what was, what is, and in what.
    Changed(Entry, Entry, Vec<Aspect>),
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Entries of the second side alone.
    pub added: u64,
    /// Entries of the first side alone.
    pub removed: u64,
    /// Entries that differ.
    pub changed: u64,
    /// Entries that are the same.
    pub same: u64,
}

impl Counts {
    /// Says whether nothing is different.
    pub fn is_same(&self) -> bool {
        self.added + self.removed + self.changed == 0
    }
}

/// One side of a comparison.
pub trait Tree {
    /// Iterates over the entries from number `from` on, in path order. Errors of single pages or directories don't end it.
    fn entries(&self, from: u64) -> Box<dyn Iterator<Item = Result<Entry>> + '_>;

    /// Returns the pages of the index that begin with entry `number`, as [`Archive::pages_at`].
    ///
    /// # Errors
    ///
    /// As reading the index does.
    fn pages_at(&self, number: u64) -> Result<Vec<IndexPage>>;

    /// Returns the digest of the content of a file.
    ///
    /// # Errors
    ///
    /// As reading does.
    fn digest(&self, entry: &Entry) -> Result<Option<Digest>>;

    /// Says whether entries come with all metadata of an archive, owner and attributes.
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

/// Is told what can't be read and where, and decides whether the work goes on.
pub type Trouble<'a, E> = dyn FnMut(&[u8], nra_format::Error) -> Result<(), E> + 'a;

/// Compares `before` with `after` and hands each difference to `visit`, in path order. What can't be read on one side is handed to `trouble`, which
/// decides whether the work goes on.
///
/// # Errors
///
/// Those of `visit` and `trouble`, and `Cancelled`.
pub fn diff<E: From<nra_format::Error>>(
    before: &dyn Tree,
    after: &dyn Tree,
    compare: Compare,
    monitor: &dyn Monitor,
    visit: &mut dyn FnMut(Difference) -> Result<(), E>,
    trouble: &mut Trouble<'_, E>,
) -> Result<Counts, E> {
    let (mut a, mut b) = (Entries::new(before), Entries::new(after));
    let mut counts = Counts::default();
    loop {
        monitor.check()?;
        if let Some(common) = a.common(&mut b)? {
            counts.same += common;
            monitor.add(Counter::Entries, common);
            continue;
        }
        let order = match (a.peek(trouble)?, b.peek(trouble)?) {
            (None, None) => return Ok(counts),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(x), Some(y)) => x.path.cmp(&y.path),
        };
        monitor.add(Counter::Entries, 1);
        match order {
            Ordering::Less => {
                counts.removed += 1;
                a.take().map_or(Ok(()), |entry| visit(Difference::Removed(entry)))?;
            }
            Ordering::Greater => {
                counts.added += 1;
                b.take().map_or(Ok(()), |entry| visit(Difference::Added(entry)))?;
            }
            Ordering::Equal => {
                let Some((x, y)) = a.take().zip(b.take()) else { continue };
                let aspects = match compare_pair(before, &x, after, &y, compare) {
                    Ok(aspects) => aspects,
                    Err(error) => {
                        trouble(x.path.as_bytes(), error)?;
                        continue;
                    }
                };
                if aspects.is_empty() {
                    counts.same += 1;
                } else {
                    counts.changed += 1;
                    visit(Difference::Changed(x, y, aspects))?;
                }
            }
        }
    }
}

/// Returns what differs between two entries of one path.
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
            // Nothing is known of a directory that was only implied.
            let known = !x.implied && !y.implied;
            // Systems don't agree on mode and time of a symlink.
            let plain = x.kind != Kind::Symlink;
            note(plain && x.kind != Kind::Directory && !is_same_time(x.modified, y.modified), Aspect::Time);
            note(known && plain && x.metadata.mode != y.metadata.mode, Aspect::Mode);
            if before.is_archive() && after.is_archive() {
                note(x.metadata.owner != y.metadata.owner, Aspect::Owner);
                note(x.metadata.attributes != y.metadata.attributes, Aspect::Attributes);
            }
        }
    }
    Ok(aspects)
}

/// Times are the same when both are known and agree as far as the coarser of them goes: some containers have whole seconds only.
fn is_same_time(a: Option<Timestamp>, b: Option<Timestamp>) -> bool {
    let Some((a, b)) = a.zip(b) else { return true };
    a.seconds == b.seconds && (a.nanoseconds == b.nanoseconds || a.nanoseconds == 0 || b.nanoseconds == 0)
}

/// The entries of one side, and the pages that begin where it stands.
struct Entries<'a> {
    tree: &'a dyn Tree,
    entries: Option<Box<dyn Iterator<Item = Result<Entry>> + 'a>>,
    /// Number of the entry that comes next.
    number: u64,
    next: Option<Entry>,
    /// Where pages were last asked for, and what was said.
    pages: Vec<IndexPage>,
    /// First number for which pages have to be asked for again; `None` when they are of no more use.
    boundary: Option<u64>,
}

impl<'a> Entries<'a> {
    fn new(tree: &'a dyn Tree) -> Self {
        Self { tree, entries: None, number: 0, next: None, pages: Vec::new(), boundary: Some(0) }
    }

    /// Steps over the largest page that both sides stand in front of, and returns how many entries it has.
    fn common(&mut self, other: &mut Self) -> Result<Option<u64>> {
        self.ask()?;
        other.ask()?;
        let common = self.pages.iter().find_map(|own| {
            let others = other.pages.iter().find(|page| page.is_same(own))?;
            Some((own.numbers.clone(), others.numbers.clone()))
        });
        let Some((own, others)) = common else { return Ok(None) };
        self.jump(&own);
        other.jump(&others);
        Ok(Some(own.end - own.start))
    }

    fn ask(&mut self) -> Result<()> {
        if self.boundary != Some(self.number) {
            return Ok(());
        }
        self.pages = self.tree.pages_at(self.number)?;
        self.boundary = self.pages.last().map(|leaf| leaf.numbers.end);
        Ok(())
    }

    fn jump(&mut self, page: &Range<u64>) {
        (self.entries, self.next, self.number, self.boundary) = (None, None, page.end, Some(page.end));
        self.pages.clear();
    }

    fn peek<E>(&mut self, trouble: &mut Trouble<'_, E>) -> Result<Option<&Entry>, E> {
        while self.next.is_none() {
            let (tree, number) = (self.tree, self.number);
            match self.entries.get_or_insert_with(|| tree.entries(number)).next() {
                None => return Ok(None),
                Some(Ok(entry)) => self.next = Some(entry),
                Some(Err(error)) => {
                    // From here on nobody knows the numbers.
                    self.boundary = None;
                    self.pages.clear();
                    trouble(b"", error)?;
                }
            }
        }
        Ok(self.next.as_ref())
    }

    fn take(&mut self) -> Option<Entry> {
        self.pages.clear();
        self.number += 1;
        self.next.take()
    }
}

#[cfg(test)]
mod tests;
