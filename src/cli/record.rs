//! Records of the JSON output. `docs/schema` describes them.

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// A JSON object: an optional type, the fields of `base`, then `fields` in this order.
#[derive(Debug, Serialize)]
pub(crate) struct Record<B> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    #[serde(flatten)]
    pub base: B,
    #[serde(flatten, serialize_with = "as_map")]
    pub fields: Vec<(&'static str, Box<RawValue>)>,
}

fn as_map<S: Serializer>(fields: &[(&'static str, Box<RawValue>)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields.iter().filter(|(_, value)| value.get() != "null").map(|(name, value)| (name, value)))
}

/// Returns a field as JSON.
pub(crate) fn json(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("fields have text keys")
}

/// Returns a [`Record`]: `record!("TYPE" => ..BASE, NAME: VALUE, …)`. The type and the base are
/// optional. `NAME` alone is short for `NAME: NAME`. Fields that are `None` are omitted.
macro_rules! record {
    (@first $first:expr $(, $rest:expr)*) => { $first };
    ($($kind:literal =>)? $(..$base:expr,)? $($field:ident $(: $value:expr)?),* $(,)?) => {
        $crate::record::Record {
            kind: record!(@first $(Some($kind),)? None),
            base: record!(@first $($base,)? None::<()>),
            fields: vec![$((stringify!($field), $crate::record::json(&record!(@first $($value,)? $field)))),*],
        }
    };
}
pub(crate) use record;

#[cfg(test)]
mod tests {
    #[test]
    fn records_have_fields_in_order_without_null() {
        let entry = record! { "entry" => ..record! { path: "a" }, size: 7, kind: None::<u8>, last: [true] };
        assert_eq!(serde_json::to_string(&entry).unwrap(), r#"{"type":"entry","path":"a","size":7,"last":[true]}"#);
        let a = "";
        let plain = record! { b: 1, a };
        assert_eq!(serde_json::to_string(&plain).unwrap(), r#"{"b":1,"a":""}"#);
    }
}
