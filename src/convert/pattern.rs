//! Syntax of the patterns that select entries and of those that exclude them.
//!
//! `*` and `?` do not match `/`, `**` does. A leading `/` or `./` anchors a pattern at the top.
//! Other patterns match at any depth, except that a selecting pattern with a `/` is anchored, too.

use globset::{Glob, GlobBuilder};

use nra_format::path::{is_unsafe_to_show, normal};

/// Longest glob that is compiled, bytes. Longer globs need more memory than any list of names.
pub(crate) const PATTERN_MAX: usize = 4_096;
/// Characters that make a pattern a glob.
const META: &[u8] = b"*?[{";

/// A parsed pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern<'a> {
    /// The pattern without leading and trailing slashes; empty = everything.
    pub(crate) body: &'a [u8],
    /// It is anchored at the top.
    pub(crate) at_top: bool,
    /// It ends with `/`.
    pub(crate) is_directory: bool,
}

impl<'a> Pattern<'a> {
    /// Parses a pattern.
    pub(crate) fn parse(text: &'a [u8]) -> Self {
        let at_top = text.starts_with(b"/") || text.starts_with(b"./");
        Self { body: normal(text), at_top, is_directory: text.ends_with(b"/") }
    }

    /// Returns whether it is a glob.
    pub(crate) fn is_glob(&self) -> bool {
        self.body.iter().any(|byte| META.contains(byte))
    }

    /// Returns the directory before the first component with special characters; `None` if there is
    /// none.
    pub(crate) fn literal_directory(&self) -> Option<&'a [u8]> {
        let literal = self.body.iter().position(|byte| META.contains(byte) || *byte == b'\\').unwrap_or(self.body.len());
        let end = self.body[..literal].iter().rposition(|&byte| byte == b'/')?;
        Some(&self.body[..end])
    }

    /// Returns the glob for whole paths: from the top or, with `anywhere`, at any depth. The error
    /// is the reason.
    pub(crate) fn glob(&self, anywhere: bool) -> Result<String, String> {
        if self.body.len() > PATTERN_MAX {
            return Err(format!("longer than {PATTERN_MAX} bytes"));
        }
        let body = std::str::from_utf8(self.body).map_err(|_| "not valid UTF-8")?;
        Ok(if anywhere { format!("**/{body}") } else { body.to_owned() })
    }
}

/// Compiles a glob. The error is the reason.
pub(crate) fn compile(glob: &str) -> Result<Glob, String> {
    let build = GlobBuilder::new(glob).literal_separator(true).backslash_escape(true).build();
    // Some error kinds contain characters of the pattern.
    let harmless = |c: char| if is_unsafe_to_show(c) { c.escape_default().to_string() } else { c.into() };
    build.map_err(|error| error.kind().to_string().chars().map(harmless).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_parsed() {
        for (text, body, at_top, is_directory, literal) in [
            ("a", "a", false, false, None),
            ("/a", "a", true, false, None),
            ("./a/b/", "a/b", true, true, Some("a")),
            ("a/b/*.c", "a/b/*.c", false, false, Some("a/b")),
            ("a/b\\*/c", "a/b\\*/c", false, false, Some("a")),
            (".", "", false, false, None),
            ("/", "", true, true, None),
        ] {
            let pattern = Pattern::parse(text.as_bytes());
            assert_eq!(pattern, Pattern { body: body.as_bytes(), at_top, is_directory }, "{text}");
            assert_eq!(pattern.literal_directory(), literal.map(str::as_bytes), "{text}");
        }
        assert!(Pattern::parse(b"a[").is_glob() && !Pattern::parse(b"a]").is_glob());
    }

    #[test]
    fn wildcards_do_not_match_slashes() {
        let matches = |text: &str, anywhere, path: &str| {
            let glob = Pattern::parse(text.as_bytes()).glob(anywhere).unwrap();
            compile(&glob).unwrap().compile_matcher().is_match(path)
        };
        assert!(matches("*.c", true, "a/b.c") && !matches("*.c", false, "a/b.c") && matches("**/x", false, "a/b/x"));
        assert_eq!(compile("a["), Err("unclosed character class; missing ']'".to_owned()));
        assert!(Pattern::parse(&[b'*'; PATTERN_MAX + 1]).glob(true).is_err());
        assert!(Pattern::parse(b"\xff*").glob(true).is_err());
    }
}
