//! How a pattern is written, for those that choose entries and those that leave them out alike.
//!
//! `*` and `?` stop at `/`, `**` does not; a leading `/` or `./` ties a pattern to the top. Without one a pattern matches at any depth: of those that
//! choose only when there is no `/` in it, for else it is the path of an entry; of those that leave out always.

use globset::{Glob, GlobBuilder};

use nra_format::path::{is_unsafe_to_show, normal};

/// Longest glob that is compiled, bytes: beyond that the automaton becomes larger than any list of names.
pub(crate) const PATTERN_MAX: usize = 4_096;
/// Characters that make a path a glob.
const META: &[u8] = b"*?[{";

/// A pattern in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern<'a> {
    /// What is to match, without slashes at its ends; empty = everything.
    pub(crate) body: &'a [u8],
    /// It is tied to the top.
    pub(crate) at_top: bool,
    /// It ends with `/`.
    pub(crate) is_directory: bool,
}

impl<'a> Pattern<'a> {
    /// Takes a pattern apart.
    pub(crate) fn read(text: &'a [u8]) -> Self {
        let at_top = text.starts_with(b"/") || text.starts_with(b"./");
        Self { body: normal(text), at_top, is_directory: text.ends_with(b"/") }
    }

    /// Says whether it is more than a path.
    pub(crate) fn is_glob(&self) -> bool {
        self.body.iter().any(|byte| META.contains(byte))
    }

    /// Returns the directory in front of the first part that is not plain; `None` when there is none.
    pub(crate) fn plain_directory(&self) -> Option<&'a [u8]> {
        let plain = self.body.iter().position(|byte| META.contains(byte) || *byte == b'\\').unwrap_or(self.body.len());
        let end = self.body[..plain].iter().rposition(|&byte| byte == b'/')?;
        Some(&self.body[..end])
    }

    /// Returns the glob for whole paths, at the top or, with `anywhere`, at any depth.
    ///
    /// # Errors
    ///
    /// Why it makes none.
    pub(crate) fn glob(&self, anywhere: bool) -> Result<String, String> {
        if self.body.len() > PATTERN_MAX {
            return Err(format!("more than {PATTERN_MAX} bytes"));
        }
        let body = std::str::from_utf8(self.body).map_err(|_| "it is not UTF-8 text")?;
        Ok(if anywhere { format!("**/{body}") } else { body.to_owned() })
    }
}

/// Compiles a glob.
///
/// # Errors
///
/// Why it is none.
pub(crate) fn compile(glob: &str) -> Result<Glob, String> {
    let build = GlobBuilder::new(glob).literal_separator(true).backslash_escape(true).build();
    // Some kinds repeat characters of the pattern.
    let harmless = |c: char| if is_unsafe_to_show(c) { c.escape_default().to_string() } else { c.into() };
    build.map_err(|error| error.kind().to_string().chars().map(harmless).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_taken_apart() {
        for (text, body, at_top, is_directory, plain) in [
            ("a", "a", false, false, None),
            ("/a", "a", true, false, None),
            ("./a/b/", "a/b", true, true, Some("a")),
            ("a/b/*.c", "a/b/*.c", false, false, Some("a/b")),
            ("a/b\\*/c", "a/b\\*/c", false, false, Some("a")),
            (".", "", false, false, None),
            ("/", "", true, true, None),
        ] {
            let pattern = Pattern::read(text.as_bytes());
            assert_eq!(pattern, Pattern { body: body.as_bytes(), at_top, is_directory }, "{text}");
            assert_eq!(pattern.plain_directory(), plain.map(str::as_bytes), "{text}");
        }
        assert!(Pattern::read(b"a[").is_glob() && !Pattern::read(b"a]").is_glob());
    }

    #[test]
    fn globs_stop_at_slashes() {
        let matches = |text: &str, anywhere, path: &str| {
            let glob = Pattern::read(text.as_bytes()).glob(anywhere).unwrap();
            compile(&glob).unwrap().compile_matcher().is_match(path)
        };
        assert!(matches("*.c", true, "a/b.c") && !matches("*.c", false, "a/b.c") && matches("**/x", false, "a/b/x"));
        assert_eq!(compile("a["), Err("unclosed character class; missing ']'".to_owned()));
        assert!(Pattern::read(&[b'*'; PATTERN_MAX + 1]).glob(true).is_err());
        assert!(Pattern::read(b"\xff*").glob(true).is_err());
    }
}
