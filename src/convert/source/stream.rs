//! Containers that are read once, in order: tar archives and single compressed files.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::fact::{Broken, SourceFact};
use super::input::Shape;
use crate::limits::{LimitCounter, Limits};
use crate::metadata::{MetadataFilter, MetadataPolicy};
use crate::pipeline::{BATCH_PARTS, Content, EntryPart, EntryReader, EntrySource, HASHED_HOLES_MAX, Outlet, Stopped};
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::names::NameEncoding;
use nra_format::path::{EntryPath, Quoted};
use nra_format::progress::{Counter, Monitor, Severity, Warning};
use nra_format::stream::{ByteStream, ReadAhead};
use nra_format::table::{Cleaned, clean};
use nra_format::tar::{Decoder, Event, Member, MemberKind};
use nra_format::top::Top;

/// Maximum length of a name in a warning, bytes. A name that is too long for an archive can have
/// megabytes.
const SHOWN_BYTES: usize = 1000;

/// A decoded stream, read ahead by a thread of its own.
pub(crate) struct StreamSource<'a> {
    pub(crate) stream: Mutex<Option<ReadAhead<Box<dyn ByteStream>>>>,
    pub(crate) shape: Shape,
    /// Bytes read of the input.
    pub(crate) stored: Arc<AtomicU64>,
    pub(crate) limits: Limits,
    pub(crate) names: Option<NameEncoding>,
    pub(crate) metadata: &'a MetadataPolicy,
    /// Keep the part of a single file before damage.
    pub(crate) keep_going: bool,
    pub(crate) monitor: &'a dyn Monitor,
}

impl EntrySource<SourceFact> for StreamSource<'_> {
    fn reader(&self) -> Box<dyn EntryReader<SourceFact> + '_> {
        Box::new(StreamReader {
            source: self,
            limit_counter: LimitCounter::new(self.limits),
            metadata_filter: MetadataFilter::new(self.metadata),
            path: Vec::new(),
            room: HASHED_HOLES_MAX,
            reported: 0,
        })
    }
}

struct StreamReader<'a> {
    source: &'a StreamSource<'a>,
    limit_counter: LimitCounter,
    metadata_filter: MetadataFilter<'a>,
    path: Vec<u8>,
    /// Bytes of holes that may still be hashed. Hashing holes takes time without any input, so
    /// content raises the limit.
    room: u64,
    /// Bytes read of the input that were reported.
    reported: u64,
}

/// A parsed name.
enum Named {
    Entry(EntryPath),
    /// The top directory.
    Top,
    /// Not a valid path, which was reported.
    Nothing,
}

/// Why reading ends before the end of the input.
enum End {
    Stopped,
    Failed(Error),
}

impl From<Stopped> for End {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl EntryReader<SourceFact> for StreamReader<'_> {
    fn read_entry(&mut self, position: u32, outlet: &mut Outlet<SourceFact>) -> Result<(), Stopped> {
        let taken = self.source.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut stream) = taken else { return Ok(()) };
        let mut content = None;
        let result = match &self.source.shape {
            Shape::Tar => {
                let mut decoder = Decoder::default().with_names(self.source.names);
                let result = self.read_tar(position, &mut decoder, &mut stream, &mut content, outlet);
                // Also for a truncated archive.
                if !matches!(result, Err(End::Stopped)) {
                    self.pass_comment(position, &mut decoder, outlet);
                }
                result
            }
            Shape::File(entry) => self.read_file(position, entry, &mut stream, &mut content, outlet),
        };
        match result {
            Ok(()) => {
                if let Some(remark) = stream.into_inner().and_then(|stream| stream.remark()) {
                    self.warn(Severity::Degraded, &[], remark);
                }
                Ok(())
            }
            Err(End::Stopped) => Err(Stopped),
            Err(End::Failed(error)) => {
                let broken = content.map(|content| {
                    // A part of the only file is better than nothing. Other files are kept complete
                    // or not at all.
                    let (path, kept) = match &self.source.shape {
                        Shape::Tar => (EntryPath::from_checked(self.path.as_slice()), false),
                        Shape::File(entry) => (entry.path.clone(), self.source.keep_going),
                    };
                    if kept {
                        content.end(outlet)
                    } else {
                        content.abandon(outlet)
                    }
                    Broken { path, kept }
                });
                outlet.push(position, None, EntryPart::Other(SourceFact::Failed(Box::new(error), broken)));
                Ok(())
            }
        }
    }
}

impl StreamReader<'_> {
    fn warn(&self, severity: Severity, path: &[u8], message: String) {
        self.source.monitor.warn(Warning::new(severity, &path[..path.len().min(SHOWN_BYTES)], message));
    }

    /// Returns the bytes read of the input, and reports them.
    fn stored(&mut self) -> u64 {
        let stored = self.source.stored.load(Ordering::Relaxed);
        self.source.monitor.add(Counter::Input, stored.saturating_sub(self.reported));
        self.reported = stored;
        stored
    }

    fn read_file(
        &mut self,
        position: u32,
        entry: &Entry,
        stream: &mut ReadAhead<Box<dyn ByteStream>>,
        content: &mut Option<Content>,
        outlet: &mut Outlet<SourceFact>,
    ) -> Result<(), End> {
        // Its length is unknown before its end.
        let file = content.insert(Content::begin(position, entry.clone(), u64::MAX, true, outlet)?);
        loop {
            let bytes = stream.peek(self.source.monitor)?;
            let len = bytes.len();
            if len == 0 {
                break;
            }
            let stored = self.stored();
            self.limit_counter.content(len as u64, stored)?;
            file.data(bytes, outlet)?;
            stream.consume(len);
        }
        if let Some(content) = content.take() {
            content.end(outlet);
        }
        Ok(())
    }

    /// Passes on comment and remarks of a tar archive, as far as it was read.
    fn pass_comment(&self, position: u32, decoder: &mut Decoder, outlet: &mut Outlet<SourceFact>) {
        if let Some(comment) = decoder.comment() {
            outlet.push(position, None, EntryPart::Other(SourceFact::Message(comment)));
        }
        for remark in decoder.take_remarks() {
            self.warn(Severity::Degraded, &[], remark);
        }
        if let Some(remark) = decoder.take_trailing_remark() {
            self.warn(Severity::Remark, &[], remark);
        }
    }

    fn read_tar(
        &mut self,
        position: u32,
        decoder: &mut Decoder,
        stream: &mut ReadAhead<Box<dyn ByteStream>>,
        content: &mut Option<Content>,
        outlet: &mut Outlet<SourceFact>,
    ) -> Result<(), End> {
        loop {
            let input = stream.peek(self.source.monitor)?;
            let last = input.is_empty();
            let mut used = 0;
            loop {
                let (taken, event) = decoder.step(&input[used..], last)?;
                used += taken;
                match event {
                    Event::More if used == input.len() => break,
                    Event::More => {}
                    Event::Member(member) => *content = self.begin(position, &member, outlet)?,
                    Event::Data(bytes) => {
                        if let Some(content) = content {
                            let stored = self.source.stored.load(Ordering::Relaxed);
                            self.limit_counter.content(bytes.len() as u64, stored)?;
                            self.room = self.room.saturating_add(bytes.len() as u64).min(HASHED_HOLES_MAX);
                            content.data(bytes, outlet)?;
                        }
                    }
                    Event::Hole(len) => {
                        if let Some(content) = content {
                            self.limit_counter.content(len, self.source.stored.load(Ordering::Relaxed))?;
                            content.hole(len, &mut self.room, outlet)?;
                        }
                    }
                    Event::End => {
                        if let Some(content) = content.take() {
                            content.end(outlet);
                        }
                        if outlet.batch.parts.len() >= BATCH_PARTS {
                            outlet.flush(0)?;
                        }
                    }
                    Event::Damage(error) => outlet.push(position, None, EntryPart::Other(SourceFact::Damaged(error))),
                    Event::Done => return Ok(()),
                }
            }
            stream.consume(used);
            let stored = self.stored();
            self.limit_counter.ratio(decoder.offset(), stored)?;
        }
    }

    /// Begins an entry. Returns its content if it is stored.
    fn begin(&mut self, position: u32, member: &Member, outlet: &mut Outlet<SourceFact>) -> Result<Option<Content>, End> {
        for remark in &member.remarks {
            self.warn(Severity::Degraded, &member.name, remark.clone());
        }
        let metadata = member.metadata();
        let kind = member.kind.entry_kind();
        let path = match self.entry_path(&member.name, outlet, position) {
            Named::Entry(path) => path,
            Named::Top if kind == Kind::Directory => {
                let top = self.metadata_filter.top(Top::of_entry(&metadata, member.modified));
                outlet.push(position, None, EntryPart::Other(SourceFact::Top(top)));
                return Ok(None);
            }
            Named::Top => {
                self.warn(Severity::Degraded, &member.name, "skipped: the name is that of the top directory".into());
                outlet.push(position, None, EntryPart::Nothing);
                return Ok(None);
            }
            Named::Nothing => return Ok(None),
        };
        // The top directory and skipped names are not counted as entries.
        self.limit_counter.entry()?;
        let mut entry = Entry::new(path, kind);
        entry.modified = member.modified;
        entry.device = member.device;
        entry.metadata = self.metadata_filter.share(metadata);
        self.metadata_filter.times(&mut entry);
        match member.kind {
            MemberKind::File => {
                return Ok(Some(Content::begin(position, entry, member.size, member.segments.is_none(), outlet)?));
            }
            MemberKind::HardLink => {
                let mut target = Vec::new();
                let cleaned = clean(&member.link, &mut target).ok().filter(|cleaned| *cleaned != Cleaned::Top);
                match cleaned.and_then(|_| EntryPath::new(target).ok()) {
                    Some(target) => outlet.push(position, None, EntryPart::Other(SourceFact::Link(Box::new(entry), target))),
                    None => {
                        let message = format!("skipped: hard link to the invalid path {}", Quoted::new(&member.link));
                        self.warn(Severity::Degraded, &member.name, message);
                        outlet.push(position, None, EntryPart::Nothing);
                    }
                }
            }
            _ => {
                if kind == Kind::Symlink {
                    entry.target = member.link.as_slice().into();
                }
                outlet.push(position, None, EntryPart::Plain(entry));
            }
        }
        Ok(None)
    }

    fn entry_path(&mut self, name: &[u8], outlet: &mut Outlet<SourceFact>, position: u32) -> Named {
        self.path.clear();
        match clean(name, &mut self.path) {
            Ok(Cleaned::Path) => {}
            Ok(Cleaned::Relative) => self.warn(Severity::Remark, name, "the leading slash is removed".into()),
            Ok(Cleaned::Top) => return Named::Top,
            Err(error) => {
                self.warn(Severity::Degraded, name, format!("skipped: {error}"));
                outlet.push(position, None, EntryPart::Nothing);
                return Named::Nothing;
            }
        }
        Named::Entry(EntryPath::from_checked(self.path.as_slice()))
    }
}
