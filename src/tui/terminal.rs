//! The terminal in raw mode, given back as it was: at the end, after a panic, when the program is
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

/// Presses, releases and drags are told, in numbers; mere movements, one event a cell, are not
/// (`?1003`).
const MOUSE: &str = "\x1b[?1000h\x1b[?1002h\x1b[?1006h";

/// Held by whoever takes the terminal, gives it back, or sends it something: nothing comes behind
/// what gives it back.
static SENDING: Mutex<()> = Mutex::new(());
/// The terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// It has been given back for good.
static ABANDONED: AtomicBool = AtomicBool::new(false);
/// It has been sent a picture that it keeps until it is told to forget it.
static KEEPS: AtomicBool = AtomicBool::new(false);

/// It is lent to another program, which the keys of the terminal are for: interrupts, too.
static LENT: AtomicBool = AtomicBool::new(false);

/// Says whether another program has the terminal at this moment.
pub fn is_lent() -> bool {
    LENT.load(Ordering::SeqCst)
}

/// Says whether the browser has it.
pub fn is_taken() -> bool {
    TAKEN.load(Ordering::SeqCst)
}

fn sending() -> MutexGuard<'static, ()> {
    SENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The only way to the terminal while the browser runs: what is written goes out as a whole, and
/// nowhere when the terminal is not ours.
#[derive(Debug, Default)]
pub struct Out(Vec<u8>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = mem::take(&mut self.0);
        let _sending = sending();
        if !is_taken() || ABANDONED.load(Ordering::SeqCst) {
            return Ok(());
        }
        stdout().write_all(&bytes)?;
        stdout().flush()
    }
}

/// The terminal while the browser has it.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Out>>,
    mouse: bool,
}

impl Screen {
    /// Takes the terminal. Call it from the thread that draws: a panic there gives the terminal
    /// back before it is told.
    ///
    /// # Errors
    ///
    /// What the system says when it is not one.
    pub fn take(mouse: bool) -> io::Result<Self> {
        install_hook(thread::current().id());
        let terminal = Terminal::new(CrosstermBackend::new(Out::default()))?;
        let screen = Self { terminal, mouse };
        screen.enter()?;
        Ok(screen)
    }

    /// Returns what ratatui draws on.
    pub fn terminal(&mut self) -> &mut Terminal<CrosstermBackend<Out>> {
        &mut self.terminal
    }

    /// Gives the terminal back while `other` runs, then takes it again.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn lend<T>(&mut self, other: impl FnOnce() -> T) -> io::Result<T> {
        give_back();
        LENT.store(true, Ordering::SeqCst);
        let result = other();
        LENT.store(false, Ordering::SeqCst);
        self.enter()?;
        self.clear()?;
        Ok(result)
    }

    /// Gives the terminal back until [`Screen::retake`]. What is drawn meanwhile goes nowhere.
    pub fn release(&mut self) {
        give_back();
    }

    /// Takes the terminal, whatever has become of it while the process was stopped.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn retake(&mut self) -> io::Result<()> {
        // What is raw already is not made raw again, and whoever had the line may have changed
        // that.
        disable_raw_mode()?;
        self.enter()?;
        self.clear()
    }

    /// Clears the screen, so that the next drawing sends every cell. Nothing is asked: an answer
    /// would go to whoever reads the keys.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn clear(&mut self) -> io::Result<()> {
        // `Terminal::clear` would ask for the place of the cursor.
        let area = self.terminal.size()?.into();
        self.terminal.resize(area)
    }

    /// Puts text into the clipboard by the terminal's own means (OSC 52), which work over ssh, too.
    ///
    /// # Errors
    ///
    /// What the system says. A terminal that does not know the sequence ignores it.
    pub fn copy(&mut self, text: &[u8]) -> io::Result<()> {
        let text = base64::engine::general_purpose::STANDARD.encode(text);
        execute!(self.terminal.backend_mut(), Print(format!("\x1b]52;c;{text}\x07")))
    }

    /// Takes note of how pictures are drawn.
    pub fn draws(&self, protocol: Protocol) {
        KEEPS.store(protocol == Protocol::Kitty, Ordering::SeqCst);
    }

    fn enter(&self) -> io::Result<()> {
        let _sending = sending();
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
        give_back();
    }
}

/// Gives the terminal back if it is ours. Failures are ignored: nobody could do anything about
/// them.
fn give_back() {
    let _sending = sending();
    if TAKEN.swap(false, Ordering::SeqCst) {
        if KEEPS.load(Ordering::SeqCst) {
            let _ = stdout().write_all(terminal_image::DELETE_IMAGE.as_bytes());
        }
        let _ = execute!(stdout(), DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
        let _ = stdout().flush();
    }
}

/// Gives the terminal back for good from another thread than the one that draws, which may be
/// stuck: within a moment, also if the terminal takes no more characters.
pub fn abandon() {
    ABANDONED.store(true, Ordering::SeqCst);
    let (done, is_done) = bounded(1);
    thread::spawn(move || {
        give_back();
        let _ = done.send(());
    });
    let _ = is_done.recv_timeout(Duration::from_millis(500));
    // Lines are echoed again in any case.
    let _ = disable_raw_mode();
}

/// Gives the terminal back before a panic of the drawing thread is told. Those of other threads are
/// told by whoever waits for them: words between the lines of the screen would help nobody.
fn install_hook(drawing: ThreadId) {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() == drawing {
            give_back();
        } else if is_taken() {
            return;
        }
        before(info);
    }));
}

/// Says how many colours the terminal shows, by its environment.
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

/// Says whether the terminal is to be given nothing but ASCII: another character set is in use, or
/// `NRA_ACCESSIBLE=1` asks for it. Where no character set is named at all it is taken for UTF-8, as
/// it is in most containers.
pub fn is_plain(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set);
    let utf8 = |locale: &String| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    };
    locale.is_some_and(|locale| !utf8(&locale)) || set(&"NRA_ACCESSIBLE").is_some_and(|value| value != "0")
}

/// Returns columns and rows of a cell, pixels, if the terminal tells.
pub fn font() -> Option<(u16, u16)> {
    let size = crossterm::terminal::window_size().ok()?;
    let font = (size.width.checked_div(size.columns)?, size.height.checked_div(size.rows)?);
    (font.0 > 0 && font.1 > 0).then_some(font)
}

/// Says which background the terminal has, if its environment tells.
pub fn ground(variable: impl Fn(&str) -> Option<String>) -> Option<Background> {
    // Such as `15;0`: the last number is the background; 7 and 9 to 15 are light.
    let colors = variable("COLORFGBG").unwrap_or_default();
    let background = colors.rsplit(';').next().and_then(|number| number.parse::<u8>().ok());
    let light = |number| number == 7 || (9..=15).contains(&number);
    background.map(|number| if light(number) { Background::Light } else { Background::Dark })
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
            // That of another thread leaves it alone: the drawing one will tell of it.
            assert!(thread::spawn(|| panic!("elsewhere")).join().is_err());
            assert!(is_taken());
            panic!("while drawing");
        });
        assert!(drawing.join().is_err());
        assert!(!is_taken());
        panic::set_hook(hook);
    }

    /// Set for the process that a test runs on a terminal of its own.
    #[cfg(target_os = "linux")]
    const INSIDE: &str = "NRA_TEST_ON_A_TERMINAL";

    /// Runs a test in a process of its own on a pseudo-terminal, between two looks at the modes of
    /// the line; returns what that was sent.
    #[cfg(target_os = "linux")]
    fn on_a_terminal(name: &str) -> String {
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
            screen.copy(b"behind").unwrap();
            screen
                .terminal()
                .draw(|frame| frame.buffer_mut().set_string(0, 0, "drawn", ratatui::style::Style::new()))
                .map(drop)
                .unwrap();
            screen.retake().unwrap();
            return;
        }
        let text = on_a_terminal("nothing_is_written_after_restore");
        let sent = |what: &str| text.contains(&base64::engine::general_purpose::STANDARD.encode(what));
        assert!(sent("before") && sent("again") && !sent("released") && !sent("behind"), "{text:?}");
        assert!(!text.contains("drawn"), "{text:?}");
        assert_eq!((text.matches("\x1b[?1049h").count(), text.matches("\x1b[?1049l").count()), (2, 2), "{text:?}");
        // A movement of the mouse is no event.
        assert!(text.contains("\x1b[?1002h") && !text.contains("\x1b[?1003h"), "{text:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn panic_leaves_terminal_unchanged() {
        if std::env::var_os(INSIDE).is_some() {
            let screen = Screen::take(true).unwrap();
            screen.draws(Protocol::Kitty);
            panic!("while drawing");
        }
        let text = on_a_terminal("panic_leaves_terminal_unchanged");
        let modes: Vec<&str> =
            text.lines().map(str::trim).filter(|line| line.len() > 60 && line.matches(':').count() > 20).collect();
        assert!(modes.len() == 2 && modes[0] == modes[1], "{text}");
        assert!(text.contains(" echo ") && text.contains(" icanon "), "{text}");
        // What was switched on is switched off, before the panic is told.
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what:?} in {text:?}"));
        let told = at("while drawing");
        for mode in ["1049", "2004", "1000"] {
            let (on, off) = (at(&format!("\x1b[?{mode}h")), at(&format!("\x1b[?{mode}l")));
            assert!(on < off && off < told, "{mode}: {text:?}");
        }
        assert!(at("\x1b[?25l") < at("\x1b[?25h") && at("\x1b[?25h") < told, "{text:?}");
        assert!(at(terminal_image::DELETE_IMAGE) < told);
        // Given back once: the guard has nothing left to do when the panic passes it.
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
        assert_eq!(ground(with(&[("COLORFGBG", "0;15")])), Some(Background::Light));
        assert_eq!(ground(with(&[("COLORFGBG", "15;default;0")])), Some(Background::Dark));
        assert_eq!(ground(with(&[])), None);
        assert!(!is_plain(with(&[])) && !is_plain(with(&[("LANG", "de_DE.UTF-8")])));
        assert!(is_plain(with(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")])) && is_plain(with(&[("LANG", "de_DE")])));
        assert!(is_plain(with(&[("LC_CTYPE", "C.utf8"), ("NRA_ACCESSIBLE", "1")])));
    }
}
