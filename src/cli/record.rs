//! Records of the JSON output. `docs/schema` describes them.

use serde::Serialize;

/// Returns a JSON object with these fields, in this order: `record!("TYPE" => ..BASE, NAME: VALUE,
/// …)`. The type and the base, whose fields precede the others, are optional. `NAME` alone is short
/// for `NAME: NAME`. Fields that are `None` are omitted.
macro_rules! record {
    (@first $first:expr $(, $rest:expr)*) => { $first };
    (@value $field:ident) => { $field };
    (@value $field:ident $value:expr) => { $value };
    ($($kind:literal =>)? $(..$base:expr,)? $($field:ident $(: $value:expr)?),* $(,)?) => {{
        #[derive(serde::Serialize)]
        struct Record<Base, $($field),*> {
            #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
            record_type: Option<&'static str>,
            #[serde(flatten)]
            base: Base,
            $(#[serde(skip_serializing_if = "crate::record::is_null")] $field: $field),*
        }
        Record {
            record_type: record!(@first $(Some($kind),)? None),
            base: record!(@first $($base,)? None::<()>),
            $($field: record!(@value $field $($value)?)),*
        }
    }};
}
pub(crate) use record;

/// Returns whether a value is `null` in JSON.
pub(crate) fn is_null(value: &impl Serialize) -> bool {
    serde_json::to_value(value).is_ok_and(|value| value.is_null())
}

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
