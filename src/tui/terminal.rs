//! The terminal in raw mode, given back as it was: at the end, after a panic, when the program is suspended.

use std::io::{self, Stdout, Write, stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

use base64::Engine as _;
use crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use terminal_colorsaurus::{QueryOptions, ThemeMode, theme_mode};

use crate::tui::theme::{Depth, Ground};

/// How long a terminal may take to tell its background: one that does not know the question says so at once, but the line may be slow.
const ANSWER: Duration = Duration::from_millis(500);

/// The terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while the browser has it.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    mouse: bool,
}

impl Screen {
    /// Takes the terminal. Call it from the thread that draws: a panic there gives the terminal back before it is told.
    ///
    /// # Errors
    ///
    /// What the system says when it is not one.
    pub fn take(mouse: bool) -> io::Result<Self> {
        install_hook(thread::current().id());
        let terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        let screen = Self { terminal, mouse };
        screen.enter()?;
        Ok(screen)
    }

    /// Returns what ratatui draws on.
    pub fn terminal(&mut self) -> &mut Terminal<CrosstermBackend<Stdout>> {
        &mut self.terminal
    }

    /// Gives the terminal back while `other` runs, then takes it again.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn lend<T>(&mut self, other: impl FnOnce() -> T) -> io::Result<T> {
        give_back();
        let result = other();
        self.enter()?;
        self.terminal.clear()?;
        Ok(result)
    }

    /// Puts text into the clipboard by the terminal's own means (OSC 52), which work over ssh, too.
    ///
    /// # Errors
    ///
    /// What the system says. A terminal that does not know the sequence ignores it.
    pub fn copy(&self, text: &[u8]) -> io::Result<()> {
        let text = base64::engine::general_purpose::STANDARD.encode(text);
        let mut out = stdout();
        write!(out, "\x1b]52;c;{text}\x07")?;
        out.flush()
    }

    fn enter(&self) -> io::Result<()> {
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste, cursor::Hide)?;
        if self.mouse {
            execute!(stdout(), EnableMouseCapture)?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back if it is ours. Failures are ignored: nobody could do anything about them.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
        let _ = stdout().flush();
    }
}

/// Gives the terminal back before a panic of the drawing thread is told. Those of other threads are told by whoever waits for them: words
/// between the lines of the screen would help nobody.
fn install_hook(drawing: ThreadId) {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() == drawing {
            give_back();
        } else if TAKEN.load(Ordering::SeqCst) {
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

/// Says whether the terminal is to be given nothing but ASCII: another character set is in use, or `NRA_ACCESSIBLE=1` asks for it. Where no
/// character set is named at all it is taken for UTF-8, as it is in most containers.
pub fn is_plain(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set);
    let utf8 = |locale: &String| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    };
    locale.is_some_and(|locale| !utf8(&locale)) || set(&"NRA_ACCESSIBLE").is_some_and(|value| value != "0")
}

/// Asks the terminal which background it has (OSC 11). `None` when it does not tell, or when keys wait that the answer would be mixed with. Call it
/// while the terminal is taken and nobody reads from it.
pub fn ask_ground() -> Option<Ground> {
    if crossterm::event::poll(Duration::ZERO).unwrap_or(true) {
        return None;
    }
    let mut options = QueryOptions::default();
    options.timeout = ANSWER;
    match theme_mode(options).ok()? {
        ThemeMode::Dark => Some(Ground::Dark),
        ThemeMode::Light => Some(Ground::Light),
    }
}

/// Says which background the terminal has, if its environment tells.
pub fn ground(variable: impl Fn(&str) -> Option<String>) -> Option<Ground> {
    // Such as `15;0`: the last number is the background; 7 and 9 to 15 are light.
    let colors = variable("COLORFGBG").unwrap_or_default();
    let background = colors.rsplit(';').next().and_then(|number| number.parse::<u8>().ok());
    let light = |number| number == 7 || (9..=15).contains(&number);
    background.map(|number| if light(number) { Ground::Light } else { Ground::Dark })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let hook = panic::take_hook();
        let drawing = thread::spawn(|| {
            install_hook(thread::current().id());
            TAKEN.store(true, Ordering::SeqCst);
            // That of another thread leaves it alone: the drawing one will tell of it.
            assert!(thread::spawn(|| panic!("elsewhere")).join().is_err());
            assert!(TAKEN.load(Ordering::SeqCst));
            panic!("while drawing");
        });
        assert!(drawing.join().is_err());
        assert!(!TAKEN.load(Ordering::SeqCst));
        panic::set_hook(hook);
    }

    #[test]
    fn colours_are_told_by_the_environment() {
        let with = |pairs: &'static [(&str, &str)]| {
            move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(depth(with(&[("TERM", "xterm-256color")])), Depth::Indexed);
        assert_eq!(depth(with(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")])), Depth::Mono);
        assert_eq!(depth(with(&[("TERM", "xterm"), ("NO_COLOR", "")])), Depth::Ansi);
        assert_eq!(depth(with(&[("TERM", "xterm"), ("COLORTERM", "truecolor")])), Depth::True);
        assert_eq!(ground(with(&[("COLORFGBG", "0;15")])), Some(Ground::Light));
        assert_eq!(ground(with(&[("COLORFGBG", "15;default;0")])), Some(Ground::Dark));
        assert_eq!(ground(with(&[])), None);
        assert!(!is_plain(with(&[])) && !is_plain(with(&[("LANG", "de_DE.UTF-8")])));
        assert!(is_plain(with(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")])) && is_plain(with(&[("LANG", "de_DE")])));
        assert!(is_plain(with(&[("LC_CTYPE", "C.utf8"), ("NRA_ACCESSIBLE", "1")])));
    }
}
