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
use nra_format::archive::{Access, Archive, Part};
use nra_format::entry::Entry;
use nra_format::error::Error;
use nra_format::zeros::each_run;
use nra_text::SizeStyle;

/// Shows the content of a file in a pager and waits for it.
///
/// # Errors
///
/// When there is no such program, or the content does not read.
pub fn page(archive: &dyn Archive, entry: &Entry, pager: &str) -> io::Result<()> {
    // What does not read at all is told before the terminal is another program's.
    let is_text = is_text(archive, entry)?;
    // The variable is a command line, not a path.
    let mut child = Command::new("sh").arg("-c").arg(pager).stdin(Stdio::piped()).spawn()?;
    let mut pipe = child.stdin.take().expect("asked for above");
    let sent = if is_text {
        send(archive, entry, &mut pipe)
    } else {
        let mut dump = Dump { to: &mut pipe, row: Vec::new(), offset: 0 };
        send(archive, entry, &mut dump).and_then(|()| dump.finish())
    };
    drop(pipe);
    let status = child.wait()?;
    match sent {
        // What it takes no more of tells nothing, the user may have seen enough; how it ended does.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => ended(pager, status),
    }
}

/// Says whether content is text, by its start.
fn is_text(archive: &dyn Archive, entry: &Entry) -> io::Result<bool> {
    let mut head = vec![0; HEAD];
    let read = archive.read_at(entry, 0, &mut head).map_err(io::Error::other)?;
    Ok(Encoding::detect(&head[..read]).is_some())
}

/// Writes bytes as rows of hexadecimal digits, with offsets in front and letters behind.
struct Dump<'a> {
    to: &'a mut dyn Write,
    row: Vec<u8>,
    /// Where the row begins, bytes.
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
        let taken = &bytes[..bytes.len().min(Self::ROW - self.row.len())];
        self.row.extend_from_slice(taken);
        if self.row.len() == Self::ROW {
            self.finish()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Writes the content of a file, of `limit` bytes at most, to a copy that was begun, as long as
/// `goes_on` says so. Nobody writes to it there.
///
/// # Errors
///
/// When it is too long, does not read, or does not go on; then the copy is gone.
pub fn copy_to(archive: &dyn Archive, entry: &Entry, copy: &Path, limit: u64, goes_on: &dyn Fn() -> bool) -> io::Result<()> {
    let written = write_copy(archive, entry, copy, limit, goes_on);
    if written.is_err() {
        // Whatever of it is there.
        drop(std::fs::remove_file(copy));
    }
    written
}

fn write_copy(archive: &dyn Archive, entry: &Entry, copy: &Path, limit: u64, goes_on: &dyn Fn() -> bool) -> io::Result<()> {
    if entry.size > limit {
        let most = SizeStyle::Binary.show(limit);
        return Err(io::Error::other(format!("too large for a copy: {most} at most (copy, under [limits] in the settings)")));
    }
    let mut file = File::options().write(true).open(copy)?;
    send(archive, entry, &mut SharedRequests { to: &mut file, goes_on })?;
    file.set_permissions(PermissionsExt::from_mode(0o400))
}

/// What is written to as long as somebody waits for it.
struct SharedRequests<'a> {
    to: &'a mut dyn Write,
    goes_on: &'a dyn Fn() -> bool,
}

impl Write for SharedRequests<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.goes_on)() { self.to.write(bytes) } else { Err(io::Error::other("stopped")) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Opens a copy by a command that may end long before the program that it starts. Nothing of it
/// goes to the terminal.
///
/// # Errors
///
/// When there is no such command, or it fails.
pub fn launch(launcher: &str, copy: &Path) -> io::Result<()> {
    let mut command = on_file(launcher, copy);
    // Keys that stop something are for the browser.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    ended(launcher, command.status()?)
}

/// Returns what runs a command line, as the user has written it, on a file.
fn on_file(line: &str, path: &Path) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{line} \"$1\"")).arg("sh").arg(path);
    command
}

/// Shows a copy in an editor and waits for it. Returns what the user should know.
///
/// # Errors
///
/// When there is no such program.
pub fn edit(editor: &str, copy: &Path) -> io::Result<Option<&'static str>> {
    let before = state(copy);
    let status = on_file(editor, copy).status()?;
    let changed = state(copy) != before;
    ended(editor, status)?;
    Ok(changed.then_some("Changes made in the editor are not kept: it had a copy"))
}

/// Returns what changes when a file is written.
fn state(path: &Path) -> Option<(u64, std::time::SystemTime)> {
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.len(), facts.modified().ok()?))
}

/// Says whether a program did what it was for. The shell that starts it passes on an interrupt that
/// was typed meanwhile, also one that the program took as a key.
fn is_well(status: ExitStatus) -> bool {
    status.success() || status.signal() == Some(SIGINT)
}

fn ended(program: &str, status: ExitStatus) -> io::Result<()> {
    match status.code() {
        _ if is_well(status) => Ok(()),
        // What a shell says by numbers.
        Some(126) => Err(io::Error::other(format!("'{program}' cannot be run"))),
        Some(127) => Err(io::Error::other(format!("command not found: '{program}'"))),
        _ => Err(io::Error::other(format!("'{program}' ended with {status}"))),
    }
}

fn send(archive: &dyn Archive, entry: &Entry, to: &mut dyn Write) -> io::Result<()> {
    let mut sent = Ok(());
    let read = archive.with_content(entry, Access::Random, &mut |part| {
        sent = write(to, part);
        if sent.is_ok() { Ok(()) } else { Err(Error::Cancelled) }
    });
    sent?;
    read.map_err(io::Error::other)
}

fn write(to: &mut dyn Write, part: Part<'_>) -> io::Result<()> {
    each_run(part, &mut |bytes| to.write_all(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::Copies;
    use crate::sample;

    #[test]
    fn editor_gets_temporary_copy() {
        let work = tempfile::tempdir().unwrap();
        let archive = sample::with_contents(&[("d/bad\x1b name.txt", b"hello\n")]);
        let (_, entry) = archive.find(b"d/bad\x1b name.txt").unwrap().unwrap();
        let seen = work.path().join("seen");
        // Notes what it was given, and with which rights.
        let editor = format!(
            "look() {{ (echo \"$1\"; cat \"$1\"; stat -c %a \"$1\" \"$(dirname \"$1\")\") > '{}'; }}; look",
            seen.display()
        );
        let edit = |editor: &str, limit| {
            let copies = Copies::default();
            let path = copies.begin(b"bad\x1b name.txt")?;
            copy_to(&*archive, &entry, &path, limit, &|| true)?;
            super::edit(editor, &path)
        };
        assert_eq!(edit(&editor, 6).unwrap(), None);
        let seen = std::fs::read_to_string(seen).unwrap();
        let lines: Vec<&str> = seen.lines().collect();
        assert!(lines[0].ends_with("/bad__name.txt"), "{seen}");
        assert_eq!(lines[1..], ["hello", "400", "700"]);
        assert!(!Path::new(lines[0]).exists() && !Path::new(lines[0]).parent().unwrap().exists());
        let told = edit("change() { chmod u+w \"$1\"; echo more >> \"$1\"; }; change", 6).unwrap();
        assert!(told.unwrap().contains("not kept"));
        assert!(edit("exit 3; :", 6).unwrap_err().to_string().contains("3"));
        assert!(edit("true", 5).unwrap_err().to_string().contains("5 B at most"));
        // A copy that nobody waits for any more is not made.
        let (copies, is_awaited) = (Copies::default(), || false);
        let copy = copies.begin(b"a").unwrap();
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
        // An interrupt is a key of many pagers.
        let entry = archive.entry(1).unwrap();
        assert!(page(&*archive, &entry, "kill -INT $$").is_ok());
        assert!(page(&*archive, &entry, "cat > /dev/null; exit 3").unwrap_err().to_string().contains('3'));
        // One that takes nothing at all, of more than a pipe holds: it is named, with the reason.
        let archive = sample::with_contents(&[("long", "line\n".repeat(100_000).as_bytes())]);
        let told = |pager: &str| page(&*archive, &archive.entry(0).unwrap(), pager).unwrap_err().to_string();
        assert_eq!(told("/nonexistent"), "command not found: '/nonexistent'");
        assert_eq!(told("false"), "'false' ended with exit status: 1");
        assert!(page(&*archive, &archive.entry(0).unwrap(), "head -1 > /dev/null").is_ok());
    }
}
