//! Descriptions of directory trees, to compare them.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What is compared in addition to names, types, link targets and content.
#[derive(Clone, Copy, Default)]
pub struct Facts {
    pub file_modes: bool,
    pub directory_modes: bool,
    /// Modification times in seconds.
    pub file_times: bool,
    /// Modification times in seconds.
    pub directory_times: bool,
    /// Fractions of the times that are compared.
    pub nanoseconds: bool,
    /// Which files are hard links of each other.
    pub links: bool,
    /// Owners, and modes and times of symlinks.
    pub owners: bool,
    /// The extended attribute `user.note`, and whether a file has holes.
    pub attributes: bool,
}

/// Describes everything below `top`, one line for each entry.
pub fn describe(top: &Path, facts: Facts) -> Vec<String> {
    let (mut queue, mut paths) = (vec![top.to_owned()], Vec::new());
    while let Some(directory) = queue.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                queue.push(entry.path());
            }
            paths.push(entry.path());
        }
    }
    paths.sort();
    let mut inodes = HashMap::new();
    let line = |path: &PathBuf| {
        let (name, metadata) = (path.strip_prefix(top).unwrap(), path.symlink_metadata().unwrap());
        let first = inodes.entry(metadata.ino()).or_insert_with(|| name.to_owned()).clone();
        let kind = metadata.file_type();
        let (content, has_mode, has_time) = if kind.is_file() {
            (blake3::hash(&fs::read(path).unwrap()).to_string(), facts.file_modes, facts.file_times)
        } else if kind.is_symlink() {
            (format!("symlink to {:?}", fs::read_link(path).unwrap()), facts.owners, facts.owners)
        } else if kind.is_dir() {
            ("directory".to_owned(), facts.directory_modes, facts.directory_times)
        } else {
            (format!("fifo: {}", kind.is_fifo()), facts.file_modes, facts.file_times)
        };
        let mut line = format!("{name:?} {content}");
        if has_mode {
            write!(line, " {:o}", metadata.mode() & 0o7777).unwrap();
        }
        if has_time {
            let nanoseconds = if facts.nanoseconds { metadata.mtime_nsec() } else { 0 };
            write!(line, " {}.{nanoseconds}", metadata.mtime()).unwrap();
        }
        if facts.links {
            write!(line, " same as {first:?}").unwrap();
        }
        if facts.owners {
            write!(line, " {}:{}", metadata.uid(), metadata.gid()).unwrap();
        }
        if facts.attributes {
            let mut note = [0; 100];
            let note = rustix::fs::lgetxattr(path, "user.note", &mut note).map(|len| note[..len].to_vec()).ok();
            write!(line, " {note:?} holes: {}", metadata.blocks() * 512 < metadata.len() / 2).unwrap();
        }
        line
    };
    paths.iter().map(line).collect()
}
