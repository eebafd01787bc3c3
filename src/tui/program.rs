//! Shows content in other programs: pager, editor, default program.
//!
//! A pager reads content from a pipe, binary content as hexadecimal digits, so nothing is left in a
//! file. Other programs get a copy that only the user can read. It is deleted when the editor has
//! exited, or, for the default program, when the browser exits.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use signal_hook::consts::SIGINT;

use crate::preview::HEAD;
use crate::preview::encoding::Encoding;
use nra_format::archive::{Access, Archive};
use nra_format::entry::Entry;
use nra_format::error::Error;
use nra_format::zeros::each_run;
use nra_text::SizeStyle;

/// Shows the content of a file in a pager and waits for it.
pub fn page(archive: &dyn Archive, entry: &Entry, pager: &str) -> io::Result<()> {
    // Unreadable content is reported before the pager starts.
    let is_text = is_text(archive, entry)?;
    // The variable is a command line, not a path.
    let mut child = Command::new("sh").arg("-c").arg(pager).stdin(Stdio::piped()).spawn()?;
    let mut pipe = child.stdin.take().expect("piped above");
    let sent = if is_text {
        send(archive, entry, &mut pipe)
    } else {
        let mut dump = Dump { to: &mut pipe, row: Vec::new(), offset: 0 };
        send(archive, entry, &mut dump).and_then(|()| dump.finish())
    };
    drop(pipe);
    let status = child.wait()?;
    match sent {
        // A pager may exit before it has read everything. Only its exit status matters.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => check_status(pager, status),
    }
}

/// Detects from its start whether content is text.
fn is_text(archive: &dyn Archive, entry: &Entry) -> io::Result<bool> {
    let mut head = vec![0; HEAD];
    let read = archive.read_at(entry, 0, &mut head).map_err(io::Error::other)?;
    Ok(Encoding::detect(&head[..read]).is_some())
}

/// Writes bytes as rows of hexadecimal digits, between offsets and ASCII characters.
struct Dump<'a> {
    to: &'a mut dyn Write,
    row: Vec<u8>,
    /// Offset of the row, in bytes.
    offset: u64,
}

impl Dump<'_> {
    const ROW: usize = 16;

    fn finish(&mut self) -> io::Result<()> {
        if self.row.is_empty() {
            return Ok(());
        }
        let mut digits = String::new();
        for at in 0..Self::ROW {
            digits.push_str(if at % 8 == 0 { "  " } else { " " });
            digits.push_str(&self.row.get(at).map_or_else(|| "  ".to_owned(), |byte| format!("{byte:02x}")));
        }
        let letter = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' };
        let letters: String = self.row.iter().map(letter).collect();
        writeln!(self.to, "{:08x}{digits}  {letters}", self.offset)?;
        self.offset += self.row.len() as u64;
        self.row.clear();
        Ok(())
    }
}

impl Write for Dump<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = &bytes[..bytes.len().min(Self::ROW - self.row.len())];
        self.row.extend_from_slice(part);
        if self.row.len() == Self::ROW {
            self.finish()?;
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Writes the content of a file of at most `limit` bytes to a copy, and makes it read-only. On an
/// error, or when `awaited` returns false, the copy is deleted.
pub fn copy_to(archive: &dyn Archive, entry: &Entry, copy: &Path, limit: u64, awaited: &dyn Fn() -> bool) -> io::Result<()> {
    write_copy(archive, entry, copy, limit, awaited).inspect_err(|_| drop(std::fs::remove_file(copy)))
}

fn write_copy(archive: &dyn Archive, entry: &Entry, copy: &Path, limit: u64, awaited: &dyn Fn() -> bool) -> io::Result<()> {
    if entry.size > limit {
        let most = SizeStyle::Binary.show(limit);
        return Err(io::Error::other(format!("too large for a copy: {most} at most (copy, under [limits] in the settings)")));
    }
    let mut file = File::options().write(true).open(copy)?;
    send(archive, entry, &mut CancellableWriter { to: &mut file, awaited })?;
    file.set_permissions(PermissionsExt::from_mode(0o400))
}

/// A writer that fails when the copy is no longer needed.
struct CancellableWriter<'a> {
    to: &'a mut dyn Write,
    awaited: &'a dyn Fn() -> bool,
}

impl Write for CancellableWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.awaited)() { self.to.write(bytes) } else { Err(io::Error::other("stopped")) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Opens a copy with a command, which may exit before the program that it starts. Its output is
/// discarded.
pub fn launch(launcher: &str, copy: &Path) -> io::Result<()> {
    let mut command = on_file(launcher, copy);
    // Keys that send signals are for the browser.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    check_status(launcher, command.status()?)
}

/// Returns the command that runs a command line on a file.
fn on_file(line: &str, path: &Path) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{line} \"$1\"")).arg("sh").arg(path);
    command
}

/// Shows a copy in an editor and waits for it. Returns a message if the copy was changed.
pub fn edit(editor: &str, copy: &Path) -> io::Result<Option<&'static str>> {
    let before = state(copy);
    let status = on_file(editor, copy).status()?;
    let changed = state(copy) != before;
    check_status(editor, status)?;
    Ok(changed.then_some("Changes made in the editor are not kept: it had a copy"))
}

/// Returns size and modification time of a file.
fn state(path: &Path) -> Option<(u64, std::time::SystemTime)> {
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.len(), facts.modified().ok()?))
}

/// Returns an error if a program failed.
fn check_status(program: &str, status: ExitStatus) -> io::Result<()> {
    match status.code() {
        // The shell dies of an interrupt even if the program has handled it as a key.
        _ if status.success() || status.signal() == Some(SIGINT) => Ok(()),
        // Exit codes of the shell.
        Some(126) => Err(io::Error::other(format!("'{program}' cannot be run"))),
        Some(127) => Err(io::Error::other(format!("command not found: '{program}'"))),
        _ => Err(io::Error::other(format!("'{program}' ended with {status}"))),
    }
}

fn send(archive: &dyn Archive, entry: &Entry, to: &mut dyn Write) -> io::Result<()> {
    let mut sent = Ok(());
    let read = archive.with_content(entry, Access::Random, &mut |part| {
        sent = each_run(part, &mut |bytes| to.write_all(bytes));
        if sent.is_ok() { Ok(()) } else { Err(Error::Cancelled) }
    });
    sent?;
    read.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::Copies;
    use crate::tests::sample;

    #[test]
    fn editor_gets_temporary_copy() {
        let work = tempfile::tempdir().unwrap();
        let archive = sample::with_contents(&[("d/bad\x1b name.txt", b"hello\n")]);
        let (_, entry) = archive.find(b"d/bad\x1b name.txt").unwrap().unwrap();
        let seen = work.path().join("seen");
        // Records its argument, and the permissions.
        let editor = format!(
            "look() {{ (echo \"$1\"; cat \"$1\"; stat -c %a \"$1\" \"$(dirname \"$1\")\") > '{}'; }}; look",
            seen.display()
        );
        let edit = |editor: &str, limit| {
            let copies = Copies::default();
            let path = copies.create(b"bad\x1b name.txt")?;
            copy_to(&*archive, &entry, &path, limit, &|| true)?;
            super::edit(editor, &path)
        };
        assert_eq!(edit(&editor, 6).unwrap(), None);
        let seen = std::fs::read_to_string(seen).unwrap();
        let lines: Vec<&str> = seen.lines().collect();
        assert!(lines[0].ends_with("/bad__name.txt"), "{seen}");
        assert_eq!(lines[1..], ["hello", "400", "700"]);
        assert!(!Path::new(lines[0]).exists() && !Path::new(lines[0]).parent().unwrap().exists());
        let error = edit("change() { chmod u+w \"$1\"; echo more >> \"$1\"; }; change", 6).unwrap();
        assert!(error.unwrap().contains("not kept"));
        assert!(edit("exit 3; :", 6).unwrap_err().to_string().contains("3"));
        assert!(edit("true", 5).unwrap_err().to_string().contains("5 B at most"));
        // A cancelled copy is not made.
        let (copies, is_awaited) = (Copies::default(), || false);
        let copy = copies.create(b"a").unwrap();
        assert!(copy_to(&*archive, &entry, &copy, 6, &is_awaited).unwrap_err().to_string().contains("stopped"));
        assert!(!copy.exists());
    }

    #[test]
    fn default_program_does_not_use_terminal() {
        let work = tempfile::tempdir().unwrap();
        let (copy, seen) = (work.path().join("a b.txt"), work.path().join("seen"));
        std::fs::write(&copy, b"hello\n").unwrap();
        launch(&format!("look() {{ (echo \"$1\"; cat; cat \"$1\") > '{}'; }}; look", seen.display()), &copy).unwrap();
        assert_eq!(std::fs::read_to_string(seen).unwrap(), format!("{}\nhello\n", copy.display()));
        for launcher in ["exit 3; :", "no-such-command-anywhere"] {
            assert!(launch(launcher, &copy).is_err());
        }
    }

    #[test]
    fn pager_gets_binary_content_as_hex() {
        let work = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..20).chain(*b"PNG").collect();
        let archive = sample::with_contents(&[("a.png", &bytes), ("b.txt", "Grüße\n".as_bytes())]);
        let shown = |number: u64| {
            let file = work.path().join("shown");
            page(&*archive, &archive.entry(number).unwrap(), &format!("cat > '{}'", file.display())).unwrap();
            std::fs::read_to_string(file).unwrap()
        };
        let rows = [
            "00000000  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  ................",
            "00000010  10 11 12 13 50 4e 47                              ....PNG",
        ];
        assert_eq!(shown(0).lines().collect::<Vec<_>>(), rows);
        assert_eq!(shown(1), "Grüße\n");
        // Many pagers use the interrupt as a key.
        let entry = archive.entry(1).unwrap();
        assert!(page(&*archive, &entry, "kill -INT $$").is_ok());
        assert!(page(&*archive, &entry, "cat > /dev/null; exit 3").unwrap_err().to_string().contains('3'));
        // A pager that reads nothing, with more content than a pipe holds, is named with the
        // reason.
        let archive = sample::with_contents(&[("long", "line\n".repeat(100_000).as_bytes())]);
        let error = |pager: &str| page(&*archive, &archive.entry(0).unwrap(), pager).unwrap_err().to_string();
        assert_eq!(error("/nonexistent"), "command not found: '/nonexistent'");
        assert_eq!(error("false"), "'false' ended with exit status: 1");
        assert!(page(&*archive, &archive.entry(0).unwrap(), "head -1 > /dev/null").is_ok());
    }
}
