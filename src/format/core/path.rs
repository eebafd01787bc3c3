//! Entry paths. All names pass through this module.
//!
//! Spec: nra.md, section 8.1.

use std::cmp::Ordering;
use std::fmt;

use crate::limits::MAX_PATH;

/// Path of an entry: components joined by `/`, each non-empty, not `.` or `..`, without NUL.
///
/// The order of paths is component-wise: everything below a directory follows it directly.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EntryPath(Box<[u8]>);

/// Why bytes are not an [`EntryPath`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// No bytes at all.
    #[error("the path is empty")]
    Empty,
    /// More than [`MAX_PATH`] bytes.
    #[error("the path has more than {MAX_PATH} bytes")]
    TooLong,
    /// A NUL byte.
    #[error("the path has a NUL byte")]
    Nul,
    /// A leading, trailing or doubled slash.
    #[error("the path has an empty component")]
    EmptyComponent,
    /// A component `.` or `..`.
    #[error("the path has a component '.' or '..'")]
    DotComponent,
}

impl EntryPath {
    /// Validates `bytes` and returns them as a path.
    ///
    /// # Errors
    ///
    /// The rule that `bytes` break.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, PathError> {
        let bytes = bytes.into();
        check(&bytes)?;
        Ok(Self(bytes))
    }

    /// Wraps valid bytes, such as those of a path that was validated by component.
    pub fn from_checked(bytes: impl Into<Box<[u8]>>) -> Self {
        let bytes = bytes.into();
        debug_assert_eq!(check(&bytes), Ok(()));
        Self(bytes)
    }

    /// Returns the bytes of the path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path of the parent directory, or `None` at the top.
    pub fn parent(&self) -> Option<EntryPath> {
        let slash = self.0.iter().rposition(|&b| b == b'/')?;
        Some(Self(self.0[..slash].into()))
    }

    /// Returns the parent directories, from the innermost to the outermost.
    pub fn above(&self) -> impl Iterator<Item = EntryPath> + use<> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// Returns the last component.
    pub fn name(&self) -> &[u8] {
        let start = self.0.iter().rposition(|&b| b == b'/').map_or(0, |i| i + 1);
        &self.0[start..]
    }

    /// Returns the components, from the outermost to the innermost.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|&b| b == b'/')
    }

    /// Returns the path of the first `count` components: `None` if `count` is 0, the whole path if
    /// it has no more.
    pub fn first(&self, count: usize) -> Option<Self> {
        let mut slashes = self.0.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let end = slashes.nth(count.checked_sub(1)?).unwrap_or(self.0.len());
        Some(Self(self.0[..end].into()))
    }

    /// Returns whether this entry is below `directory`, at any depth.
    pub fn is_below(&self, directory: &EntryPath) -> bool {
        self.0.len() > directory.0.len() && self.0.starts_with(&directory.0) && self.0[directory.0.len()] == b'/'
    }

    /// Returns this path with one more component.
    ///
    /// # Errors
    ///
    /// [`PathError`] if `name` is not a valid component or the result is too long.
    pub fn join(&self, name: &[u8]) -> Result<Self, PathError> {
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        bytes.push(b'/');
        bytes.extend_from_slice(name);
        Self::new(bytes)
    }
}

/// Removes leading `./` and leading and trailing slashes from a typed path. The result is empty for
/// the top directory.
pub fn normal(typed: &[u8]) -> &[u8] {
    let mut rest = typed;
    loop {
        rest = match rest {
            [b'.', b'/', tail @ ..] | [b'/', tail @ ..] | [tail @ .., b'/'] => tail,
            [b'.'] => &[],
            _ => return rest,
        };
    }
}

/// Validates `bytes` as a path.
///
/// # Errors
///
/// The rule that `bytes` break.
pub fn check(bytes: &[u8]) -> Result<(), PathError> {
    if bytes.is_empty() {
        return Err(PathError::Empty);
    }
    if bytes.len() > MAX_PATH {
        return Err(PathError::TooLong);
    }
    if bytes.contains(&0) {
        return Err(PathError::Nul);
    }
    for component in bytes.split(|&b| b == b'/') {
        match component {
            b"" => return Err(PathError::EmptyComponent),
            b"." | b".." => return Err(PathError::DotComponent),
            _ => {}
        }
    }
    Ok(())
}

/// Compares two byte strings in path order: `/` is smaller than every other byte.
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    // Eight bytes at a time: names in a directory often share a prefix.
    let same = a.chunks_exact(8).zip(b.chunks_exact(8)).take_while(|(x, y)| x == y).count() * 8;
    let rest = a[same..].iter().zip(&b[same..]).position(|(x, y)| x != y);
    match rest.map(|at| same + at) {
        None => a.len().cmp(&b.len()),
        Some(at) => rank(a[at]).cmp(&rank(b[at])),
    }
}

/// Returns the position of a byte in path order.
fn rank(byte: u8) -> u16 {
    if byte == b'/' { 0 } else { u16::from(byte) + 1 }
}

impl Ord for EntryPath {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

impl PartialOrd for EntryPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Quoted::new(&self.0))
    }
}

impl fmt::Display for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Quoted::new(&self.0))
    }
}

impl AsRef<[u8]> for EntryPath {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<&str> for EntryPath {
    type Error = PathError;
    fn try_from(text: &str) -> Result<Self, PathError> {
        Self::new(text.as_bytes())
    }
}

/// Displays arbitrary bytes as a shell word without control characters: `plain`, `'with space'`,
/// `$'a\nb'`.
pub struct Quoted<'a> {
    bytes: &'a [u8],
    /// Always use the last of the three forms.
    in_dollars: bool,
}

impl<'a> Quoted<'a> {
    /// Wraps `bytes` for display.
    pub fn new(bytes: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { bytes: bytes.as_ref(), in_dollars: false }
    }

    /// Wraps `bytes` for display as `$'…'`. [`unquoted`] is the inverse.
    pub fn in_dollars(bytes: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { bytes: bytes.as_ref(), in_dollars: true }
    }
}

/// Returns the bytes that `$'…'` stands for, or `None` if the text does not have that form.
pub fn unquoted(text: &[u8]) -> Option<Vec<u8>> {
    let inner = text.strip_prefix(b"$'")?.strip_suffix(b"'")?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.iter().copied();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\'' => return None,
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                    digit(rest.next()?)? << 4 | digit(rest.next()?)?
                }
                same @ (b'\'' | b'\\') => same,
                _ => return None,
            },
            byte => byte,
        });
    }
    Some(bytes)
}

/// Returns whether `c` can affect the surrounding text on a terminal: controls, and characters that
/// reorder or hide text.
pub fn is_unsafe_to_show(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_alphanumeric() || "._-+/,:@%=~^".contains(c);
        if let Some(text) = std::str::from_utf8(self.bytes).ok().filter(|_| !self.in_dollars) {
            if !text.is_empty() && text.chars().all(plain) {
                return f.write_str(text);
            }
            if !text.contains('\'') && !text.chars().any(is_unsafe_to_show) {
                return write!(f, "'{text}'");
            }
        }
        f.write_str("$'")?;
        for part in self.bytes.utf8_chunks() {
            for c in part.valid().chars() {
                match c {
                    '\n' => f.write_str("\\n")?,
                    '\r' => f.write_str("\\r")?,
                    '\t' => f.write_str("\\t")?,
                    '\'' => f.write_str("\\'")?,
                    '\\' => f.write_str("\\\\")?,
                    c if is_unsafe_to_show(c) => {
                        let mut utf8 = [0; 4];
                        for byte in c.encode_utf8(&mut utf8).bytes() {
                            write!(f, "\\x{byte:02x}")?;
                        }
                    }
                    c => write!(f, "{c}")?,
                }
            }
            for byte in part.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        f.write_str("'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn paths_split_and_join_like_a_list_of_names(names in proptest::collection::vec("[a-c]{1,3}", 1..6)) {
            let join = |names: &[String]| EntryPath::try_from(names.join("/").as_str()).ok();
            let path = join(&names).unwrap();
            let (name, parents) = names.split_last().unwrap();
            assert_eq!(path.as_bytes(), names.join("/").as_bytes());
            assert_eq!(path.as_ref(), path.as_bytes());
            assert_eq!(path.name(), name.as_bytes());
            assert_eq!(path.parent(), join(parents));
            assert_eq!(path.components().collect::<Vec<_>>(), names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>());
            let above: Vec<_> = (1..names.len()).rev().map(|count| join(&names[..count]).unwrap()).collect();
            assert_eq!(path.above().collect::<Vec<_>>(), above);
            assert_eq!(path.join(b"d").unwrap().parent().as_ref(), Some(&path));
            assert_eq!(path.to_string(), names.join("/"));
        }

        #[test]
        fn order_and_subtrees_follow_components(
            a in proptest::collection::vec("[!-0a]{1,9}", 1..4), b in proptest::collection::vec("[!-0a]{1,9}", 1..4)
        ) {
            let valid = |names: &[String]| names.iter().all(|name| !name.contains('/') && !["." , ".."].contains(&name.as_str()));
            proptest::prop_assume!(valid(&a) && valid(&b));
            let (left, right) = (EntryPath::try_from(a.join("/").as_str()).unwrap(), EntryPath::try_from(b.join("/").as_str()).unwrap());
            assert_eq!(left.cmp(&right), a.cmp(&b));
            assert_eq!(left.partial_cmp(&right), Some(a.cmp(&b)));
            assert_eq!(left.is_below(&right), a.len() > b.len() && a.starts_with(&b));
        }
    }

    #[test]
    fn names_that_only_share_a_prefix_are_not_below() {
        let path = |text| EntryPath::try_from(text).unwrap();
        assert!(path("a/b").is_below(&path("a")));
        assert!(!path("ab").is_below(&path("a")));
        assert!(!path("a").is_below(&path("a")));
        assert!(!path("b/c").is_below(&path("a")));
    }

    #[test]
    fn join_rejects_invalid_components() {
        let path = EntryPath::try_from("a").unwrap();
        assert_eq!(path.join(b"..").unwrap_err(), PathError::DotComponent);
        assert_eq!(path.join(b"").unwrap_err(), PathError::EmptyComponent);
    }

    #[test]
    fn normal_removes_slashes_and_dots_at_the_ends() {
        for (typed, expected) in [
            ("a", "a"),
            ("./a", "a"),
            ("/a/", "a"),
            ("././/a//", "a"),
            (".", ""),
            ("./", ""),
            ("/", ""),
            ("", ""),
            (".a", ".a"),
            ("a/.", "a/."),
            ("..", ".."),
            ("a/./b", "a/./b"),
        ] {
            assert_eq!(normal(typed.as_bytes()), expected.as_bytes(), "{typed:?}");
        }
    }

    #[test]
    fn first_returns_leading_components() {
        let path = EntryPath::try_from("a/bc/d").unwrap();
        let first = |count| path.first(count).map(|path| path.to_string());
        assert_eq!(
            [0, 1, 2, 3, 9].map(first),
            [None, Some("a"), Some("a/bc"), Some("a/bc/d"), Some("a/bc/d")].map(|path| path.map(str::to_owned))
        );
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for good in ["a", "a/b", "...", "a b", "a\u{1b}"] {
            assert!(EntryPath::try_from(good).is_ok(), "{good:?}");
        }
        for (bad, why) in [
            ("", PathError::Empty),
            ("/a", PathError::EmptyComponent),
            ("a/", PathError::EmptyComponent),
            ("a//b", PathError::EmptyComponent),
            (".", PathError::DotComponent),
            ("a/..", PathError::DotComponent),
            ("a\0", PathError::Nul),
        ] {
            assert_eq!(EntryPath::try_from(bad).unwrap_err(), why, "{bad:?}");
        }
        assert_eq!(EntryPath::new(vec![b'a'; MAX_PATH + 1]).unwrap_err(), PathError::TooLong);
        assert!(EntryPath::new(vec![b'a'; MAX_PATH]).is_ok());
    }

    #[test]
    fn subtree_is_contiguous() {
        let mut paths = ["b", "a!", "a/x/y", "a", "a/x", "a0", "a/x!"];
        paths.sort_by(|a, b| compare(a.as_bytes(), b.as_bytes()));
        assert_eq!(paths, ["a", "a/x", "a/x/y", "a/x!", "a!", "a0", "b"]);
    }

    #[test]
    fn quoting_round_trips() {
        for bytes in [&b""[..], b"a", b"a'b\\n", b"a\nb\t\r\x00\x7f", b"$'a'", b"\xff\xfe", "ä\u{202e}b".as_bytes()] {
            let quoted = Quoted::in_dollars(bytes).to_string();
            assert_eq!(unquoted(quoted.as_bytes()).as_deref(), Some(bytes), "{quoted}");
        }
        for text in ["a", "$'", "$'a", "'a'", "$'a'b'", "$'\\q'", "$'\\x1'", "$'\\'"] {
            assert_eq!(unquoted(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn quoted_text_has_no_control_characters() {
        for (bytes, shown) in [
            (&b"plain/x.txt"[..], "plain/x.txt"),
            (b"", "''"),
            (b"a b", "'a b'"),
            (b"a\nb", "$'a\\nb'"),
            (b"it's", "$'it\\'s'"),
            (b"\x1b[0m", "$'\\x1b[0m'"),
            (b"\xff", "$'\\xff'"),
            ("\u{202e}x".as_bytes(), "$'\\xe2\\x80\\xaex'"),
        ] {
            assert_eq!(Quoted::new(bytes).to_string(), shown);
        }
    }
}
