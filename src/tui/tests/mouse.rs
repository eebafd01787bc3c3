//! The mouse.

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::{Story, everything};
use crate::tui::event::Event;

fn mouse(story: &mut Story, kind: MouseEventKind, column: u16, row: u16) {
    story.event(Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
}

fn click(story: &mut Story, column: u16, row: u16) {
    mouse(story, MouseEventKind::Down(MouseButton::Left), column, row);
    mouse(story, MouseEventKind::Up(MouseButton::Left), column, row);
}

#[test]
fn rows_are_clicked() {
    let mut story = Story::begin(everything(), 120, 40);
    click(&mut story, 5, 5);
    assert_eq!(story.name(), "docs");
    click(&mut story, 5, 5);
    story.sees("a.nra ▸ docs");
    // The crumb in front leads back.
    click(&mut story, 2, 0);
    story.rest();
    assert_eq!(story.names().len(), 8);
    // Below the rows there is nothing to click.
    click(&mut story, 5, 30);
    assert_eq!(story.names().len(), 8);
}

#[test]
fn areas_of_the_map_are_clicked() {
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
    // Off again: rows in the order of before.
    story.then("b");
    assert_eq!(story.names()[0], "README.md");
}

#[test]
fn heads_sort() {
    let mut story = Story::begin(everything(), 80, 24);
    let at = u16::try_from(story.screen().lines().nth(1).unwrap().find("size").unwrap()).unwrap();
    click(&mut story, at, 1);
    story.sees("size ▾");
    click(&mut story, at, 1);
    story.sees("size ▴");
    click(&mut story, 3, 1);
    story.misses("▴").misses("▾");
}

#[test]
fn the_divider_is_dragged_and_the_wheel_turns() {
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
fn menus_are_clicked() {
    let mut story = Story::begin(everything(), 120, 40);
    story.then("s");
    let screen = story.screen();
    let (row, line) = screen.lines().enumerate().find(|(_, line)| line.contains("s  size")).unwrap();
    let column = line.chars().take_while(|c| *c != 's').count();
    // On its title nothing happens, beside it it is closed.
    click(&mut story, u16::try_from(column).unwrap(), u16::try_from(row - 2).unwrap());
    story.sees("Sort by");
    click(&mut story, 2, 2);
    story.misses("Sort by");
    assert!(story.state.arrangement.is_natural());
    story.then("s");
    click(&mut story, u16::try_from(column).unwrap(), u16::try_from(row).unwrap());
    story.misses("Sort by");
    assert_eq!(story.state.arrangement.sort, crate::tui::state::arrange::Sort::Size);
}
