//! The terminal in raw mode. It is restored on exit, after a panic, and while the program is
//! suspended.

use std::io::{self, Write, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;
use std::{mem, panic};

use base64::Engine as _;
use crossbeam_channel::bounded;
use crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste};
use crossterm::style::Print;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use crate::canvas::Protocol;
use crate::preview::terminal_image;
use crate::theme::{Background, Depth};

/// Reports presses, releases and drags, with coordinates as numbers. Plain movements (`?1003`)
/// would be one event per cell.
const MOUSE: &str = "\x1b[?1000h\x1b[?1002h\x1b[?1006h";

/// Locked while the terminal is taken, restored or written to, so that nothing is written after it
/// has been restored.
static OUTPUT: Mutex<()> = Mutex::new(());
/// The browser has the terminal.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// The terminal has been restored for good.
static ABANDONED: AtomicBool = AtomicBool::new(false);
/// The terminal keeps a picture until it is deleted.
static HAS_IMAGE: AtomicBool = AtomicBool::new(false);
/// Another program has the terminal and gets its keys, including interrupts.
static LENT: AtomicBool = AtomicBool::new(false);

/// Returns whether another program has the terminal.
pub fn is_lent() -> bool {
    LENT.load(Ordering::SeqCst)
}

/// Returns whether the browser has the terminal.
pub fn is_taken() -> bool {
    TAKEN.load(Ordering::SeqCst)
}

fn lock_output() -> MutexGuard<'static, ()> {
    OUTPUT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to the terminal while the browser has it. Output is written as a whole, or dropped if the
/// browser does not have the terminal.
#[derive(Debug, Default)]
pub struct Output(Vec<u8>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = mem::take(&mut self.0);
        let _lock = lock_output();
        if !is_taken() || ABANDONED.load(Ordering::SeqCst) {
            return Ok(());
        }
        stdout().write_all(&bytes)?;
        stdout().flush()
    }
}

/// The terminal while the browser has it.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Output>>,
    mouse: bool,
}

impl Screen {
    /// Takes the terminal. Call it from the thread that draws: if that thread panics, the terminal
    /// is restored before the panic is reported.
    pub fn take(mouse: bool) -> io::Result<Self> {
        install_hook(thread::current().id());
        let terminal = Terminal::new(CrosstermBackend::new(Output::default()))?;
        let screen = Self { terminal, mouse };
        screen.enter()?;
        Ok(screen)
    }

    pub fn terminal(&mut self) -> &mut Terminal<CrosstermBackend<Output>> {
        &mut self.terminal
    }

    /// Restores the terminal while `other` runs, then takes it again.
    pub fn lend<T>(&mut self, other: impl FnOnce() -> T) -> io::Result<T> {
        restore();
        LENT.store(true, Ordering::SeqCst);
        let result = other();
        LENT.store(false, Ordering::SeqCst);
        self.enter()?;
        self.clear()?;
        Ok(result)
    }

    /// Restores the terminal until [`Screen::retake`]. Output in between is dropped.
    pub fn release(&mut self) {
        restore();
    }

    /// Takes the terminal again after the process was stopped.
    pub fn retake(&mut self) -> io::Result<()> {
        // Raw mode is not enabled twice, and the shell may have changed the modes meanwhile.
        disable_raw_mode()?;
        self.enter()?;
        self.clear()
    }

    /// Clears the screen, so that the next frame contains every cell.
    pub fn clear(&mut self) -> io::Result<()> {
        // `Terminal::clear` would query the cursor position, and the thread that reads keys would
        // get the response.
        let area = self.terminal.size()?.into();
        self.terminal.resize(area)
    }

    /// Copies text to the clipboard with OSC 52, which works over ssh, too. Terminals without
    /// support ignore it.
    pub fn copy(&mut self, text: &[u8]) -> io::Result<()> {
        let text = base64::engine::general_purpose::STANDARD.encode(text);
        execute!(self.terminal.backend_mut(), Print(format!("\x1b]52;c;{text}\x07")))
    }

    /// Sets how pictures are drawn.
    pub fn set_protocol(&self, protocol: Protocol) {
        HAS_IMAGE.store(protocol == Protocol::Kitty, Ordering::SeqCst);
    }

    fn enter(&self) -> io::Result<()> {
        let _lock = lock_output();
        if ABANDONED.load(Ordering::SeqCst) {
            return Ok(());
        }
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste, cursor::Hide, Print(if self.mouse { MOUSE } else { "" }))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal if the browser has it. Errors are ignored, because nothing can be done
/// about them.
fn restore() {
    let _lock = lock_output();
    if TAKEN.swap(false, Ordering::SeqCst) {
        if HAS_IMAGE.load(Ordering::SeqCst) {
            let _ = stdout().write_all(terminal_image::DELETE_IMAGE.as_bytes());
        }
        let _ = execute!(stdout(), DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
        let _ = stdout().flush();
    }
}

/// Restores the terminal for good. Unlike [`restore`], it does not block if the drawing thread is
/// stuck because the terminal accepts no output.
pub fn abandon() {
    ABANDONED.store(true, Ordering::SeqCst);
    let (done, is_done) = bounded(1);
    thread::spawn(move || {
        restore();
        let _ = done.send(());
    });
    let _ = is_done.recv_timeout(Duration::from_millis(500));
    // Typed text is echoed again in any case.
    let _ = disable_raw_mode();
}

/// Restores the terminal before a panic of the drawing thread is reported. Panics of other threads
/// are not printed over the screen: they become error responses.
fn install_hook(drawing: ThreadId) {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() == drawing {
            restore();
        } else if is_taken() {
            return;
        }
        before(info);
    }));
}

/// Returns the colours of the terminal according to the environment.
pub fn depth(variable: impl Fn(&str) -> Option<String>) -> Depth {
    let term = variable("TERM").unwrap_or_default();
    let color = variable("COLORTERM").unwrap_or_default();
    if variable("NO_COLOR").is_some_and(|value| !value.is_empty()) || term == "dumb" {
        Depth::Mono
    } else if matches!(color.as_str(), "truecolor" | "24bit") || term.ends_with("-direct") {
        Depth::True
    } else if term.contains("256color") {
        Depth::Indexed
    } else {
        Depth::Ansi
    }
}

/// Returns whether only ASCII may be drawn: the locale has another character set than UTF-8, or
/// `NRA_ACCESSIBLE=1` is set. Without a locale, as in most containers, UTF-8 is assumed.
pub fn is_ascii_only(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set).map(|locale| locale.to_ascii_lowercase());
    locale.is_some_and(|locale| !locale.contains("utf-8") && !locale.contains("utf8"))
        || set(&"NRA_ACCESSIBLE").is_some_and(|value| value != "0")
}

/// Returns width and height of a cell in pixels, if the terminal reports them.
pub fn font() -> Option<(u16, u16)> {
    let size = crossterm::terminal::window_size().ok()?;
    let font = (size.width.checked_div(size.columns)?, size.height.checked_div(size.rows)?);
    (font.0 > 0 && font.1 > 0).then_some(font)
}

/// Returns the background of the terminal, if the environment contains it.
pub fn background(variable: impl Fn(&str) -> Option<String>) -> Option<Background> {
    // For example `15;0`: the last number is the background; 7 and 9 to 15 are light.
    let number = variable("COLORFGBG")?.rsplit(';').next()?.parse().ok()?;
    Some(if matches!(number, 7 | 9..=15) { Background::Light } else { Background::Dark })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_restores_terminal() {
        let hook = panic::take_hook();
        let drawing = thread::spawn(|| {
            install_hook(thread::current().id());
            TAKEN.store(true, Ordering::SeqCst);
            // A panic of another thread does not restore it.
            assert!(thread::spawn(|| panic!("elsewhere")).join().is_err());
            assert!(is_taken());
            panic!("while drawing");
        });
        assert!(drawing.join().is_err());
        assert!(!is_taken());
        panic::set_hook(hook);
    }

    /// Set for the process that a test runs on a pseudo-terminal.
    #[cfg(target_os = "linux")]
    const INSIDE: &str = "NRA_TEST_ON_A_TERMINAL";

    /// Runs a test in a process on a pseudo-terminal, and prints the terminal modes before and
    /// after it. Returns the output.
    #[cfg(target_os = "linux")]
    fn run_on_terminal(name: &str) -> String {
        use std::process::{Command, Stdio};
        let test = std::env::current_exe().unwrap();
        let name = format!("terminal::tests::{name}");
        let inside = format!("stty rows 24 cols 80; stty -g; '{}' --exact --nocapture {name}; stty -g; stty -a", test.display());
        let mut script = Command::new("script");
        script
            .args(["--quiet", "--command", &inside, "/dev/null"])
            .env(INSIDE, "yes")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::null());
        String::from_utf8_lossy(&script.output().unwrap().stdout).into_owned()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn nothing_is_written_after_restore() {
        if std::env::var_os(INSIDE).is_some() {
            let mut screen = Screen::take(true).unwrap();
            screen.copy(b"before").unwrap();
            screen.release();
            screen.copy(b"released").unwrap();
            screen.retake().unwrap();
            screen.copy(b"again").unwrap();
            abandon();
            screen.copy(b"abandoned").unwrap();
            screen
                .terminal()
                .draw(|frame| frame.buffer_mut().set_string(0, 0, "drawn", ratatui::style::Style::new()))
                .map(drop)
                .unwrap();
            screen.retake().unwrap();
            return;
        }
        let text = run_on_terminal("nothing_is_written_after_restore");
        let sent = |what: &str| text.contains(&base64::engine::general_purpose::STANDARD.encode(what));
        assert!(sent("before") && sent("again") && !sent("released") && !sent("abandoned"), "{text:?}");
        assert!(!text.contains("drawn"), "{text:?}");
        assert_eq!((text.matches("\x1b[?1049h").count(), text.matches("\x1b[?1049l").count()), (2, 2), "{text:?}");
        // Plain mouse movements are not reported.
        assert!(text.contains("\x1b[?1002h") && !text.contains("\x1b[?1003h"), "{text:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn panic_leaves_terminal_unchanged() {
        if std::env::var_os(INSIDE).is_some() {
            let screen = Screen::take(true).unwrap();
            screen.set_protocol(Protocol::Kitty);
            panic!("while drawing");
        }
        let text = run_on_terminal("panic_leaves_terminal_unchanged");
        let modes: Vec<&str> =
            text.lines().map(str::trim).filter(|line| line.len() > 60 && line.matches(':').count() > 20).collect();
        assert!(modes.len() == 2 && modes[0] == modes[1], "{text}");
        assert!(text.contains(" echo ") && text.contains(" icanon "), "{text}");
        // Every mode is switched off before the panic is reported.
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what:?} in {text:?}"));
        let panic = at("while drawing");
        for mode in ["1049", "2004", "1000"] {
            let (on, off) = (at(&format!("\x1b[?{mode}h")), at(&format!("\x1b[?{mode}l")));
            assert!(on < off && off < panic, "{mode}: {text:?}");
        }
        assert!(at("\x1b[?25l") < at("\x1b[?25h") && at("\x1b[?25h") < panic, "{text:?}");
        assert!(at(terminal_image::DELETE_IMAGE) < panic);
        // It is restored once, although the panic drops the screen later.
        assert_eq!(text.matches("\x1b[?1049l").count(), 1, "{text:?}");
    }

    #[test]
    fn colours_are_detected_from_environment() {
        let with = |pairs: &'static [(&str, &str)]| {
            move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(depth(with(&[("TERM", "xterm-256color")])), Depth::Indexed);
        assert_eq!(depth(with(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")])), Depth::Mono);
        assert_eq!(depth(with(&[("TERM", "xterm"), ("NO_COLOR", "")])), Depth::Ansi);
        assert_eq!(depth(with(&[("TERM", "xterm"), ("COLORTERM", "truecolor")])), Depth::True);
        assert_eq!(background(with(&[("COLORFGBG", "0;15")])), Some(Background::Light));
        assert_eq!(background(with(&[("COLORFGBG", "15;default;0")])), Some(Background::Dark));
        assert_eq!(background(with(&[])), None);
        assert!(!is_ascii_only(with(&[])) && !is_ascii_only(with(&[("LANG", "de_DE.UTF-8")])));
        assert!(is_ascii_only(with(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")])) && is_ascii_only(with(&[("LANG", "de_DE")])));
        assert!(is_ascii_only(with(&[("LC_CTYPE", "C.utf8"), ("NRA_ACCESSIBLE", "1")])));
    }
}
