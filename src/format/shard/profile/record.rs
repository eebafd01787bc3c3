//! Fields of a record and their types: JSON or Cowrie, from as much of it as there is.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::cowrie;
use nra_core::description::Description;

/// Fields of a record that are told.
pub const MAX_FIELDS: usize = 200;

/// What is known of a record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// How it is written.
    pub format: &'static str,
    /// What it is: `object`, or one value.
    pub kind: String,
    /// Names and types of the fields of an object.
    pub fields: Vec<(String, String)>,
    /// Fields that are not among them.
    pub left_out: u64,
}

impl Record {
    /// Adds a field.
    pub fn field(&mut self, name: &str, kind: String) {
        if self.fields.len() < MAX_FIELDS {
            self.fields.push((name.to_owned(), kind));
        } else {
            self.left_out += 1;
        }
    }

    /// Adds the fields to a table as rows.
    pub fn fill(&self, table: &mut Description) {
        self.fields.iter().for_each(|(name, kind)| table.row(&[name, kind]));
        table.row_count += self.left_out;
        if self.fields.is_empty() {
            table.fact("value", self.kind.as_str());
        }
    }
}

/// The type of a value: for lists the sizes, as far as the first element of each tells, and the type of what is in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Type of a single value.
    pub word: &'static str,
    /// Lengths of the lists around it; `None` where the end was not seen.
    pub sizes: Vec<Option<u64>>,
}

impl Kind {
    /// A single value.
    pub fn of(word: &'static str) -> Self {
        Self { word, sizes: Vec::new() }
    }

    /// A list with this first element.
    pub fn list(len: Option<u64>, first: Option<Self>) -> Self {
        let inner = first.unwrap_or(Self::of("list"));
        Self { word: inner.word, sizes: [vec![len], inner.sizes].concat() }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)?;
        if self.sizes.is_empty() {
            return Ok(());
        }
        let size = |size: &Option<u64>| size.map_or_else(|| "…".to_owned(), |size| size.to_string());
        write!(f, " [{}]", self.sizes.iter().map(size).collect::<Vec<_>>().join(", "))
    }
}

/// Reads as much of a record as there is.
///
/// # Errors
///
/// A sentence, when it is none.
pub fn read(head: &[u8], is_whole: bool) -> Result<Record, String> {
    if head.starts_with(&cowrie::MAGIC) {
        return cowrie::read(head, is_whole);
    }
    let record = RefCell::new(Record { format: "JSON", ..Record::default() });
    let mut deserializer = serde_json::Deserializer::from_slice(head);
    let top = Top(&record).deserialize(&mut deserializer);
    let top = top.and_then(|kind| deserializer.end().map(|()| kind));
    let mut record = record.into_inner();
    match top {
        Ok(kind) => record.kind = kind.to_string(),
        // It goes on behind what was read.
        Err(error) if error.is_eof() && !is_whole => {
            if record.kind.is_empty() {
                record.kind = "…".to_owned();
            }
        }
        Err(error) => return Err(format!("neither Cowrie nor JSON: {error}")),
    }
    Ok(record)
}

/// The value of the whole record: fields go where they are kept although the end is missing.
struct Top<'a>(&'a RefCell<Record>);

impl<'de> DeserializeSeed<'de> for Top<'_> {
    type Value = Kind;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kind, D::Error> {
        deserializer.deserialize_any(Any(Some(self.0)))
    }
}

/// Any value; fields of an object are kept where that is wanted.
struct Any<'a>(Option<&'a RefCell<Record>>);

impl<'de> DeserializeSeed<'de> for Any<'_> {
    type Value = Kind;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kind, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any<'_> {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Kind, E> {
        Ok(Kind::of("bool"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Kind, E> {
        Ok(Kind::of("int"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Kind, E> {
        Ok(Kind::of("int"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Kind, E> {
        Ok(Kind::of("float"))
    }

    fn visit_str<E>(self, _: &str) -> Result<Kind, E> {
        Ok(Kind::of("string"))
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::of("null"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Kind, A::Error> {
        let first = seq.next_element_seed(Any(None))?;
        let mut len = u64::from(first.is_some());
        while first.is_some() && seq.next_element::<IgnoredAny>()?.is_some() {
            len += 1;
        }
        Ok(Kind::list(Some(len), first))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Kind, A::Error> {
        let Some(record) = self.0 else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Kind::of("object"));
        };
        let kept = || record.try_borrow_mut().map_err(A::Error::custom);
        kept()?.kind = "object".to_owned();
        while let Some(name) = map.next_key::<String>()? {
            match map.next_value_seed(Any(None)) {
                Ok(kind) => kept()?.field(&name, kind.to_string()),
                Err(error) => {
                    kept()?.field(&name, "…".to_owned());
                    return Err(error);
                }
            }
        }
        Ok(Kind::of("object"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, is_whole: bool) -> Result<String, String> {
        let record = read(text.as_bytes(), is_whole)?;
        let fields: Vec<String> = record.fields.iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
        Ok(format!("{} {}", record.kind, fields.join(", ")).trim_end().to_owned())
    }

    #[test]
    fn fields_and_types_of_json() {
        let text = r#"{"input":[[0.5,1],[2,3],[4,5]],"target":-1,"text":"x","none":null,"meta":{"a":[1]},"empty":[],"yes":true}"#;
        let expected =
            "object input: float [3, 2], target: int, text: string, none: null, meta: object, empty: list [0], yes: bool";
        assert_eq!(told(text, true).as_deref(), Ok(expected));
        assert_eq!(told("42", true).as_deref(), Ok("int"));
        assert_eq!(told("[{}]", true).as_deref(), Ok("object [1]"));
    }

    #[test]
    fn a_cut_record_tells_what_is_there() {
        assert_eq!(told(r#"{"id":7,"input":[1,2,3"#, false).as_deref(), Ok("object id: int, input: …"));
        assert_eq!(told(r#"{"id":7,"inp"#, false).as_deref(), Ok("object id: int"));
        assert_eq!(told("[1,2", false).as_deref(), Ok("…"));
        assert!(told(r#"{"id":7,"inp"#, true).is_err());
        assert!(told("{]", false).is_err());
        assert!(told(&"[".repeat(100_000), false).is_err(), "too deep");
    }

    #[test]
    fn fields_are_bounded() {
        let fields: Vec<String> = (0..MAX_FIELDS + 5).map(|number| format!("\"{number}\":1")).collect();
        let record = read(format!("{{{}}}", fields.join(",")).as_bytes(), true).unwrap();
        assert_eq!((record.fields.len(), record.left_out), (MAX_FIELDS, 5));
    }
}
