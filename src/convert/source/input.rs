//! Opens the input of a conversion.

use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::options::Options;
use crate::pipeline::Source;
use crate::select::Selection;
use nra_format::archive::{
    Archive, detect_source, detect_stream, extension_mismatch, open as open_archive, open_path, open_stream,
};
use nra_format::container::{Container, Engine};
use nra_format::entry::{Entry, Kind};
use nra_format::error::Result;
use nra_format::path::EntryPath;
use nra_format::progress::{Counter, Monitor, Warning};
use nra_format::source::{FileSource, ReadAt};
use nra_format::stream::{ByteStream, Input as Buffered, ReaderStream, SourceStream, decode};
use nra_format::tar;

/// An archive that is borrowed from the caller, or was opened here.
pub(crate) enum Opening<'a> {
    /// Borrowed.
    Borrowed(&'a dyn Archive),
    /// Opened here.
    Owned(Box<dyn Archive>),
}

impl<'a> Deref for Opening<'a> {
    type Target = dyn Archive + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Borrowed(archive) => *archive,
            Self::Owned(archive) => &**archive,
        }
    }
}

/// An input that was opened.
pub(crate) enum Opened<'a> {
    /// It is read once, in order.
    Once {
        /// Decoded bytes.
        stream: Box<dyn ByteStream>,
        /// Their format.
        shape: Shape,
        /// Bytes read of the input.
        stored: Arc<AtomicU64>,
    },
    /// It has an index.
    Indexed(Indexed<'a>),
}

/// An archive with an index.
pub(crate) struct Indexed<'a> {
    /// The archive.
    pub(crate) archive: Opening<'a>,
    /// The entries that are converted; `None` = all.
    pub(crate) selection: Option<&'a Selection>,
    /// The archive is known to be damaged: its readable entries are recovered.
    pub(crate) is_damaged: bool,
}

impl<'a> Indexed<'a> {
    /// Returns all entries of `archive`.
    fn all(archive: Opening<'a>) -> Self {
        Self { archive, selection: None, is_damaged: false }
    }
}

/// The format of a decoded stream.
pub(crate) enum Shape {
    /// A tar archive.
    Tar,
    /// The content of one file.
    File(Box<Entry>),
}

/// Counts the bytes that are read from a stream.
struct Counted<S> {
    stream: S,
    count: Arc<AtomicU64>,
}

impl<S: ByteStream> ByteStream for Counted<S> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.stream.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
    fn remark(&self) -> Option<String> {
        self.stream.remark()
    }
}

/// Returns whether a file is read once, in order. Entries before damage can be read from it without
/// an index.
///
/// # Errors
///
/// As reading it does.
pub fn reads_in_order(source: &Arc<dyn ReadAt>) -> Result<bool> {
    Ok(matches!(detect_source(source)?, Some(Engine::Tar | Engine::Compressed(_))))
}

/// Opens a source, as a stream where its container allows that.
pub(crate) fn open<'a>(source: Source<'a>, options: &Options, monitor: &dyn Monitor) -> Result<Opened<'a>> {
    match source {
        Source::File(path) => {
            let source: Arc<dyn ReadAt> = Arc::new(FileSource::open(&path)?);
            let stored = Arc::new(AtomicU64::new(0));
            let stream = Counted { stream: SourceStream::new(Arc::clone(&source), 0), count: Arc::clone(&stored) };
            let (opened, container) = match open_once(Buffered::new(stream, 0), source.name(), options, stored)? {
                Ok(opened) => {
                    monitor.expect(Counter::Input, source.len());
                    opened
                }
                Err(_) => {
                    let archive = open_archive(Arc::clone(&source), &options.open)?;
                    let container = archive.container();
                    (Opened::Indexed(Indexed::all(Opening::Owned(archive))), container)
                }
            };
            warn_mismatch(source.name(), container, monitor);
            Ok(opened)
        }
        Source::Stream(reader, name) => {
            let stored = Arc::new(AtomicU64::new(0));
            let stream = Counted { stream: ReaderStream::new(reader, &name), count: Arc::clone(&stored) };
            match open_once(Buffered::new(stream, 0), name.name(), options, stored)? {
                Ok((opened, _)) => Ok(opened),
                Err(mut rest) => Ok(Opened::Indexed(Indexed::all(Opening::Owned(open_stream(&mut rest, &name, &options.open)?)))),
            }
        }
        source => open_indexed(source, options, monitor).map(Opened::Indexed),
    }
}

/// Opens a source by its index.
pub(crate) fn open_indexed<'a>(source: Source<'a>, options: &Options, monitor: &dyn Monitor) -> Result<Indexed<'a>> {
    let archive = match source {
        Source::Archive(archive, selection) => {
            let selection = Some(selection).filter(|selection| !selection.is_all());
            return Ok(Indexed { selection, ..Indexed::all(Opening::Borrowed(archive)) });
        }
        Source::Damaged(archive) => return Ok(Indexed { is_damaged: true, ..Indexed::all(Opening::Borrowed(archive)) }),
        Source::File(path) => {
            let archive = open_path(&path, &options.open)?;
            warn_mismatch(path.as_os_str().as_bytes(), archive.container(), monitor);
            archive
        }
        Source::Stream(mut reader, name) => open_stream(&mut reader, &name, &options.open)?,
        Source::Walk(_) => unreachable!("a walk is not opened"),
    };
    Ok(Indexed::all(Opening::Owned(archive)))
}

/// Warns when the extension of a name promises another format.
fn warn_mismatch(name: &[u8], container: Container, monitor: &dyn Monitor) {
    if let Some(message) = extension_mismatch(name, container) {
        monitor.warn(Warning::remark(name, message));
    }
}

/// Opens an input that is read once, and returns its container; hands the input back if it is of
/// another kind, or not of the kind that the options ask for.
fn open_once<'a>(
    mut input: Buffered,
    name: &[u8],
    options: &Options,
    stored: Arc<AtomicU64>,
) -> Result<Result<(Opened<'a>, Container), Buffered>> {
    let compression = match detect_stream(&mut input)? {
        Some(engine) if options.open.engine.is_some_and(|wanted| wanted != engine) => return Ok(Err(input)),
        Some(Engine::Tar) => {
            return Ok(Ok((Opened::Once { stream: Box::new(input), shape: Shape::Tar, stored }, Container::Tar(None))));
        }
        Some(Engine::Compressed(compression)) => compression,
        _ => return Ok(Err(input)),
    };
    let (_, decoded) = decode(input, options.open.threads, options.open.cache_bytes)?;
    let mut decoded = Buffered::new(decoded, 0);
    let (shape, container) = if tar::detect_stream(&mut decoded)? {
        (Shape::Tar, Container::Tar(Some(compression)))
    } else {
        let name = compression.content_name(name);
        let path = EntryPath::new(name).or_else(|_| EntryPath::try_from("content")).expect("a constant is a path");
        (Shape::File(Box::new(Entry::new(path, Kind::File))), Container::Compressed(compression))
    };
    Ok(Ok((Opened::Once { stream: Box::new(decoded), shape, stored }, container)))
}
