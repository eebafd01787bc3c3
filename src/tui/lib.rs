//! The browser in the terminal.
//!
//! `Event → update(&mut State) → effects → workers → Event`, and `view(&State)`: [`update`] and
//! [`view`] are pure, take time from the event and hold no handles. Threads ([`workers`]) perform
//! effects and respond with events. The content of an archive is loaded in windows, never as a
//! whole.

pub mod action;
pub mod background;
pub mod canvas;
pub mod config;
mod copies;
pub mod effect;
pub mod environment;
pub mod event;
pub mod frames;
pub mod glyphs;
pub mod hints;
pub mod key;
mod keyboard;
pub mod keymap;
pub mod layout;
pub mod limits;
pub mod nested;
pub mod open_target;
mod opening;
pub mod options;
pub mod path_bar;
pub mod preview;
pub mod program;
pub mod requests;
pub mod rows;
pub mod run;
#[cfg(test)]
pub mod sample;
pub mod session;
mod signals;
pub mod state;
pub mod stored_positions;
pub mod task;
pub mod terminal;
pub mod terminal_query;
#[cfg(test)]
mod tests;
pub mod theme;
pub mod treemap;
pub mod update;
pub mod view;
pub mod workers;
