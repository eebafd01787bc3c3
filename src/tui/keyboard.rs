//! The thread that reads terminal events, one at a time.
//!
//! It reads the next event only when the browser has handled the previous one and still owns the
//! terminal. Input meant for a pager or the shell is therefore never consumed.

use std::io;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use signal_hook::consts::SIGHUP;

use crate::event::Event;

/// Interval for checking whether reading may continue.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Timeout for the thread to stop. Longer than `POLL_INTERVAL`.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// The state of the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadMode {
    /// Not reading: another program may own the terminal.
    Paused,
    /// Reads the next event and blocks until it arrives.
    Blocking,
    /// Reads the next event, but can be interrupted: queued keys wait for a response that may start
    /// another program.
    Interruptible,
}

/// Reads an event within a timeout; `None` if there was none.
type Read = Box<dyn FnMut(Option<Duration>) -> io::Result<Option<Event>> + Send>;

/// Handle of the thread.
pub struct Keyboard {
    commands: Sender<(ReadMode, u64)>,
    idle: Receiver<()>,
    /// Number of events handled.
    received: u64,
    mode: ReadMode,
}

impl Keyboard {
    /// Starts the thread. It reads the first event.
    pub fn start(read: Read, events: &Sender<Event>) -> Self {
        let (commands, next) = unbounded();
        let (stopped, idle) = unbounded();
        let events = events.clone();
        thread::spawn(move || run(read, &events, &next, &stopped));
        Self { commands, idle, received: 0, mode: ReadMode::Blocking }
    }

    /// Records that an event was received from the thread.
    pub fn event_received(&mut self) {
        self.received += 1;
        self.mode = ReadMode::Paused;
    }

    /// Lets the thread read the next event. With `keys_wait`, it can be interrupted.
    pub fn resume(&mut self, keys_wait: bool) {
        let mode = if keys_wait { ReadMode::Interruptible } else { ReadMode::Blocking };
        if std::mem::replace(&mut self.mode, mode) != mode {
            // The thread ends when the terminal is gone.
            let _ = self.commands.send((mode, self.received));
        }
    }

    /// Stops the thread and waits until it has stopped. Does not wait if it blocks on the next
    /// event, because nothing takes over the terminal in this state.
    pub fn pause(&mut self) {
        let before = std::mem::replace(&mut self.mode, ReadMode::Paused);
        self.idle.try_iter().for_each(drop);
        if self.commands.send((ReadMode::Paused, self.received)).is_ok() && before != ReadMode::Blocking {
            let _ = self.idle.recv_timeout(STOP_TIMEOUT);
        }
    }
}

fn run(mut read: Read, events: &Sender<Event>, commands: &Receiver<(ReadMode, u64)>, idle: &Sender<()>) {
    let (mut command, mut sent) = ((ReadMode::Blocking, 0), 0);
    loop {
        // A command sent before the last event was received is out of date.
        let timeout = match command {
            (ReadMode::Blocking, received) if received == sent => None,
            (ReadMode::Interruptible, received) if received == sent => Some(POLL_INTERVAL),
            (mode, _) => {
                if mode == ReadMode::Paused && idle.send(()).is_err() {
                    return;
                }
                let Ok(next) = commands.recv() else { return };
                command = next;
                continue;
            }
        };
        match read(timeout) {
            Ok(None) => {}
            Ok(Some(event)) => {
                sent += 1;
                if events.send(event).is_err() {
                    return;
                }
            }
            // A lost terminal is treated like a hang-up.
            Err(_) => return drop(events.send(Event::Terminate(SIGHUP))),
        }
        command = commands.try_iter().last().unwrap_or(command);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::key::Key;

    const LONG: Duration = Duration::from_secs(60);

    /// Returns a keyboard, the sender of its input and the receiver of its events.
    fn begin() -> (Keyboard, Sender<Event>, Receiver<Event>) {
        let (typed, keys) = unbounded();
        let (events, read) = unbounded();
        let gone = |_| io::Error::other("gone");
        let source: Read = Box::new(move |timeout| match timeout {
            None => keys.recv().map(Some).map_err(|_| gone(())),
            Some(timeout) => Ok(keys.recv_timeout(timeout).ok()),
        });
        (Keyboard::start(source, &events), typed, read)
    }

    fn key(name: &str) -> Event {
        Event::Key(name.parse::<Key>().unwrap())
    }

    #[test]
    fn next_event_is_not_read_before_the_previous_is_handled() {
        let (mut keyboard, typed, read) = begin();
        typed.send(key("o")).unwrap();
        typed.send(key("x")).unwrap();
        assert_eq!(read.recv_timeout(LONG), Ok(key("o")));
        keyboard.event_received();
        keyboard.pause();
        assert!(read.recv_timeout(POLL_INTERVAL * 3).is_err());
        keyboard.resume(false);
        assert_eq!(read.recv_timeout(LONG), Ok(key("x")));
    }

    #[test]
    fn reading_is_interrupted_while_keys_are_queued() {
        let (mut keyboard, typed, read) = begin();
        typed.send(key("o")).unwrap();
        assert_eq!(read.recv_timeout(LONG), Ok(key("o")));
        keyboard.event_received();
        // The typed key waits for rows. Others may follow, such as Escape.
        keyboard.resume(true);
        typed.send(key("j")).unwrap();
        assert_eq!(read.recv_timeout(LONG), Ok(key("j")));
        keyboard.event_received();
        keyboard.resume(true);
        // The rows have arrived and the pager starts: its keys are not read.
        keyboard.pause();
        typed.send(key("q")).unwrap();
        assert!(read.recv_timeout(POLL_INTERVAL * 3).is_err());
        // A repeated command has no effect.
        keyboard.resume(false);
        keyboard.resume(false);
        assert_eq!(read.recv_timeout(LONG), Ok(key("q")));
        typed.send(key("z")).unwrap();
        assert!(read.recv_timeout(POLL_INTERVAL * 3).is_err());
    }

    #[test]
    fn pause_does_not_wait_for_a_blocked_read() {
        let (mut keyboard, typed, read) = begin();
        let began = Instant::now();
        keyboard.pause();
        assert!(began.elapsed() < STOP_TIMEOUT);
        // The next key is delivered, and nothing after it.
        typed.send(key("j")).unwrap();
        typed.send(key("k")).unwrap();
        assert_eq!(read.recv_timeout(LONG), Ok(key("j")));
        assert!(read.recv_timeout(POLL_INTERVAL * 3).is_err());
    }

    #[test]
    fn key_pressed_during_pause_is_not_lost() {
        let (mut keyboard, typed, read) = begin();
        typed.send(key("o")).unwrap();
        assert_eq!(read.recv_timeout(LONG), Ok(key("o")));
        keyboard.event_received();
        keyboard.resume(true);
        typed.send(key("j")).unwrap();
        // It may or may not have been read: it is delivered, and nothing after it.
        keyboard.pause();
        typed.send(key("k")).unwrap();
        keyboard.resume(false);
        assert_eq!(read.recv_timeout(LONG), Ok(key("j")));
        assert!(read.recv_timeout(POLL_INTERVAL * 3).is_err());
        keyboard.event_received();
        keyboard.resume(false);
        assert_eq!(read.recv_timeout(LONG), Ok(key("k")));
    }
}
