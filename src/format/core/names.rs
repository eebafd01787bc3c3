//! Encodings of names in containers that do not declare one.

use std::borrow::Cow;
use std::fmt;

use encoding_rs::Encoding;
use oem_cp::code_table::DECODING_TABLE_CP_MAP;
use oem_cp::code_table_type::TableType;

/// The encoding of names.
#[derive(Clone, Copy)]
pub enum NameEncoding {
    /// A code page of DOS.
    Dos(u16, &'static TableType),
    /// An encoding of Windows, Unix or the web.
    Other(&'static Encoding),
}

impl NameEncoding {
    /// Code page 437, the default of the zip format.
    pub fn cp437() -> Self {
        Self::dos(437).expect("it is in the table")
    }

    /// Returns the encoding of this name: `cp437`, `cp850`, `shift_jis`, `gbk`, `koi8-r`, `windows-1251`, `latin1`, `utf-8`.
    pub fn named(name: &str) -> Option<Self> {
        let lower = name.trim().to_ascii_lowercase();
        let digits = ["cp", "ibm", "dos-", "oem"].iter().find_map(|prefix| lower.strip_prefix(prefix)).unwrap_or(&lower);
        if let Ok(number) = digits.parse() {
            // Code pages of Windows have numbers, too.
            return Self::dos(number).or_else(|| Self::windows(number));
        }
        Encoding::for_label_no_replacement(lower.as_bytes()).filter(|encoding| encoding.is_ascii_compatible()).map(Self::Other)
    }

    fn dos(number: u16) -> Option<Self> {
        DECODING_TABLE_CP_MAP.get(&number).map(|table| Self::Dos(number, table))
    }

    fn windows(number: u16) -> Option<Self> {
        let label = match number {
            932 => "shift_jis".to_owned(),
            936 => "gbk".to_owned(),
            949 => "euc-kr".to_owned(),
            950 => "big5".to_owned(),
            65_001 => "utf-8".to_owned(),
            1_250..=1_258 => format!("windows-{number}"),
            _ => return None,
        };
        Encoding::for_label(label.as_bytes()).map(Self::Other)
    }

    /// Returns `name` in UTF-8. Invalid bytes become U+FFFD.
    pub fn decode<'a>(&self, name: &'a [u8]) -> Cow<'a, [u8]> {
        if name.is_ascii() {
            return Cow::Borrowed(name);
        }
        match self {
            Self::Dos(_, table) => Cow::Owned(table.decode_string_lossy(name).into_bytes()),
            Self::Other(encoding) => match encoding.decode_without_bom_handling(name).0 {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
        }
    }
}

impl fmt::Debug for NameEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dos(number, _) => write!(f, "cp{number}"),
            Self::Other(encoding) => f.write_str(encoding.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_names_the_encoding() {
        let debug = |name| format!("{:?}", NameEncoding::named(name).unwrap());
        assert_eq!([debug("850"), debug("latin1")], ["cp850", "windows-1252"]);
    }

    #[test]
    fn named_accepts_usual_spellings() {
        for (name, bytes, text) in [
            ("cp437", &b"\x81ber"[..], "über"),
            ("CP850", b"\x81ber", "über"),
            ("IBM866", b"\x80", "А"),
            ("866", b"\x80", "А"),
            ("cp1251", b"\xc0", "А"),
            ("windows-1251", b"\xc0", "А"),
            ("cp932", b"\x93\xfa\x96{", "日本"),
            ("Shift_JIS", b"\x93\xfa\x96{", "日本"),
            ("gbk", b"\xd6\xd0", "中"),
            ("936", b"\xd6\xd0", "中"),
            ("cp949", b"\xc7\xd1", "한"),
            ("cp950", b"\xa4\xa4", "中"),
            ("cp65001", "ü".as_bytes(), "ü"),
            ("koi8-r", b"\xe1", "А"),
            ("latin1", b"\xfc", "ü"),
            ("utf8", "ü".as_bytes(), "ü"),
            ("cp857", b"a\xd5", "a\u{fffd}"),
        ] {
            let encoding = NameEncoding::named(name).unwrap_or_else(|| panic!("{name} is known"));
            assert_eq!(std::str::from_utf8(&encoding.decode(bytes)).unwrap(), text, "{name}");
        }
        for name in ["", "klingon", "cp1", "99999", "utf-16le", "replacement"] {
            assert!(NameEncoding::named(name).is_none(), "{name}");
        }
    }
}
