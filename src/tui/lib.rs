//! The browser in the terminal.
//!
//! `Event → update(&mut State) → effects → workers → Event`, and `view(&State)`: [`update`] and
//! [`view`] are pure, take time from the event and hold no handles. Threads ([`workers`]) perform
//! effects and respond with events. The content of an archive is loaded in windows, never as a
//! whole.

pub mod background;
pub mod canvas;
pub mod config;
mod copies;
pub mod environment;
mod frames;
mod glyphs;
mod hints;
mod keyboard;
mod layout;
mod limits;
mod nested;
pub mod open_target;
mod opening;
pub mod options;
mod path_bar;
mod preview;
mod program;
mod requests;
mod rows;
pub mod run;
mod session;
mod signals;
mod terminal;
mod terminal_query;
#[cfg(test)]
mod tests;
mod treemap;

// The benchmark of the browser drives these without a terminal.
#[doc(hidden)]
pub mod effect;
#[doc(hidden)]
pub mod event;
#[doc(hidden)]
pub mod key;
#[doc(hidden)]
pub mod keymap;
#[doc(hidden)]
pub mod state;
#[doc(hidden)]
pub mod theme;
#[doc(hidden)]
pub mod update;
#[doc(hidden)]
pub mod view;
#[doc(hidden)]
pub mod workers;
