//! The mouse.

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::{Story, everything};
use crate::event::Event;
use crate::state::PendingChange;
use nra_format::path::EntryPath;

fn mouse(story: &mut Story, kind: MouseEventKind, column: u16, row: u16) {
    story.event(Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
}

fn click(story: &mut Story, column: u16, row: u16) {
    mouse(story, MouseEventKind::Down(MouseButton::Left), column, row);
    mouse(story, MouseEventKind::Up(MouseButton::Left), column, row);
}

#[test]
fn clicking_row_moves_cursor() {
    let mut story = Story::begin(everything(), 120, 40);
    click(&mut story, 5, 5);
    assert_eq!(story.name(), "docs");
    click(&mut story, 5, 5);
    story.sees("a.nra ▸ docs");
    // The first part of the path leads back.
    click(&mut story, 2, 0);
    story.rest();
    assert_eq!(story.names().len(), 8);
    // A click below the rows has no effect.
    click(&mut story, 5, 30);
    assert_eq!(story.names().len(), 8);
}

#[test]
fn clicking_map_area_moves_cursor() {
    let mut story = Story::begin(everything(), 120, 40);
    story.then("b b");
    assert_eq!(story.name(), "model.bin");
    let screen = story.screen();
    let (row, line) = screen.lines().enumerate().find(|(_, line)| line.contains("docs/")).unwrap();
    let column = line.chars().take_while(|c| *c != 'd').count();
    let at = (u16::try_from(column).unwrap(), u16::try_from(row).unwrap());
    click(&mut story, at.0, at.1);
    assert_eq!(story.name(), "docs");
    click(&mut story, at.0, at.1);
    story.sees("a.nra ▸ docs").sees("areas by size").sees("guide.md");
    story.then("h");
    assert_eq!(story.name(), "docs");
    // Without the map, the rows have their previous order.
    story.then("b");
    assert_eq!(story.names()[0], "README.md");
}

#[test]
fn clicking_column_header_sorts() {
    let mut story = Story::begin(everything(), 80, 24);
    let at = u16::try_from(story.screen().lines().nth(1).unwrap().find("size").unwrap()).unwrap();
    click(&mut story, at, 1);
    story.sees("size ▾");
    click(&mut story, at, 1);
    story.sees("size ▴");
    click(&mut story, 3, 1);
    story.misses("▴").sees("name ▾");
}

#[test]
fn divider_drags_and_wheel_scrolls() {
    let mut story = Story::begin(everything(), 120, 40);
    let divider = story.state.areas().divider.x;
    mouse(&mut story, MouseEventKind::Down(MouseButton::Left), divider, 10);
    mouse(&mut story, MouseEventKind::Drag(MouseButton::Left), 60, 10);
    mouse(&mut story, MouseEventKind::Up(MouseButton::Left), 60, 10);
    assert_eq!(story.state.areas().divider.x, 60);
    mouse(&mut story, MouseEventKind::Drag(MouseButton::Left), 90, 10);
    assert_eq!(story.state.areas().divider.x, 60);

    story.event(Event::Resize(40, 8));
    mouse(&mut story, MouseEventKind::ScrollDown, 5, 4);
    assert_eq!(story.state.listing.top, 3);
    mouse(&mut story, MouseEventKind::ScrollUp, 5, 4);
    assert_eq!(story.state.listing.top, 0);
}

#[test]
fn clicking_menu_item_runs_it() {
    let mut story = Story::begin(everything(), 120, 40);
    story.then("s");
    let screen = story.screen();
    let (row, line) = screen.lines().enumerate().find(|(_, line)| line.contains("s  size")).unwrap();
    let column = line.chars().take_while(|c| *c != 's').count();
    // A click on the title has no effect, one outside closes the menu.
    click(&mut story, u16::try_from(column).unwrap(), u16::try_from(row - 2).unwrap());
    story.sees("Sort by");
    click(&mut story, 2, 2);
    story.misses("Sort by");
    assert!(story.state.arrangement.wanted.is_natural());
    story.then("s");
    click(&mut story, u16::try_from(column).unwrap(), u16::try_from(row).unwrap());
    story.misses("Sort by");
    assert_eq!(story.state.arrangement.wanted.sort, crate::layout::Column::Size);
}

/// Returns the position of a text on the screen.
fn place(story: &Story, text: &str) -> (u16, u16) {
    let screen = story.screen();
    let (row, line) =
        screen.lines().enumerate().find(|(_, line)| line.contains(text)).unwrap_or_else(|| panic!("{text}\n{screen}"));
    let column = unicode_width::UnicodeWidthStr::width(&line[..line.find(text).unwrap()]);
    (u16::try_from(column).unwrap(), u16::try_from(row).unwrap())
}

fn click_on(story: &mut Story, text: &str) {
    let (column, row) = place(story, text);
    click(story, column, row);
    story.rest();
}

const SIZES: [(u16, u16); 3] = [(120, 40), (80, 24), (40, 10)];

#[test]
fn clicking_hint_runs_it() {
    for (width, height) in SIZES {
        let mut story = Story::begin(everything(), width, height);
        click_on(&mut story, "? help");
        story.sees("Keys: list");
        click_on(&mut story, "esc close");
        story.misses("Keys: list");
        if height > 12 {
            click_on(&mut story, "s sort");
            story.sees("Sort by");
            story.then("esc");
            // A click next to the hints has no effect.
            click(&mut story, width - 1, height - 1);
            assert!(story.state.dialogs.is_empty());
        }
    }
}

#[test]
fn clicking_outside_dialog_closes_it() {
    for (width, height) in SIZES {
        let mut story = Story::begin(everything(), width, height);
        story.then("/");
        story.types("000");
        click_on(&mut story, "train/0002.json");
        story.sees("Find in this directory");
        click_on(&mut story, "train/0002.json");
        assert_eq!(story.name(), "train/0002.json");
        for keys in ["?", "i", "s", "J", ":", "f", "e", "+", "c"] {
            story.then(keys);
            assert_eq!(story.state.dialogs.len(), 1, "{keys}");
            // The corner is outside the dialog, unless it fills the screen.
            let frame = crate::frames::frame(&story.state.dialogs[0], &story.state).unwrap();
            if frame.area.x > 0 {
                click(&mut story, 0, 0);
            } else {
                story.then("esc");
            }
            assert!(story.state.dialogs.is_empty(), "{keys} {width}x{height}");
        }
        // The keys shown by a dialog.
        story.then("e");
        click_on(&mut story, "esc cancel");
        assert!(story.state.dialogs.is_empty());
        story.then("V V J");
        let chosen = |story: &Story| match story.state.dialogs[0] {
            crate::state::Dialog::Jobs { job, .. } => story.state.jobs.place(job),
            ref other => panic!("{other:?}"),
        };
        assert_eq!(chosen(&story), 0);
        let frame = crate::frames::frame(&story.state.dialogs[0], &story.state).unwrap();
        // On a low screen, the log takes the room of the second job.
        let second = usize::from(height > 12);
        click(&mut story, frame.area.x + 3, frame.area.y + 3);
        assert_eq!(chosen(&story), second);
    }
}

#[test]
fn right_click_marks() {
    for (width, height) in SIZES {
        let mut story = Story::begin(everything(), width, height);
        mouse(&mut story, MouseEventKind::Down(MouseButton::Right), 5, 4);
        story.rest();
        assert_eq!(story.state.marks.count(), 1);
        mouse(&mut story, MouseEventKind::Down(MouseButton::Right), 5, 4);
        assert!(story.state.marks.is_empty());
    }
}

#[test]
fn click_ends_bookmark_prompt() {
    let mut story = Story::begin(everything(), 120, 40);
    story.then("m").sees("bookmark (a-z");
    click(&mut story, 5, 5);
    story.types("s").sees("Sort by");
    assert!(story.state.places.bookmarks.is_empty());
}

#[test]
fn pending_rows_are_not_clickable() {
    let mut story = Story::begin(everything(), 80, 8);
    story.state.changes.pending.push(PendingChange::MakeDirectory(EntryPath::try_from("new").unwrap()));
    story.rest();
    let (column, row) = place(&story, "new/");
    let at = story.name();
    mouse(&mut story, MouseEventKind::Down(MouseButton::Right), column, row);
    click(&mut story, column, row);
    click(&mut story, column, row);
    story.rest();
    // More entries than the screen has rows exist: the next one would be at this position.
    assert!(story.state.marks.is_empty() && story.name() == at && story.state.listing.lines.len() > 4);
}

#[test]
fn wheel_scrolls_pane_below_mouse() {
    let text: String = (0..200).map(|number| format!("line {number}\n")).collect();
    let archive = crate::tests::sample::with_contents(&[("a.txt", text.as_bytes()), ("b", b"")]);
    let mut story = Story::begin(archive, 120, 40);
    story.sees("line 0");
    mouse(&mut story, MouseEventKind::ScrollDown, 100, 10);
    story.rest().misses("1 line 0").sees("4 line 3");
    assert_eq!(story.name(), "a.txt");
    story.then("/");
    let found = |story: &Story| match story.state.dialogs.last() {
        Some(crate::state::Dialog::Finder(finder)) => finder.cursor,
        _ => panic!("it is closed"),
    };
    mouse(&mut story, MouseEventKind::ScrollDown, 60, 10);
    assert_eq!(found(&story), 1);
}

#[test]
fn clicking_path_goes_to_directory() {
    for (width, height) in SIZES {
        let mut story = Story::begin(everything(), width, height);
        story.then("j j j l j l l");
        assert_eq!(story.name(), "docs/more/deep/file");
        click_on(&mut story, "more");
        assert_eq!(story.name(), "docs/more/deep");
        click_on(&mut story, "a.nra");
        assert_eq!(story.name(), "docs");
    }
}

#[test]
fn every_click_is_handled() {
    for (width, height) in [(120, 40), (80, 24), (40, 10), (20, 5), (10, 3)] {
        for keys in ["", "?", "s", "/ m", ":", "e", "f", "i", "V J", "f3", "b b", ";", "m a '", "t j j j l"] {
            let mut story = Story::begin(everything(), 80, 24);
            story.then(keys);
            // Some clicks would write files to the current directory.
            story.works = false;
            story.event(Event::Resize(width, height));
            for row in 0..height {
                for column in (0..width).step_by(3) {
                    for button in [MouseButton::Left, MouseButton::Right] {
                        mouse(&mut story, MouseEventKind::Down(button), column, row);
                    }
                    mouse(&mut story, MouseEventKind::ScrollDown, column, row);
                    mouse(&mut story, MouseEventKind::Up(MouseButton::Left), column, row);
                }
                story.screen();
            }
        }
    }
}
