//! Colours of source text: which part of a line is a comment, a string, a word of the language.
//!
//! Definitions of languages are loaded when the first text needs them, by the thread that loads previews, and stay. What a definition
//! makes of hostile text is bounded: lines beyond a length have no colours, and after a while the lines that are left have none either.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ratatui::style::Style;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use crate::preview::text::Line;
use crate::theme::{Depth, Theme};

/// Bytes of a line that has colours.
const MAX_LINE: usize = 1 << 10;
/// Time for the colours of a window.
pub const MAX_TIME: Duration = Duration::from_millis(150);

static LANGUAGES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// What a part of a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Role {
    /// Nothing particular.
    #[default]
    Plain,
    /// A remark for readers.
    Comment,
    /// Quoted text.
    Text,
    /// A number, or another constant.
    Constant,
    /// A word of the language.
    Keyword,
    /// Name of a function, a key, a tag.
    Name,
    /// Name of a type.
    Type,
    /// Title of a section.
    Title,
}

/// Roles by the scopes that they stand for; of those that fit, the first in this table counts.
static ROLES: LazyLock<Vec<(Scope, Role)>> = LazyLock::new(|| {
    let roles = [
        ("comment", Role::Comment),
        ("punctuation.definition.comment", Role::Comment),
        ("meta.mapping.key", Role::Name),
        ("string", Role::Text),
        ("punctuation.definition.string", Role::Text),
        ("constant", Role::Constant),
        ("keyword.operator", Role::Plain),
        ("keyword", Role::Keyword),
        ("storage", Role::Keyword),
        ("entity.name.type", Role::Type),
        ("entity.name.class", Role::Type),
        ("entity.name.struct", Role::Type),
        ("support.type", Role::Type),
        ("support.class", Role::Type),
        ("markup.heading", Role::Title),
        ("entity.name.section", Role::Title),
        ("markup.raw", Role::Text),
        ("entity.name", Role::Name),
        ("entity.other", Role::Name),
        ("support.function", Role::Name),
        ("variable.function", Role::Name),
    ];
    roles.into_iter().filter_map(|(scope, role)| Some((Scope::new(scope).ok()?, role))).collect()
});

impl Role {
    /// Returns how the role looks; without colours all look the same.
    pub fn style(self, theme: &Theme) -> Style {
        if theme.depth == Depth::Mono {
            return theme.text;
        }
        match self {
            Self::Plain => theme.text,
            Self::Comment => theme.dim,
            Self::Text => theme.success,
            Self::Constant => theme.symbol,
            Self::Keyword => theme.frame,
            Self::Name => theme.link,
            Self::Type => theme.special,
            Self::Title => theme.accent,
        }
    }

    fn of(stack: &ScopeStack) -> Self {
        let found = stack.as_slice().iter().rev().find_map(|scope| {
            let role = ROLES.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope));
            role.map(|(_, role)| *role)
        });
        found.unwrap_or_default()
    }
}

/// Finds the language of a file by its name, or by its first line.
fn language(name: &str, first: &str) -> Option<&'static SyntaxReference> {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let found = LANGUAGES
        .find_syntax_by_extension(name)
        .or_else(|| LANGUAGES.find_syntax_by_extension(extension))
        .or_else(|| LANGUAGES.find_syntax_by_extension(&extension.to_ascii_lowercase()))
        .or_else(|| LANGUAGES.find_syntax_by_first_line(first))?;
    (found.name != "Plain Text").then_some(found)
}

/// Finds the roles in lines of a file of this name; after so much time the rest stays without.
pub fn paint(lines: &mut [Line], name: &str, time: Duration) {
    let Some(first) = lines.first().filter(|line| line.text.len() <= MAX_LINE) else { return };
    let Some(language) = language(name, &first.text) else { return };
    let start = Instant::now();
    let mut state = ParseState::new(language);
    let mut stack = ScopeStack::new();
    for line in lines {
        if line.text.len() > MAX_LINE {
            continue;
        }
        if start.elapsed() > time {
            return;
        }
        let text = format!("{}\n", line.text);
        let Ok(changes) = state.parse_line(&text, &LANGUAGES) else { return };
        let mut from = 0;
        for (at, change) in changes {
            mark(&mut line.roles, Role::of(&stack), at.min(line.text.len()) - from);
            from = at.min(line.text.len());
            if stack.apply(&change).is_err() {
                return;
            }
        }
        mark(&mut line.roles, Role::of(&stack), line.text.len() - from);
    }
}

fn mark(roles: &mut Vec<(usize, Role)>, role: Role, len: usize) {
    match roles.last_mut() {
        _ if len == 0 => {}
        Some((before, last)) if *last == role => *before += len,
        _ => roles.push((len, role)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn painted(name: &str, text: &str) -> Vec<Vec<(String, Role)>> {
        let mut lines: Vec<Line> = text.lines().map(|text| Line { text: text.to_owned(), ..Line::default() }).collect();
        paint(&mut lines, name, Duration::MAX);
        let part = |line: &Line| {
            let mut at = 0;
            line.roles
                .iter()
                .map(|(len, role)| {
                    at += len;
                    (line.text[at - len..at].to_owned(), *role)
                })
                .collect()
        };
        lines.iter().map(part).collect()
    }

    #[test]
    fn parts_of_a_program() {
        let lines = painted("a.rs", "// remark\nfn main() { let x = \"text\"; }");
        assert_eq!(lines[0], [("// remark".to_owned(), Role::Comment)]);
        let has = |text: &str, role| lines[1].iter().any(|(part, of)| part.trim() == text && *of == role);
        assert!(has("fn", Role::Keyword) && has("main", Role::Name) && has("\"text\"", Role::Text), "{:?}", lines[1]);
    }

    #[test]
    fn languages_by_name_and_first_line() {
        for (name, first) in [("x.toml", ""), ("Makefile", ""), ("README.MD", ""), ("run", "#!/usr/bin/env python3")] {
            assert!(language(name, first).is_some(), "{name}");
        }
        assert!(language("a.txt", "text").is_none() && language("noname", "").is_none());
    }

    #[test]
    fn long_lines_have_no_colours() {
        let long = format!("{{{}", "(".repeat(MAX_LINE));
        assert!(painted("a.rs", &long)[0].is_empty());
        assert!(!painted("a.rs", &format!("fn a() {{}}\n{long}\nfn b() {{}}"))[2].is_empty());
    }

    #[test]
    fn what_takes_too_long_has_no_colours() {
        let mut lines = vec![Line { text: "fn a() {}".to_owned(), ..Line::default() }; 1_000];
        paint(&mut lines, "a.rs", Duration::ZERO);
        assert!(lines[999].roles.is_empty());
    }

    #[test]
    fn without_colours_nothing_is_coloured() {
        let theme = Theme::new(crate::theme::Ground::Dark, Depth::Mono);
        assert!([Role::Comment, Role::Keyword, Role::Constant].iter().all(|role| role.style(&theme) == theme.text));
    }
}
