//! Messages: complete sentences, match counts, free space.

use std::time::Duration;

use super::{Story, everything};
use crate::config::Config;
use crate::effect::RequestKind;
use crate::event::{Event, Response};
use crate::open_target::OpenTarget;
use crate::state::{Ending, Tone};
use crate::tests::sample;
use nra_format::archive::CommitInfo;

#[test]
fn long_message_is_shown_whole_and_logged() {
    let fault = Config::parse("theme = \"pink\"\n").1.remove(0);
    for (width, height) in [(120, 30), (80, 24), (40, 10)] {
        let mut story = Story::begin(everything(), width, height);
        let text = format!("/home/user/.config/nra/config.toml: {fault}");
        story.state.jobs.note("settings".to_owned(), Ending::Degraded, text.clone(), Duration::ZERO);
        story.state.notify(Tone::Warning, text.clone());
        let words = |screen: &str| {
            let screen = screen.replace(['│', '!'], " ");
            let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
            fault.split_whitespace().filter(|word| !screen.contains(word)).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words(&story.screen()), [""; 0], "{}", story.screen());
        // The next key removes it. The list of jobs still has it.
        story.then("j");
        story.misses("pink");
        story.then("J");
        story.sees("settings");
        if height > 20 {
            assert_eq!(words(&story.screen()), [""; 0], "{}", story.screen());
        }
    }
}

#[test]
fn matches_are_counted() {
    let content: Vec<u8> = (1..=60_000).flat_map(|number| format!("this is line {number}\n").into_bytes()).collect();
    let archive = sample::with_contents(&[("b.safetensors", b"{}"), ("text", &content)]);
    let mut story = Story::begin(archive, 80, 24);
    story.then("j enter /").types("line 777").then("enter");
    story.sees("1 of 11 · text");
    let first = |story: &Story| story.screen().lines().nth(2).unwrap_or_default().trim().to_owned();
    assert_eq!(first(&story), "777 this is line 777");
    story.then("n");
    story.sees("2 of 11");
    // Line numbers are still known.
    assert_eq!(first(&story), "7770 this is line 7770");
    story.then("n n N");
    story.sees("3 of 11");
    assert_eq!(first(&story), "7771 this is line 7771");
    story.then("g").then("/ ctrl-u").types("line 4242").then("enter");
    story.sees("1 of 11");
    story.then("G");
    story.sees("60000 this is line 60000");
    assert_eq!(first(&story), "59981 this is line 59981");
    story.then("g");
    assert_eq!(first(&story), "1 this is line 1");
    // A number past the end goes to the last line.
    story.then("ctrl-g").types("99999").then("enter");
    story.sees("60000 this is line 60000").misses("99999");
}

#[test]
fn matches_in_one_row_of_bytes_are_visited() {
    let bytes = b"\0\0ab\0\0ab\0\0\0\0\0\0\0\0\0ab".repeat(2);
    let wide: Vec<u8> = "\u{feff}ab ab ab".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (content, places) in [(bytes, 6), (wide, 3)] {
        let mut story = Story::begin(crate::tests::sample::with_contents(&[("a", &content)]), 80, 24);
        story.then("enter 2 /").types("ab").then("enter");
        for place in (1..=places).chain((1..places).rev()) {
            story.sees(&format!("{place} of {places}"));
            let turns = story.state.preview.match_position() == Some(format!("{places} of {places}"));
            story.then(if turns { "N" } else { "n" });
            if turns {
                break;
            }
        }
        story.sees(&format!("{} of {places}", places - 1));
        story.then(&"N ".repeat(places - 2)).sees(&format!("1 of {places}"));
        story.then("N").sees(&format!("{places} of {places}"));
    }
}

#[test]
fn text_in_other_encodings_is_decoded() {
    let utf16: Vec<u8> = [0xfeff].into_iter().chain("Grüße aus Köln\r\n".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let archive = sample::with_contents(&[
        ("a.txt", &utf16),
        ("b.txt", b"Gr\xfc\xdfe aus K\xf6ln\n"),
        ("c.csv", b"Stadt;Stra\xdfe;n\nK\xf6ln;Ring, Nord;1,5\n"),
        ("d.bin", &[1, 2, 0, 255, 254, 3]),
    ]);
    let mut story = Story::begin(archive, 120, 30);
    story.sees("Grüße aus Köln").sees("UTF-16 text · 34 B");
    story.then("j");
    story.sees("Grüße aus Köln").sees("Latin-1 text · 15 B");
    story.then("j");
    story.sees("CSV · ").sees("Stadt  Straße      n").sees("Köln   Ring, Nord  1,5");
    story.then("j");
    story.sees("hex · 6 B");
}

#[test]
fn hex_view_decodes_numbers() {
    let content: Vec<u8> = (0..200u16).flat_map(u16::to_le_bytes).collect();
    let mut story = Story::begin(sample::with_contents(&[("d.bin", &content)]), 80, 24);
    story.then("enter");
    story.sees("le  8 0  16 0  32 65536").sees("be  8 0  16 0  32 256");
    story.then("ctrl-g").types("0x22").then("enter");
    story.sees("le  8 17  16 17  32 1179665");
    story.then("j");
    story.sees("le  8 24  16 24");
    // The last row is above the numbers.
    story.then("G");
    story.sees("00000180").sees("le  8 ");
    story.then("q");
    story.misses("le  8 ");
}

#[test]
fn extraction_prompt_shows_free_space() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("G k k e");
    story.sees("Extract model.bin").sees("target directory");
    let answer = |id, free| Event::Response(id, Response::FreeSpace(free));
    let before = story.state.requests.newest(RequestKind::FreeSpace);
    story.event(answer(before, 5 << 30));
    story.sees("needs 2.9 KiB; 5.0 GiB free").misses("not enough");
    // Another directory needs another response.
    story.keys("x");
    story.event(answer(before, 6 << 30));
    story.misses("6.0 GiB");
    story.event(answer(story.state.requests.newest(RequestKind::FreeSpace), 1 << 10));
    story.sees("1.0 KiB free").sees("not enough free space");
    // So does a completed path.
    let tab = |story: &mut Story, free| {
        story.held_back = true;
        story.keys("tab");
        let names = story.state.requests.newest(RequestKind::Completions);
        story.event(Event::Response(names, Response::Completions(vec!["./xyz/".to_owned()])));
        story.event(answer(story.state.requests.newest(RequestKind::FreeSpace), free));
    };
    tab(&mut story, 7 << 30);
    story.sees("7.0 GiB free").misses("not enough");
    tab(&mut story, 1 << 10);
    story.sees("not enough");
    story.event(answer(story.state.requests.newest(RequestKind::FreeSpace), 8 << 30));
    story.sees("8.0 GiB free").misses("not enough");
}

#[test]
fn low_screen_shows_help_key() {
    let mut story = Story::begin(everything(), 40, 10);
    story.sees("? help");
    story.then("?");
    // Long sentences continue in the next row.
    story.sees("Keys: list");
    let help = |story: &mut Story| (0..80).any(|_| story.then("j").screen().contains("half a page"));
    assert!(help(&mut story));
    story.then("esc :").types("half-page");
    story.sees("half-page-down: Move down half");
    let mut story = Story::begin(everything(), 80, 24);
    story.then("D");
    story.sees("No duplicate files");
}

#[test]
fn keys_without_effect_show_reason() {
    let mut story = Story::begin(everything(), 120, 30);
    for key in ["X", "f12", "alt-x"] {
        story.then(key).sees(&format!("{key} is not assigned here: ? shows the keys"));
    }
    story.then("j j j").misses("is not assigned");
    for key in ["1", "2", "3", "4"] {
        story.then(key).sees("Only files have other forms");
    }
    story.then("5").misses("Only files have other forms");
    let mut story = Story::begin(sample::archive(&[]), 120, 30);
    for key in ["space", "v", "A", "*", "2"] {
        story.then(key).sees("No entry here");
    }
}

#[test]
fn cleared_marks_are_reported() {
    let mut story = Story::begin(everything(), 120, 30);
    story.state.archive.info.commit = Some(2);
    story.then("space space");
    let facts = story.state.archive.clone();
    story.opens(OpenTarget::Commit(Some(2)), facts);
    story.sees("commit 2; 2 marks cleared");
}

#[test]
fn messages_wrap_and_commit_messages_are_truncated_at_end() {
    let name = "L".repeat(180);
    let mut story = Story::begin(sample::archive(&[&name]), 40, 10);
    story.state.archive.file = Ok("a.nra".into());
    story.then("d").sees("will be removed: W writes it, u").sees("undoes it");
    let mut story = Story::begin(everything(), 80, 24);
    story.then("H");
    let id = story.state.requests.newest(RequestKind::Commits);
    let message = format!("the first of many words {}", "and more ".repeat(20));
    let commit = CommitInfo { number: 1, message, ..CommitInfo::default() };
    story.event(Event::Response(id, Response::Commits(Ok(vec![commit]))));
    story.sees("the first of many words and ");
}
