//! Signals: exit, suspend, resume.

use std::mem;
use std::thread;

use crossbeam_channel::Sender;
use rustix::process::{getpgrp, getppid, getsid};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

use crate::event::Event;
use crate::terminal;

/// Starts the thread that handles signals. The first signal to exit becomes an event. The second
/// one exits at once, after `clear`. `pass` discards an interrupt that was for another program.
pub fn watch(events: &Sender<Event>, pass: fn(), clear: impl Fn() + Send + 'static) -> std::io::Result<Handle> {
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT])?;
    let handle = signals.handle();
    let events = events.clone();
    thread::spawn(move || {
        let mut exiting = false;
        for signal in signals.forever() {
            let event = match signal {
                // Typed while a pager or an editor has the terminal, so meant for it.
                SIGINT | SIGQUIT if terminal::is_lent() => {
                    pass();
                    continue;
                }
                SIGTSTP if terminal::is_taken() => Event::Suspended,
                // There is nothing to restore.
                SIGTSTP => {
                    stop();
                    continue;
                }
                // The other program keeps the terminal.
                SIGCONT if terminal::is_lent() => continue,
                SIGCONT => Event::Continued,
                // An editor needs its copy until it exits.
                _ if mem::replace(&mut exiting, true) && !terminal::is_lent() => {
                    terminal::abandon();
                    clear();
                    std::process::exit(128 + signal);
                }
                _ => Event::Terminate(signal),
            };
            if events.send(event).is_err() {
                break;
            }
        }
    });
    Ok(handle)
}

/// Returns whether a shell can resume the process: one in the same session and another process
/// group. Without one, as in `xterm -e nra`, the system also ignores ctrl-z.
pub fn is_job() -> bool {
    let session = getsid(None).ok();
    session != Some(getpgrp()) && session == getppid().and_then(|parent| getsid(Some(parent)).ok())
}

/// Stops the process until the shell resumes it.
pub fn stop() {
    if is_job() {
        // Fails for unknown signals only.
        let _ = emulate_default_handler(SIGTSTP);
    }
}
