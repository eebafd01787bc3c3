//! Syntax highlighting: comments, strings and keywords in source text.
//!
//! Language definitions are loaded by the preview thread when first needed, and kept. The time
//! spent on hostile text is limited: long lines are not highlighted, and neither are the remaining
//! lines after a timeout.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ratatui::style::Style;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use crate::theme::{Depth, Theme};

/// Maximum length of a highlighted line, in bytes.
const MAX_LINE: usize = 1 << 10;
/// Time limit for highlighting a window.
pub const MAX_TIME: Duration = Duration::from_millis(150);

static LANGUAGES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// The role of a part of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Role {
    /// None in particular.
    #[default]
    Plain,
    Comment,
    Text,
    /// A number or another constant.
    Constant,
    Keyword,
    /// Name of a function, key or tag.
    Name,
    Type,
    Title,
}

/// Roles by scope prefix. The first match in this table counts.
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
    /// Returns the style of the role. Without colours, all roles look the same.
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

/// A printable line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// Its offset in the content, in bytes.
    pub offset: u64,
    /// Its text, with tabs expanded and control characters replaced by symbols.
    pub text: String,
    /// The line is longer than shown.
    pub cut: bool,
    /// Highlighting: consecutive lengths in bytes of the text, with their roles.
    pub roles: Vec<(usize, Role)>,
}

/// Detects the language of a file from its name or first line.
fn language(name: &str, first: &str) -> Option<&'static SyntaxReference> {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let found = LANGUAGES
        .find_syntax_by_extension(name)
        .or_else(|| LANGUAGES.find_syntax_by_extension(extension))
        .or_else(|| LANGUAGES.find_syntax_by_extension(&extension.to_ascii_lowercase()))
        .or_else(|| LANGUAGES.find_syntax_by_first_line(first))?;
    (found.name != "Plain Text").then_some(found)
}

/// Adds roles to the lines of a file with this name. After the time limit, the remaining lines have
/// none.
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
    fn source_text_gets_roles() {
        let lines = painted("a.rs", "// remark\nfn main() { let x = \"text\"; }");
        assert_eq!(lines[0], [("// remark".to_owned(), Role::Comment)]);
        let has = |text: &str, role| lines[1].iter().any(|(part, of)| part.trim() == text && *of == role);
        assert!(has("fn", Role::Keyword) && has("main", Role::Name) && has("\"text\"", Role::Text), "{:?}", lines[1]);
    }

    #[test]
    fn language_is_detected_from_name_and_first_line() {
        for (name, first) in [("x.toml", ""), ("Makefile", ""), ("README.MD", ""), ("run", "#!/usr/bin/env python3")] {
            assert!(language(name, first).is_some(), "{name}");
        }
        assert!(language("a.txt", "text").is_none() && language("noname", "").is_none());
    }

    #[test]
    fn long_lines_are_not_highlighted() {
        let long = format!("{{{}", "(".repeat(MAX_LINE));
        assert!(painted("a.rs", &long)[0].is_empty());
        assert!(!painted("a.rs", &format!("fn a() {{}}\n{long}\nfn b() {{}}"))[2].is_empty());
    }

    #[test]
    fn slow_highlighting_stops() {
        let mut lines = vec![Line { text: "fn a() {}".to_owned(), ..Line::default() }; 1_000];
        paint(&mut lines, "a.rs", Duration::ZERO);
        assert!(lines[999].roles.is_empty());
    }

    #[test]
    fn monochrome_theme_has_no_colours() {
        let theme = Theme::new(crate::theme::Background::Dark, Depth::Mono);
        assert!([Role::Comment, Role::Keyword, Role::Constant].iter().all(|role| role.style(&theme) == theme.text));
    }
}
