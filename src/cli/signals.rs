//! Interrupts: the first one requests a clean stop, the second one ends the process.
//!
//! Outside operations that can stop cleanly, the first one ends the process.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::low_level::unregister;
use signal_hook::{SigId, flag};

use crate::exit_code::Code;

/// An interrupt ends the process immediately.
static EXIT_IMMEDIATELY: AtomicBool = AtomicBool::new(true);
/// Exit code of the signal that requested a stop; 0 for none.
static STOP: AtomicUsize = AtomicUsize::new(0);
/// A status line was requested.
static STATUS: AtomicBool = AtomicBool::new(false);
/// A file exceeded the size limit of the system. The write fails, too.
static FILE_TOO_LARGE: AtomicBool = AtomicBool::new(false);
/// Handlers that let the second interrupt end the process.
static RAISERS: Mutex<Vec<SigId>> = Mutex::new(Vec::new());
/// Number of running operations that can stop cleanly.
static CLEAN: Mutex<usize> = Mutex::new(0);

/// Installs the handlers. If that fails, signals end the process in the default way.
pub fn install() {
    for (signal, code) in [(SIGINT, Code::Interrupted), (SIGTERM, Code::Terminated)] {
        // The shutdown handler must read the flag before the same signal sets it.
        let _ = flag::register_conditional_shutdown(signal, i32::from(code.number()), &EXIT_IMMEDIATELY);
        let _ = flag::register_usize(signal, &STOP, usize::from(code.number()));
    }
    register_raisers();
    let _ = flag::register(SIGUSR1, &STATUS);
    // Exceeding the file size limit is an error like a full disk and must not end the process.
    let _ = flag::register(SIGXFSZ, &FILE_TOO_LARGE);
}

/// Makes each interrupt set the flag that lets the next one end the process.
fn register_raisers() {
    let raisers = [SIGINT, SIGTERM].into_iter().filter_map(|signal| flag::register(signal, &EXIT_IMMEDIATELY).ok());
    RAISERS.lock().unwrap_or_else(PoisonError::into_inner).extend(raisers);
}

/// While this exists, no interrupt ends the process: the owner handles signals and cleans up first.
#[derive(Debug)]
pub struct SignalsHandled(CleanStop);

impl SignalsHandled {
    /// Starts handling interrupts.
    pub fn begin() -> Self {
        for raiser in RAISERS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            unregister(raiser);
        }
        Self(CleanStop::begin())
    }
}

impl Drop for SignalsHandled {
    fn drop(&mut self) {
        register_raisers();
        EXIT_IMMEDIATELY.fetch_or(stopped(), Ordering::SeqCst);
    }
}

/// While this exists, the first interrupt only requests a stop.
#[derive(Debug)]
pub struct CleanStop(());

impl CleanStop {
    /// Starts an operation that checks [`stopped`] often.
    pub fn begin() -> Self {
        *CLEAN.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        if !stopped() {
            EXIT_IMMEDIATELY.store(false, Ordering::SeqCst);
        }
        Self(())
    }
}

impl Drop for CleanStop {
    fn drop(&mut self) {
        let mut clean = CLEAN.lock().unwrap_or_else(PoisonError::into_inner);
        *clean -= 1;
        if *clean == 0 {
            EXIT_IMMEDIATELY.store(true, Ordering::SeqCst);
        }
    }
}

/// Returns whether an interrupt has requested a stop.
pub fn stopped() -> bool {
    STOP.load(Ordering::Relaxed) != 0
}

/// Discards an interrupt that was meant for another program in the terminal. Does nothing outside
/// operations that can stop cleanly.
pub fn discard_interrupt() {
    let clean = CLEAN.lock().unwrap_or_else(PoisonError::into_inner);
    let interrupted = usize::from(Code::Interrupted.number());
    if *clean > 0 && STOP.compare_exchange(interrupted, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        EXIT_IMMEDIATELY.store(false, Ordering::SeqCst);
    }
}

/// Returns the exit code for the signal that requested the stop.
pub fn code() -> Code {
    if STOP.load(Ordering::Relaxed) == usize::from(Code::Terminated.number()) { Code::Terminated } else { Code::Interrupted }
}

/// Returns whether a status line was requested since the last call.
pub fn take_status_request() -> bool {
    STATUS.swap(false, Ordering::Relaxed)
}
