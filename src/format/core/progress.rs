//! How long operations report progress and warnings, and how they are cancelled.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::path::Quoted;

/// A progress counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Counter {
    /// Finished entries.
    Entries = 0,
    /// Finished content bytes.
    Bytes = 1,
    /// Bytes read from an input whose content length is unknown.
    Input = 2,
}

/// How serious a warning is. The greatest severity of all warnings decides the exit code of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; the result is complete. Exit code 0.
    Remark,
    /// The result lacks something: an entry, a mode, a time. Exit code 3.
    Degraded,
    /// The archive is damaged, and the result lacks what the damage affects. Exit code 4.
    Damage,
}

/// A problem that did not end the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// How serious it is.
    pub severity: Severity,
    /// The file or entry concerned; empty for the archive as a whole.
    pub path: Vec<u8>,
    /// What happened, lower case, without the path: `permission denied`, `set-uid bit not restored`.
    pub message: String,
}

impl Warning {
    /// Returns a warning of this severity.
    pub fn new(severity: Severity, path: impl Into<Vec<u8>>, message: impl Into<String>) -> Self {
        Self { severity, path: path.into(), message: message.into() }
    }

    /// Returns a warning of severity [`Severity::Remark`].
    pub fn remark(path: impl Into<Vec<u8>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Remark, path, message)
    }

    /// Returns a warning of severity [`Severity::Degraded`].
    pub fn degraded(path: impl Into<Vec<u8>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Degraded, path, message)
    }

    /// Returns a warning of severity [`Severity::Damage`].
    pub fn damage(path: impl Into<Vec<u8>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Damage, path, message)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", Quoted::new(&self.path), self.message) }
    }
}

/// Receives reports of a long operation. Called from several threads; must not block.
pub trait Monitor: Send + Sync {
    /// Adds to a counter.
    fn add(&self, _counter: Counter, _amount: u64) {}
    /// Raises the expected total of a counter.
    fn expect(&self, _counter: Counter, _amount: u64) {}
    /// Reports the current file or entry.
    fn current(&self, _path: &[u8]) {}
    /// Reports a warning.
    fn warn(&self, warning: Warning);
    /// Returns whether the operation should stop soon.
    fn cancelled(&self) -> bool {
        false
    }
    /// Fails if the operation should stop.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`] if [`Monitor::cancelled`] returns true.
    fn check(&self) -> Result<()> {
        if self.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// A monitor that records counts and warnings, for tests and for callers without a screen.
#[derive(Debug, Default)]
pub struct Recorder {
    counters: [AtomicU64; 3],
    warnings: Mutex<Vec<Warning>>,
    cancel: AtomicBool,
}

impl Recorder {
    /// Returns the value of a counter.
    pub fn count(&self, counter: Counter) -> u64 {
        self.counters[counter as usize].load(Ordering::Relaxed)
    }

    /// Returns the warnings so far and clears them.
    pub fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Requests the operation to stop.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}

impl Monitor for Recorder {
    fn add(&self, counter: Counter, amount: u64) {
        self.counters[counter as usize].fetch_add(amount, Ordering::Relaxed);
    }
    fn warn(&self, warning: Warning) {
        self.warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(warning);
    }
    fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}
