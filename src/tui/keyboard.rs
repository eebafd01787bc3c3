//! The thread that reads keys. It reads the next event only after the previous one has been
//! processed, so that it never reads keys meant for another program.

use std::io;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use signal_hook::consts::SIGHUP;

use crate::event::Event;

/// Between two looks whether it is still to read, when that may end at any moment.
const LOOK: Duration = Duration::from_millis(10);
/// Longer than it takes the thread to look.
const PATIENCE: Duration = Duration::from_millis(500);

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Nothing: the terminal may be another program's.
    Nothing,
    /// The next event, however long it takes.
    Next,
    /// The next event, unless it is called off: keys wait for an answer, which may lead to another
    /// program.
    Meanwhile,
}

/// Reads an event, for so long at most; `None` if none came.
type Read = Box<dyn FnMut(Option<Duration>) -> io::Result<Option<Event>> + Send>;

/// The thread, for those who take what it reads.
pub struct Keyboard {
    orders: Sender<(Reading, u64)>,
    idle: Receiver<()>,
    /// Events that have been taken.
    taken: u64,
    reading: Reading,
}

impl Keyboard {
    /// Starts the thread. It reads the first event.
    pub fn start(read: Read, events: &Sender<Event>) -> Self {
        let (orders, next) = unbounded();
        let (told, idle) = unbounded();
        let events = events.clone();
        thread::spawn(move || run(read, &events, &next, &told));
        Self { orders, idle, taken: 0, reading: Reading::Next }
    }

    /// Takes note that an event has been taken, which it has read.
    pub fn event_processed(&mut self) {
        self.taken += 1;
        self.reading = Reading::Nothing;
    }

    /// Lets it read on; while `keys_wait`, so that it can be called off.
    pub fn go_on(&mut self, keys_wait: bool) {
        let reading = if keys_wait { Reading::Meanwhile } else { Reading::Next };
        if std::mem::replace(&mut self.reading, reading) != reading {
            // The thread is gone when the terminal is.
            let _ = self.orders.send((reading, self.taken));
        }
    }

    /// Calls it off and waits until it reads nothing, unless it waits for a key however long that
    /// takes: nothing takes it from there.
    pub fn rest(&mut self) {
        let before = std::mem::replace(&mut self.reading, Reading::Nothing);
        self.idle.try_iter().for_each(drop);
        if self.orders.send((Reading::Nothing, self.taken)).is_ok() && before != Reading::Next {
            let _ = self.idle.recv_timeout(PATIENCE);
        }
    }
}

fn run(mut read: Read, events: &Sender<Event>, orders: &Receiver<(Reading, u64)>, idle: &Sender<()>) {
    let (mut order, mut sent) = ((Reading::Next, 0), 0);
    loop {
        // An order from before the last event was taken says nothing about what that leads to.
        let patience = match order {
            (Reading::Next, taken) if taken == sent => None,
            (Reading::Meanwhile, taken) if taken == sent => Some(LOOK),
            (reading, _) => {
                if reading == Reading::Nothing && idle.send(()).is_err() {
                    return;
                }
                let Ok(next) = orders.recv() else { return };
                order = next;
                continue;
            }
        };
        match read(patience) {
            Ok(None) => {}
            Ok(Some(event)) => {
                sent += 1;
                if events.send(event).is_err() {
                    return;
                }
            }
            // A terminal that is gone is as good as the word that it is.
            Err(_) => return drop(events.send(Event::Terminate(SIGHUP))),
        }
        order = orders.try_iter().last().unwrap_or(order);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::key::Key;

    const LONG: Duration = Duration::from_secs(60);

    /// Returns a keyboard, where keys are put in, and where they come out.
    fn begin() -> (Keyboard, Sender<Event>, Receiver<Event>) {
        let (typed, keys) = unbounded();
        let (events, read) = unbounded();
        let gone = |_| io::Error::other("gone");
        let source: Read = Box::new(move |patience| match patience {
            None => keys.recv().map(Some).map_err(|_| gone(())),
            Some(patience) => Ok(keys.recv_timeout(patience).ok()),
        });
        (Keyboard::start(source, &events), typed, read)
    }

    fn key(name: &str) -> Event {
        Event::Key(name.parse::<Key>().unwrap())
    }

    #[test]
    fn next_key_is_read_after_previous_is_processed() {
        let (mut keyboard, typed, read) = begin();
        typed.send(key("o")).unwrap();
        typed.send(key("x")).unwrap();
        assert_eq!(read.recv_timeout(LONG), Ok(key("o")));
        keyboard.event_processed();
        keyboard.rest();
        assert!(read.recv_timeout(LOOK * 3).is_err());
        keyboard.go_on(false);
        assert_eq!(read.recv_timeout(LONG), Ok(key("x")));
    }

    #[test]
    fn reading_can_be_stopped_while_keys_wait() {
        let (mut keyboard, typed, read) = begin();
        typed.send(key("o")).unwrap();
        assert_eq!(read.recv_timeout(LONG), Ok(key("o")));
        keyboard.event_processed();
        // What was typed waits for rows; others may follow, such as escape.
        keyboard.go_on(true);
        typed.send(key("j")).unwrap();
        assert_eq!(read.recv_timeout(LONG), Ok(key("j")));
        keyboard.event_processed();
        keyboard.go_on(true);
        // The rows have come, and the pager begins: its keys are not read.
        keyboard.rest();
        typed.send(key("q")).unwrap();
        assert!(read.recv_timeout(LOOK * 3).is_err());
        // Told twice is told once.
        keyboard.go_on(false);
        keyboard.go_on(false);
        assert_eq!(read.recv_timeout(LONG), Ok(key("q")));
        typed.send(key("z")).unwrap();
        assert!(read.recv_timeout(LOOK * 3).is_err());
    }

    #[test]
    fn blocked_thread_is_not_joined() {
        let (mut keyboard, typed, read) = begin();
        let began = Instant::now();
        keyboard.rest();
        assert!(began.elapsed() < PATIENCE);
        // What is typed then comes, and nothing behind it.
        typed.send(key("j")).unwrap();
        typed.send(key("k")).unwrap();
        assert_eq!(read.recv_timeout(LONG), Ok(key("j")));
        assert!(read.recv_timeout(LOOK * 3).is_err());
    }

    #[test]
    fn key_during_stop_is_not_lost() {
        let (mut keyboard, typed, read) = begin();
        typed.send(key("o")).unwrap();
        assert_eq!(read.recv_timeout(LONG), Ok(key("o")));
        keyboard.event_processed();
        keyboard.go_on(true);
        typed.send(key("j")).unwrap();
        // It may have been read, or not: it comes, and nothing behind it.
        keyboard.rest();
        typed.send(key("k")).unwrap();
        keyboard.go_on(false);
        assert_eq!(read.recv_timeout(LONG), Ok(key("j")));
        assert!(read.recv_timeout(LOOK * 3).is_err());
        keyboard.event_processed();
        keyboard.go_on(false);
        assert_eq!(read.recv_timeout(LONG), Ok(key("k")));
    }
}
