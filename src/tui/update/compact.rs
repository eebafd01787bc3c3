//! Compaction: what it would save is looked at, named and asked about before anything is written.

use crate::convert::compact::Compaction;
use crate::text::{self, SizeStyle};
use crate::tui::effect::{Effect, Task};
use crate::tui::state::dialog::{Choice, Menu};
use crate::tui::state::{Dialog, Staged, State, Tone, Writing};

/// Has it looked at what compacting would save, unless the archive can't be changed.
pub fn ask(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(file) = state.archive.path.clone() else {
        return state.say(Tone::Warning, state.archive.fixed);
    };
    if !state.staged.is_empty() || state.writing.is_some() {
        return state.say(Tone::Warning, "what is planned comes first: W writes it, P shows it");
    }
    state.say(Tone::Calm, "looking for what compacting would save …");
    effects.push(Effect::Weigh(file));
}

/// Asks whether it is to be done.
pub fn weighed(state: &mut State, saved: Result<Compaction, String>) {
    let saved = match saved {
        Ok(saved) => saved,
        Err(error) => return state.say(Tone::Error, error),
    };
    if saved.dropped_commits == 0 && saved.after_bytes >= saved.before_bytes {
        return state.say(Tone::Calm, "compacting would save nothing");
    }
    let size = |bytes| SizeStyle::Binary.show(bytes);
    let mut lines = vec![format!("{} → about {}", size(saved.before_bytes), size(saved.after_bytes))];
    if saved.dropped_commits > 0 {
        let gone = text::counted(saved.dropped_commits, "earlier commit goes", "earlier commits go");
        lines.push(format!("{gone} for good, with what only they hold"));
    }
    state.message = None;
    state.dialogs.push(Dialog::Menu(Menu {
        title: format!("Compact {}", state.archive.own_name()),
        lines,
        items: vec![
            ('b', "back".to_owned(), Choice::Nothing),
            ('c', "compact it: the newest commit stays".to_owned(), Choice::Compact),
        ],
        cursor: 0,
    }));
}

/// Starts it.
pub fn start(state: &mut State, effects: &mut Vec<Effect>) {
    let (Some(file), Some(commit)) = (state.archive.path.clone(), state.archive.info.commit) else { return };
    if !state.staged.is_empty() || state.writing.is_some() {
        return;
    }
    let job = state.jobs.add(format!("compact {}", state.archive.name), state.now);
    effects.push(Effect::Start(job, Task::Compact { file, commit }));
    state.writing = Some(Writing { job, plans: Staged::default(), done: false });
}
