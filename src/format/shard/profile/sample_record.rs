//! The fields of a sample and their types, from the first bytes of its JSON or Cowrie record.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::cowrie;
use nra_core::description::Description;

/// Largest number of fields that are kept.
pub const MAX_FIELDS: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SampleRecord {
    /// Format of the record.
    pub format: &'static str,
    /// Type of the record: `object`, or that of a single value.
    pub kind: String,
    /// Names and types of the fields of an object.
    pub fields: Vec<(String, String)>,
    /// Number of further fields.
    pub omitted_fields: u64,
}

impl SampleRecord {
    pub fn add_field(&mut self, name: &str, kind: String) {
        if self.fields.len() < MAX_FIELDS {
            self.fields.push((name.to_owned(), kind));
        } else {
            self.omitted_fields += 1;
        }
    }

    /// Adds the fields to a table as rows.
    pub fn add_rows(&self, table: &mut Description) {
        self.fields.iter().for_each(|(name, kind)| table.row(&[name, kind]));
        table.row_count += self.omitted_fields;
        if self.fields.is_empty() {
            table.fact("value", self.kind.as_str());
        }
    }
}

/// The type of a value. For nested lists, it consists of their lengths and the type of the innermost
/// values, judging by the first element of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueType {
    /// Name of the type of a single value.
    pub name: &'static str,
    /// Lengths of the lists around it; `None` if unknown.
    pub sizes: Vec<Option<u64>>,
}

impl ValueType {
    /// Returns the type of a single value.
    pub fn of(name: &'static str) -> Self {
        Self { name, sizes: Vec::new() }
    }

    /// Returns the type of a list with this first element.
    pub fn list(len: Option<u64>, first: Option<Self>) -> Self {
        let inner = first.unwrap_or(Self::of("list"));
        Self { name: inner.name, sizes: [vec![len], inner.sizes].concat() }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if self.sizes.is_empty() {
            return Ok(());
        }
        let size = |size: &Option<u64>| size.map_or_else(|| "…".to_owned(), |size| size.to_string());
        write!(f, " [{}]", self.sizes.iter().map(size).collect::<Vec<_>>().join(", "))
    }
}

/// Parses a record or, unless `is_whole`, its first bytes.
pub fn parse(bytes: &[u8], is_whole: bool) -> Result<SampleRecord, String> {
    if bytes.starts_with(&cowrie::MAGIC) {
        return cowrie::parse(bytes, is_whole);
    }
    let record = RefCell::new(SampleRecord { format: "JSON", ..SampleRecord::default() });
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let top = ValueVisitor(Some(&record)).deserialize(&mut deserializer);
    let top = top.and_then(|kind| deserializer.end().map(|()| kind));
    let mut record = record.into_inner();
    match top {
        Ok(kind) => record.kind = kind.to_string(),
        // The record continues past these bytes.
        Err(error) if error.is_eof() && !is_whole => {
            if record.kind.is_empty() {
                record.kind = "…".to_owned();
            }
        }
        Err(error) => return Err(format!("neither Cowrie nor JSON: {error}")),
    }
    Ok(record)
}

/// Visits any value. Fields of an object are stored in the cell, if there is one, so that they are
/// kept if the end is missing.
struct ValueVisitor<'a>(Option<&'a RefCell<SampleRecord>>);

impl<'de> DeserializeSeed<'de> for ValueVisitor<'_> {
    type Value = ValueType;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ValueType, D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! scalars {
    ($($visit:ident($type:ty) => $name:literal),*) => {
        $(fn $visit<E>(self, _: $type) -> Result<ValueType, E> {
            Ok(ValueType::of($name))
        })*
    };
}

impl<'de> Visitor<'de> for ValueVisitor<'_> {
    type Value = ValueType;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    scalars!(
        visit_bool(bool) => "bool",
        visit_i64(i64) => "int",
        visit_u64(u64) => "int",
        visit_f64(f64) => "float",
        visit_str(&str) => "string"
    );

    fn visit_unit<E>(self) -> Result<ValueType, E> {
        Ok(ValueType::of("null"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ValueType, A::Error> {
        let first = seq.next_element_seed(ValueVisitor(None))?;
        let mut len = u64::from(first.is_some());
        while first.is_some() && seq.next_element::<IgnoredAny>()?.is_some() {
            len += 1;
        }
        Ok(ValueType::list(Some(len), first))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ValueType, A::Error> {
        let Some(cell) = self.0 else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(ValueType::of("object"));
        };
        let record = || cell.try_borrow_mut().map_err(A::Error::custom);
        record()?.kind = "object".to_owned();
        while let Some(name) = map.next_key::<String>()? {
            match map.next_value_seed(ValueVisitor(None)) {
                Ok(kind) => record()?.add_field(&name, kind.to_string()),
                Err(error) => {
                    record()?.add_field(&name, "…".to_owned());
                    return Err(error);
                }
            }
        }
        Ok(ValueType::of("object"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(text: &str, is_whole: bool) -> Result<String, String> {
        let record = parse(text.as_bytes(), is_whole)?;
        let fields: Vec<String> = record.fields.iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
        Ok(format!("{} {}", record.kind, fields.join(", ")).trim_end().to_owned())
    }

    #[test]
    fn fields_and_types_of_json_are_detected() {
        let text = r#"{"input":[[0.5,1],[2,3],[4,5]],"target":-1,"text":"x","none":null,"meta":{"a":[1]},"empty":[],"yes":true}"#;
        let expected =
            "object input: float [3, 2], target: int, text: string, none: null, meta: object, empty: list [0], yes: bool";
        assert_eq!(describe(text, true).as_deref(), Ok(expected));
        assert_eq!(describe("42", true).as_deref(), Ok("int"));
        assert_eq!(describe("[{}]", true).as_deref(), Ok("object [1]"));
    }

    #[test]
    fn truncated_record_is_described_up_to_its_end() {
        assert_eq!(describe(r#"{"id":7,"input":[1,2,3"#, false).as_deref(), Ok("object id: int, input: …"));
        assert_eq!(describe(r#"{"id":7,"inp"#, false).as_deref(), Ok("object id: int"));
        assert_eq!(describe("[1,2", false).as_deref(), Ok("…"));
        assert!(describe(r#"{"id":7,"inp"#, true).is_err());
        assert!(describe("{]", false).is_err());
        assert!(describe(&"[".repeat(100_000), false).is_err(), "too deep");
    }

    #[test]
    fn number_of_fields_is_limited() {
        let fields: Vec<String> = (0..MAX_FIELDS + 5).map(|number| format!("\"{number}\":1")).collect();
        let record = parse(format!("{{{}}}", fields.join(",")).as_bytes(), true).unwrap();
        assert_eq!((record.fields.len(), record.omitted_fields), (MAX_FIELDS, 5));
    }
}
