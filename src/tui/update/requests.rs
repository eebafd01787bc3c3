//! Requests and jobs: made here, cancelled when they are no longer needed.

use tui_input::Input;

use crate::effect::{Effect, Request, RequestKind};
use crate::state::task::Task;
use crate::state::{
    About, Dialog, FindKind, Finder, Job, JobId, Menu, PendingChanges, Prompt, PromptKind, Sizes, State, Writing,
};
use crate::update::preview;

impl State {
    pub(crate) fn request(&mut self, request: Request) -> Effect {
        match &request {
            Request::Open(target, password) => {
                if password.is_none() {
                    self.passwords.forget();
                }
                self.opening.target = Some(target.clone());
            }
            Request::Copy(_) => self.input.copying = true,
            _ => {}
        }
        Effect::Request(self.requests.make(RequestKind::from(&request)), request)
    }

    /// Opens a prompt, with `typed` as the suggestion.
    pub(crate) fn prompt(&mut self, kind: PromptKind, title: impl Into<String>, note: &str, typed: impl Into<Input>) {
        self.dialogs.push(Dialog::Prompt(Prompt::new(kind, title, note, typed)));
    }

    /// Starts a job on the archive shown.
    pub(crate) fn start_job(&mut self, title: String, task: Task, effects: &mut Vec<Effect>) -> &mut Job {
        let job = self.jobs.add(title, self.now);
        (job.epoch, job.archive) = (self.requests.epoch, self.archive.info.archive_id);
        effects.push(Effect::Start(job.id, task));
        job
    }

    /// Starts a job that writes a commit, and returns its number.
    pub(crate) fn start_writing(
        &mut self,
        title: String,
        task: Task,
        changes: PendingChanges,
        effects: &mut Vec<Effect>,
    ) -> JobId {
        let job = self.start_job(title, task, effects).id;
        self.changes.writing = Some(Writing { job, changes, done: false });
        job
    }
}

/// Cancels the requests for what is no longer on the screen.
pub fn cancel_unneeded(state: &mut State) {
    preview::cancel_hidden(state);
    let any = |is: fn(&Dialog) -> bool| state.dialogs.iter().any(is);
    let chooses = any(|dialog| matches!(dialog, Dialog::Finder(Finder { over: FindKind::Archives, .. })));
    let finds = matches!(state.dialogs.last(), Some(Dialog::Finder(Finder { over: FindKind::Paths, .. })));
    let needed = [
        (RequestKind::Inspect, any(|dialog| matches!(dialog, Dialog::Details { .. }))),
        (RequestKind::CompactEstimate, any(|dialog| matches!(dialog, Dialog::Menu(Menu { about: About::CompactEstimate, .. })))),
        (RequestKind::Commits, any(|dialog| matches!(dialog, Dialog::Commits { .. }))),
        (RequestKind::FreeSpace, any(|dialog| matches!(dialog, Dialog::Prompt(_)))),
        (RequestKind::Completions, any(|dialog| matches!(dialog, Dialog::Prompt(_)))),
        (RequestKind::Check, state.input.checking.is_some()),
        (RequestKind::Archives, state.opening.listing && chooses),
        (RequestKind::Jump, any(|dialog| matches!(dialog, Dialog::Jump(_)))),
        (RequestKind::Find, finds),
        (RequestKind::Arrange, state.arrangement.loading),
        (RequestKind::Map, matches!(&state.layout.sizes, Sizes::Map(map) if !map.loaded)),
        (RequestKind::Totals, !state.marks.is_empty()),
        (RequestKind::Preview, state.preview.is_loading()),
        (RequestKind::Occurrences, state.preview.is_counting()),
    ];
    state.opening.listing &= chooses;
    for (kind, _) in needed.into_iter().filter(|(_, is_needed)| !is_needed) {
        state.requests.cancel(kind);
    }
}
