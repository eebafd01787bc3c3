//! Turns the names of other containers into paths.

use crate::path::{self, PathError, Quoted};

/// Names listed in a remark.
const SHOWN: usize = 3;
/// Maximum length of a name in a remark, bytes.
const SHOWN_BYTES: usize = 200;

/// How a name was turned into a path.
#[derive(Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// The name is a valid path.
    Path,
    /// The name is a valid path after removing the leading slash.
    Relative,
    /// The name is that of the top directory.
    Top,
}

/// Appends the path for `name` to `out`.
///
/// # Errors
///
/// [`PathError`] if the name is not valid. `out` is unchanged then.
pub fn clean(name: &[u8], out: &mut Vec<u8>) -> Result<Cleaned, PathError> {
    let start = out.len();
    if name.is_empty() {
        return Err(PathError::Empty);
    }
    for component in name.split(|&byte| byte == b'/') {
        if component.is_empty() || component == b"." {
            continue;
        }
        if out.len() > start {
            out.push(b'/');
        }
        out.extend_from_slice(component);
    }
    if out.len() == start {
        return Ok(Cleaned::Top);
    }
    if let Err(error) = path::check(&out[start..]) {
        out.truncate(start);
        return Err(error);
    }
    Ok(if name[0] == b'/' { Cleaned::Relative } else { Cleaned::Path })
}

/// Names that are reported in one remark.
#[derive(Debug, Default)]
pub(super) struct Remarked {
    count: u64,
    shown: Vec<Box<[u8]>>,
}

impl Remarked {
    pub(super) fn add(&mut self, name: &[u8]) {
        self.count += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(name[..name.len().min(SHOWN_BYTES)].into());
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns a remark about these names, if there are any: `2 entries are skipped: a, b`. `one` and `several` are its predicate.
    pub(super) fn remark(&self, one: &str, several: &str) -> Option<String> {
        if self.count == 0 {
            return None;
        }
        let names: Vec<String> = self.shown.iter().map(|name| Quoted::new(name).to_string()).collect();
        let more = self.count - names.len() as u64;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let entries = if self.count == 1 { format!("1 entry {one}") } else { format!("{} entries {several}", self.count) };
        Some(format!("{entries}: {}{more}", names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_turns_names_into_paths() {
        for (name, expected) in [
            (&b"a/b"[..], Ok((Cleaned::Path, &b"a/b"[..]))),
            (b"./a//b/", Ok((Cleaned::Path, b"a/b"))),
            (b"/a", Ok((Cleaned::Relative, b"a"))),
            (b"//a/./b", Ok((Cleaned::Relative, b"a/b"))),
            (b"./", Ok((Cleaned::Top, b""))),
            (b"/", Ok((Cleaned::Top, b""))),
            (b"", Err(PathError::Empty)),
            (b"a/../b", Err(PathError::DotComponent)),
            (b"..", Err(PathError::DotComponent)),
            (b"a\0b", Err(PathError::Nul)),
            (&[b'a'; 70_000], Err(PathError::TooLong)),
        ] {
            let mut out = b"before".to_vec();
            let result = clean(name, &mut out).map(|cleaned| (cleaned, &out[6..]));
            assert_eq!(result, expected, "{}", Quoted::new(name));
            if result.is_err() {
                assert_eq!(out, b"before");
            }
        }
    }

    #[test]
    fn remark_lists_the_first_names() {
        let mut names = Remarked::default();
        assert_eq!(names.remark("is skipped", "are skipped"), None);
        for name in ["a", "b b", "c", "d", "e"] {
            names.add(name.as_bytes());
        }
        assert_eq!(names.remark("is skipped", "are skipped").unwrap(), "5 entries are skipped: a, 'b b', c and 2 more");
    }
}
