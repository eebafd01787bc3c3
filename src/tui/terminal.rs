//! The terminal in raw mode, given back as it was: at the end, after a panic, when the program is suspended.

use std::io::{self, Stdout, Write, stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

use base64::Engine as _;
use crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use crate::tui::theme::{Depth, Ground};

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

/// Says which background the terminal has, as far as its environment tells.
pub fn ground(variable: impl Fn(&str) -> Option<String>) -> Ground {
    // Such as `15;0`: the last number is the background; 7 and 9 to 15 are light.
    let colors = variable("COLORFGBG").unwrap_or_default();
    let background = colors.rsplit(';').next().and_then(|number| number.parse::<u8>().ok());
    if background.is_some_and(|number| number == 7 || (9..=15).contains(&number)) { Ground::Light } else { Ground::Dark }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_told_by_the_environment() {
        let with = |pairs: &'static [(&str, &str)]| {
            move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(depth(with(&[("TERM", "xterm-256color")])), Depth::Indexed);
        assert_eq!(depth(with(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")])), Depth::Mono);
        assert_eq!(depth(with(&[("TERM", "xterm"), ("NO_COLOR", "")])), Depth::Ansi);
        assert_eq!(depth(with(&[("TERM", "xterm"), ("COLORTERM", "truecolor")])), Depth::True);
        assert_eq!(ground(with(&[("COLORFGBG", "0;15")])), Ground::Light);
        assert_eq!(ground(with(&[("COLORFGBG", "15;default;0")])), Ground::Dark);
        assert_eq!(ground(with(&[])), Ground::Dark);
    }
}
