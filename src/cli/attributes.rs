//! Attributes on the command line and in JSON.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;

use crate::report::{CommandResult, Failure};
use nra_format::entry::{Attribute, EMBEDDING, MEDIA_TYPE, Namespace};
use nra_text::PathField;

/// An attribute as JSON.
#[derive(Debug, Serialize)]
pub struct AttributeRecord {
    namespace: &'static str,
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_b64: Option<String>,
}

impl AttributeRecord {
    /// Wraps an attribute.
    pub fn new(attribute: &Attribute) -> Self {
        let namespace = match attribute.namespace {
            Namespace::Xattr => "xattr",
            Namespace::User => "user",
            Namespace::Nra => "nra",
            Namespace::Foreign => "foreign",
        };
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let value_b64 = PathField::new(&attribute.value).path_b64;
        Self { namespace, name: lossy(&attribute.name), value: lossy(&attribute.value), value_b64 }
    }
}

/// The object that has the attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The archive.
    Archive,
    /// Entries.
    Entries,
}

/// Parses `NAME=VALUE` or `NAME`.
pub fn parse(text: &OsStr, scope: Scope) -> CommandResult<Attribute> {
    let bytes = text.as_bytes();
    let (name, value) = match bytes.iter().position(|&byte| byte == b'=') {
        Some(sign) => (&bytes[..sign], &bytes[sign + 1..]),
        None => (bytes, &b""[..]),
    };
    let attribute = new(name, value, scope)?;
    if name.starts_with(EMBEDDING) {
        match scope {
            Scope::Archive => check_space(value)?,
            Scope::Entries => {
                let failure = Failure::usage("cannot set embedding vectors of entries on the command line");
                return Err(failure.hint("use the library to write vectors; omit --entry to describe the embedding space"));
            }
        }
    }
    Ok(attribute)
}

/// Creates an attribute.
pub fn new(name: &[u8], value: &[u8], scope: Scope) -> CommandResult<Attribute> {
    if name.is_empty() || name == EMBEDDING {
        return Err(Failure::usage("missing attribute name").hint("use NAME=VALUE, or NAME for a tag"));
    }
    if name == MEDIA_TYPE && scope == Scope::Archive {
        return Err(Failure::usage("media-type is an attribute of entries").hint("use --entry PATTERN to select entries"));
    }
    let namespace = if name == MEDIA_TYPE || name.starts_with(EMBEDDING) { Namespace::Nra } else { Namespace::User };
    Ok(Attribute { namespace, name: name.into(), value: value.into() })
}

/// Validates the description of an embedding space. Spec: nra.md, section 12.
fn check_space(value: &[u8]) -> CommandResult<()> {
    let wrong = |detail: &str| {
        let failure = Failure::usage(format!("invalid embedding space: {detail}"));
        failure.hint("use embedding:ID='model=NAME;dimension=512;metric=cosine;dtype=f32' (metric and dtype are optional)")
    };
    let text = std::str::from_utf8(value).map_err(|_| wrong("not valid UTF-8"))?;
    let mut rest = ["model", "dimension", "metric", "dtype"].into_iter();
    let mut seen = 0;
    for field in text.split(';') {
        let Some((key, value)) = field.split_once('=').filter(|(_, value)| !value.is_empty()) else {
            return Err(wrong("expected KEY=VALUE parts"));
        };
        if !rest.any(|known| known == key) {
            return Err(wrong("expected model, dimension, metric and dtype, in this order"));
        }
        let is_number = || value.bytes().all(|byte| byte.is_ascii_digit()) && value.parse().is_ok_and(|number: u32| number > 0);
        if key == "dimension" && !is_number() {
            return Err(wrong("dimension must be a positive number"));
        }
        seen += u32::from(key == "model" || key == "dimension");
    }
    if seen == 2 { Ok(()) } else { Err(wrong("model and dimension are required")) }
}
