//! Compaction: estimates the savings and asks before anything is written.

use crate::effect::{Effect, Request};
use crate::state::task::Task;
use crate::state::{About, Choice, Dialog, Menu, PendingChanges, State, Tone};
use crate::update::changes;
use nra_convert::compact::Compaction;
use nra_text::{self, SizeStyle};

/// Requests an estimate of the savings.
pub fn ask(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(file) = changes::file_to_write(state) else { return };
    state.status.message = None;
    // The menu is open while the estimate is computed, and does not offer to compact yet.
    let back = ('b', "back".to_owned(), Choice::Nothing);
    let menu = Menu::new(format!("Compact {}", state.archive.own_name()), vec![back]);
    let lines = vec!["estimating the savings …".to_owned()];
    state.dialogs.push(Dialog::Menu(Menu { lines, about: About::CompactEstimate, ..menu }));
    effects.push(state.request(Request::CompactEstimate(file)));
}

/// Shows the estimate and asks whether to compact.
pub fn show_estimate(state: &mut State, saved: Result<Compaction, String>) {
    let waiting = |dialog: &Dialog| matches!(dialog, Dialog::Menu(Menu { about: About::CompactEstimate, .. }));
    let Some(at) = state.dialogs.iter().position(waiting) else { return };
    let message = match &saved {
        Err(error) => Some((Tone::Error, error.as_str())),
        Ok(saved) if saved.dropped_commits == 0 && saved.after_bytes >= saved.before_bytes => {
            Some((Tone::Info, "Compacting would save nothing"))
        }
        Ok(_) => None,
    };
    if let Some((tone, text)) = message {
        state.dialogs.remove(at);
        return state.notify(tone, text);
    }
    if let (Ok(saved), Some(Dialog::Menu(menu))) = (saved, state.dialogs.get_mut(at)) {
        let size = |bytes| SizeStyle::Binary.show(bytes);
        menu.about = About::Choices;
        menu.lines = vec![format!("{} → about {}", size(saved.before_bytes), size(saved.after_bytes))];
        if saved.dropped_commits > 0 {
            let gone = nra_text::counted(saved.dropped_commits, "earlier commit", "earlier commits");
            menu.lines.push(format!("removes {gone} for good"));
        }
        menu.items.push(('c', "compact it: keep the newest commit only".to_owned(), Choice::Compact));
    }
}

pub fn start(state: &mut State, effects: &mut Vec<Effect>) {
    // Damage may have been detected while the menu was open.
    let Some(file) = changes::file_to_write(state) else { return };
    let Some(commit) = state.archive.info.commit else { return };
    let title = format!("compact {}", state.archive.name);
    state.start_writing(title, Task::Compact { file, commit }, PendingChanges::default(), effects);
}
