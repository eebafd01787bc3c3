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

/// Starts the thread that takes signals. The second one that asks to end does not wait for anything
/// but `clear`. `pass` forgets an interrupt that was for another program.
///
/// # Errors
///
/// What the system says.
pub fn watch(events: &Sender<Event>, pass: fn(), clear: impl Fn() + Send + 'static) -> std::io::Result<Handle> {
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT])?;
    let handle = signals.handle();
    let events = events.clone();
    thread::spawn(move || {
        let mut asked = false;
        for signal in signals.forever() {
            let event = match signal {
                // Typed while a pager or an editor has the terminal, it is for that.
                SIGINT | SIGQUIT if terminal::is_lent() => {
                    pass();
                    continue;
                }
                SIGTSTP if terminal::is_taken() => Event::Suspended,
                // There is nothing to give back.
                SIGTSTP => {
                    stop();
                    continue;
                }
                // Whoever has the terminal goes on with it.
                SIGCONT if terminal::is_lent() => continue,
                SIGCONT => Event::Continued,
                // The copy that an editor has goes when that ends.
                _ if mem::replace(&mut asked, true) && !terminal::is_lent() => {
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

/// Says whether somebody is there to go on with the process when it stops: a shell in the same
/// session, in another group. Elsewhere, as in `xterm -e nra`, the system ignores a stop that is
/// typed, too.
pub fn is_job() -> bool {
    let session = getsid(None).ok();
    session != Some(getpgrp()) && session == getppid().and_then(|parent| getsid(Some(parent)).ok())
}

/// Stops the process until the shell goes on with it.
pub fn stop() {
    if is_job() {
        // It knows the signal.
        let _ = emulate_default_handler(SIGTSTP);
    }
}
