//! Interrupts: the first one asks the work to stop, the second one ends the process.
//!
//! Outside of work that can stop cleanly already the first one ends it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::low_level::unregister;
use signal_hook::{SigId, flag};

use crate::exit_code::Code;

/// An interrupt ends the process at once.
static AT_ONCE: AtomicBool = AtomicBool::new(true);
/// Exit code of the signal that asked to stop; 0 = none did.
static STOP: AtomicUsize = AtomicUsize::new(0);
/// A status line was asked for.
static STATUS: AtomicBool = AtomicBool::new(false);
/// A file went beyond what the system allows; the write that did so fails, too.
static TOO_LONG: AtomicBool = AtomicBool::new(false);
/// What lets the interrupt behind the first one end the process.
static RAISERS: Mutex<Vec<SigId>> = Mutex::new(Vec::new());
/// How many pieces of work that stop cleanly are under way.
static CLEAN: Mutex<usize> = Mutex::new(0);

/// Installs the handlers. A system that refuses them keeps its own way to end a process.
pub fn install() {
    for (signal, code) in [(SIGINT, Code::Interrupted), (SIGTERM, Code::Terminated)] {
        // Order matters: the shutdown looks at the flag before the same signal raises it.
        let _ = flag::register_conditional_shutdown(signal, i32::from(code.number()), &AT_ONCE);
        let _ = flag::register_usize(signal, &STOP, usize::from(code.number()));
    }
    raise();
    let _ = flag::register(SIGUSR1, &STATUS);
    // A limit on the length of files shall be an error like a full disk, not the end of the process.
    let _ = flag::register(SIGXFSZ, &TOO_LONG);
}

/// Lets an interrupt raise the flag that lets the next one end the process.
fn raise() {
    let raisers = [SIGINT, SIGTERM].into_iter().filter_map(|signal| flag::register(signal, &AT_ONCE).ok());
    RAISERS.lock().unwrap_or_else(PoisonError::into_inner).extend(raisers);
}

/// While it lives, no interrupt ends the process by itself: whoever has it takes them, and gives back what has to be given back first.
#[derive(Debug)]
pub struct Attended(CleanStop);

impl Attended {
    /// Begins to take interrupts.
    pub fn begin() -> Self {
        for raiser in RAISERS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            unregister(raiser);
        }
        Self(CleanStop::begin())
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        raise();
        AT_ONCE.fetch_or(stopped(), Ordering::SeqCst);
    }
}

/// While it lives, the first interrupt only asks to stop.
#[derive(Debug)]
pub struct CleanStop(());

impl CleanStop {
    /// Begins work that looks at [`stopped`] often.
    pub fn begin() -> Self {
        *CLEAN.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        if !stopped() {
            AT_ONCE.store(false, Ordering::SeqCst);
        }
        Self(())
    }
}

impl Drop for CleanStop {
    fn drop(&mut self) {
        let mut clean = CLEAN.lock().unwrap_or_else(PoisonError::into_inner);
        *clean -= 1;
        if *clean == 0 {
            AT_ONCE.store(true, Ordering::SeqCst);
        }
    }
}

/// Says whether an interrupt has asked to stop.
pub fn stopped() -> bool {
    STOP.load(Ordering::Relaxed) != 0
}

/// Forgets an interrupt that was for another program, which has the terminal. Before work that stops cleanly, and after it, nothing is forgotten.
pub fn pass() {
    let clean = CLEAN.lock().unwrap_or_else(PoisonError::into_inner);
    let interrupted = usize::from(Code::Interrupted.number());
    if *clean > 0 && STOP.compare_exchange(interrupted, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        AT_ONCE.store(false, Ordering::SeqCst);
    }
}

/// Returns the exit code that belongs to the signal that asked to stop.
pub fn code() -> Code {
    if STOP.load(Ordering::Relaxed) == usize::from(Code::Terminated.number()) { Code::Terminated } else { Code::Interrupted }
}

/// Says whether a status line was asked for since the last call.
pub fn take_status_request() -> bool {
    STATUS.swap(false, Ordering::Relaxed)
}
