//! Archives with unencrypted names and encrypted content.

use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::Arc;

use zip::write::SimpleFileOptions;
use zip::{AesMode, ZipWriter};

use super::{Story, asks};
use crate::effect::{Effect, Request};
use crate::event::{Event, Failure, Response};
use crate::keymap::Action;
use crate::nested;
use crate::open_target::{OpenTarget, Password};
use crate::state::task::Task;
use crate::state::{Ending, Facts, JobEvent};
use crate::tests::sample;
use nra_format::archive::{Archive, OpenOptions, open};
use nra_format::crypt::Secret;
use nra_format::source::MemorySource;

/// Returns a zip file with one unencrypted and two encrypted members.
fn locked() -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let clear = SimpleFileOptions::default();
    for (name, options) in [
        ("clear.txt", clear),
        ("secret.txt", clear.with_aes_encryption(AesMode::Aes256, "open sesame")),
        ("zebra.txt", clear.with_aes_encryption(AesMode::Aes256, "open sesame")),
    ] {
        zip.start_file(name, options).unwrap();
        write!(zip, "this is {name}").unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn opened(bytes: &[u8], key: Option<Secret>) -> Arc<dyn Archive> {
    let options = OpenOptions { key, ..OpenOptions::default() };
    Arc::from(open(Arc::new(MemorySource::new(bytes.to_vec())), &options).unwrap())
}

/// Opens the archive of a story again, as the awaited target.
fn unlock(story: &mut Story, archive: Arc<dyn Archive>) {
    story.archive = archive;
    let facts = Facts { info: story.archive.info().clone(), ..story.state.archive.clone() };
    story.respond(Response::Opened(Box::new(facts)));
    story.rest();
}

/// Returns the last typed password.
fn typed(story: &Story) -> &[u8] {
    match story.outside.last() {
        Some(Effect::Request(_, Request::Open(OpenTarget::Unlocked, Some(Password(password))))) => password,
        other => panic!("{other:?}"),
    }
}

#[test]
fn first_encrypted_content_asks_for_password() {
    let bytes = locked();
    let mut story = Story::begin(opened(&bytes, None), 120, 30);
    story.sees("this is clear.txt").misses("password");
    story.then("j");
    story.sees("Read a.nra").sees("content is encrypted; password:");
    story.types("open barley").keys("enter");
    assert_eq!(typed(&story), b"open barley");
    unlock(&mut story, opened(&bytes, Some(Secret::password("open barley"))));
    story.sees("wrong password");
    assert_eq!(story.name(), "secret.txt");
    story.types("open sesame").keys("enter");
    unlock(&mut story, opened(&bytes, Some(Secret::password("open sesame"))));
    story.sees("this is secret.txt").misses("password");
    story.then("j");
    story.sees("this is zebra.txt");
}

#[test]
fn declined_password_is_asked_again_on_demand_only() {
    let bytes = locked();
    let mut story = Story::begin(opened(&bytes, None), 120, 30);
    story.then("j").then("esc").then("j");
    story.sees("a password or key is").misses("Read a.nra");
    for key in ["o", "Y", "f4", "enter"] {
        story.then(key);
        story.sees("Read a.nra");
        story.then("esc");
        story.misses("Read a.nra");
    }
    assert!(story.outside.is_empty());
    // On a small screen, the password is requested when the file is previewed.
    let mut story = Story::begin(opened(&bytes, None), 80, 24);
    story.then("j");
    story.misses("Read a.nra");
    story.then("enter");
    story.sees("Read a.nra");
}

#[test]
fn open_menu_delays_password_prompt() {
    let mut story = Story::begin(opened(&locked(), None), 120, 30);
    story.keys("j m").rest();
    story.misses("Read a.nra");
    // The prompt opens when the other one is closed.
    story.types("s").sees("Read a.nra");
    assert!(story.state.places.bookmarks.contains_key(&'s'));
}

#[test]
fn job_asks_for_password_and_restarts() {
    let work = tempfile::tempdir().unwrap();
    let target = work.path().join("out");
    let bytes = locked();
    let mut story = Story::begin(opened(&bytes, None), 80, 24);
    story.then("A e ctrl-u");
    story.event(Event::Paste(target.display().to_string()));
    story.then("enter");
    story.sees("content is encrypted; password:");
    assert!(!target.exists());
    story.types("open barley").keys("enter");
    unlock(&mut story, opened(&bytes, Some(Secret::password("open barley"))));
    story.sees("wrong password");
    assert!(!target.exists());
    story.types("open sesame").keys("enter");
    unlock(&mut story, opened(&bytes, Some(Secret::password("open sesame"))));
    story.sees("extracted 3 files");
    assert_eq!(std::fs::read(target.join("zebra.txt")).unwrap(), b"this is zebra.txt");
    // Closing the prompt drops the waiting jobs.
    let mut story = Story::begin(opened(&bytes, None), 80, 24);
    story.then("V");
    story.sees("Read a.nra");
    story.then("esc");
    assert!(story.state.passwords.tasks.is_empty());
    story.then("V").types("open sesame").keys("enter");
    unlock(&mut story, opened(&bytes, Some(Secret::password("open sesame"))));
    story.sees("no damage");
    // Unencrypted content needs no password.
    let mut story = Story::begin(opened(&bytes, None), 80, 24);
    story.then("e ctrl-u");
    story.event(Event::Paste(work.path().join("clear").display().to_string()));
    story.then("enter");
    story.sees("extracted 1 file");
}

#[test]
fn earlier_versions_ask_for_key() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/nra4");
    let bytes = std::fs::read(folder.join("beta-encrypted.nra")).unwrap();
    let mut story = Story::begin(opened(&bytes, None), 80, 24);
    story.then("V");
    story.sees("enter the key (64 hexadecimal digits):");
    story.types("mellon").keys("enter");
    unlock(&mut story, opened(&bytes, Some(Secret::password("mellon"))));
    story.sees("wrong key");
    let key: String = (0..32).map(|byte| format!("{byte:02x}")).collect();
    story.types(&key).keys("enter");
    unlock(&mut story, opened(&bytes, Secret::from_hex(&key)));
    story.sees("no damage");
}

#[test]
fn nested_archive_asks_for_password() {
    let outer = sample::with_contents(&[("in.zip", &locked())]);
    let entry = outer.entry(0).unwrap();
    let mut story = Story::begin(Arc::clone(&outer), 120, 30);
    let enter = |story: &mut Story, key: Option<Secret>| {
        story.archive = nested::open(&*outer, &entry, key, 1 << 20).unwrap();
        let (name, inside) = ("a.nra ▸ in.zip".to_owned(), Some(entry.clone()));
        let facts = Facts { name, inside, depth: 1, info: story.archive.info().clone(), ..Facts::default() };
        let target = story.state.opening.target.clone().unwrap_or_else(|| OpenTarget::Nested(entry.clone()));
        story.opens(target, facts);
    };
    enter(&mut story, None);
    story.then("j");
    story.sees("Read a.nra ▸ in.zip");
    story.types("open sesame").keys("enter");
    assert_eq!(typed(&story), b"open sesame");
    enter(&mut story, Some(Secret::password("open sesame")));
    story.sees("this is secret.txt");
    // It is still nested in the outer archive.
    story.then("h");
    assert_eq!(story.outside.last(), Some(&asks(Request::Open(OpenTarget::Parent, None))));
}

#[test]
fn action_on_marks_runs_before_password_prompt() {
    let mut story = Story::begin(opened(&locked(), None), 120, 30);
    story.keys("j");
    story.state.input.after_marks = Some(Action::Extract);
    story.rest();
    assert!(story.state.preview.sealed.is_some());
    story.misses("Read a.nra");
    story.state.input.after_marks = None;
    story.rest();
    story.sees("Read a.nra");
}

#[test]
fn marks_stay_after_password() {
    let mut story = Story::begin(opened(&locked(), None), 80, 24);
    story.then("space Y").sees("Read a.nra");
    story.types("open sesame").keys("enter");
    unlock(&mut story, opened(&locked(), Some(Secret::password("open sesame"))));
    story.misses("gone");
    assert_eq!(story.state.marks.count(), 1);
}

#[test]
fn declined_job_is_not_restarted() {
    let task = || Box::new(Task::Verify { ranges: None });
    let mut story = Story::begin(opened(&locked(), None), 120, 30);
    story.held_back = true;
    story.then("V V");
    for id in [1, 2] {
        story.event(Event::Job(id, JobEvent::NeedsPassword(task(), false)));
        story.event(Event::Job(id, JobEvent::End(Ending::Cancelled, String::new())));
    }
    story.sees("Read a.nra");
    story.then("esc").misses("Read a.nra");
    assert!(story.state.passwords.tasks.is_empty() && story.state.passwords.question.is_none());
    // If the archive cannot be opened again, the jobs are dropped.
    story.event(Event::Job(1, JobEvent::NeedsPassword(task(), false)));
    story.types("open sesame").keys("enter");
    story.respond(Response::Failed(Failure::Error("it is gone".to_owned())));
    assert!(story.state.passwords.tasks.is_empty());
}

#[test]
fn hidden_preview_asks_for_password_on_action() {
    // The screen has no room for a preview, which would have asked before.
    let mut story = Story::begin(opened(&locked(), None), 80, 24);
    story.then("j").misses("Read a.nra");
    story.then("Y").sees("Read a.nra");
    story.types("open sesame").keys("enter");
    unlock(&mut story, opened(&locked(), Some(Secret::password("open sesame"))));
    story.then("Y");
    assert_eq!(story.outside.last(), Some(&Effect::Copy(b"this is secret.txt".to_vec())));
    // A failed pager or copy asks in the same way.
    let mut story = Story::begin(opened(&locked(), None), 80, 24);
    story.respond(Response::Failed(Failure::Locked(OpenTarget::Unlocked, false)));
    story.sees("Read a.nra");
}
