//! Extended attributes in pax records.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::pax::Records;
use nra_core::entry::{Attribute, Namespace};
use nra_core::limits::{MAX_ATTRIBUTE_NAME, MAX_ATTRIBUTE_VALUE};
use nra_core::path::Quoted;

/// Records of extended attributes: the common form, and libarchive's form with encoded names and
/// values.
const XATTR: &str = "SCHILY.xattr.";
const LIBARCHIVE: &str = "LIBARCHIVE.xattr.";
/// The record of `security.selinux` that GNU tar writes.
const SELINUX: &str = "RHT.security.selinux";
/// Records of attributes: prefix of the key, replacement of the prefix in the attribute's name, and
/// namespace. The names in access control lists are only valid on their own machine, so these are
/// stored unchanged.
const ATTRIBUTES: [(&str, &str, Namespace); 4] = [
    (SELINUX, "security.selinux", Namespace::Xattr),
    (XATTR, "", Namespace::Xattr),
    ("SCHILY.acl.", "SCHILY.acl.", Namespace::Foreign),
    (LIBARCHIVE, "", Namespace::Xattr),
];
/// Most attributes of an entry.
const MAX_ATTRIBUTES: usize = 4096;

/// Returns whether there are records of attributes.
pub(super) fn has_any(records: &Records) -> bool {
    ATTRIBUTES.iter().any(|(prefix, ..)| records.with_prefix(prefix).next().is_some())
}

/// Returns the attributes in the records, of which those of the entry come first. Adds a remark for
/// each skipped one.
pub(super) fn parse(global: &Records, own: &Records, remarks: &mut Vec<String>) -> Arc<[Attribute]> {
    let mut found: BTreeMap<Box<[u8]>, Attribute> = BTreeMap::new();
    let records = [global, own].into_iter().flat_map(|records| {
        ATTRIBUTES.iter().flat_map(|&(prefix, kept, namespace)| {
            records.with_prefix(prefix).map(move |(name, value)| (prefix, namespace, [kept.as_bytes(), name].concat(), value))
        })
    });
    let (mut invalid, mut other) = (0u64, 0u64);
    // The limit counts records, including skipped ones, because each costs time.
    for (number, (prefix, namespace, name, value)) in records.enumerate() {
        if number >= MAX_ATTRIBUTES {
            remarks.push(format!("attributes after the first {MAX_ATTRIBUTES} are skipped"));
            break;
        }
        if prefix == LIBARCHIVE {
            // Most programs that write this form also write the common form.
            let name = percent_decoded(&name);
            if [own, global].iter().all(|records| records.get([XATTR.as_bytes(), &name].concat()).is_none()) {
                other += 1;
                if other == 1 {
                    let shown = Quoted::new(&name[..name.len().min(MAX_ATTRIBUTE_NAME)]);
                    remarks.push(format!("the attribute {shown} is skipped: it is stored only as {LIBARCHIVE}*"));
                }
            }
        } else if name.is_empty() || name.len() > MAX_ATTRIBUTE_NAME {
            invalid += 1;
        } else if value.len() > MAX_ATTRIBUTE_VALUE {
            let (name, len) = (Quoted::new(&name), value.len());
            remarks.push(format!("the attribute {name} is skipped: it has {len} bytes, more than {MAX_ATTRIBUTE_VALUE}"));
        } else {
            let attribute = Attribute { namespace, name: name.as_slice().into(), value: value.into() };
            found.insert(name.into(), attribute);
        }
    }
    if other > 1 {
        remarks.push(format!("{} more attributes are skipped: they are stored only as {LIBARCHIVE}*", other - 1));
    }
    match invalid {
        0 => {}
        1 => remarks.push("an attribute with an invalid name is skipped".into()),
        more => remarks.push(format!("{more} attributes with invalid names are skipped")),
    }
    let mut found: Vec<Attribute> = found.into_values().collect();
    found.sort_unstable();
    found.into()
}

/// Decodes `%41` and the like.
fn percent_decoded(name: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, more)) = rest.split_first() {
        let digits = more.get(..2).filter(|digits| first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        decoded.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &more[2..] } else { more };
    }
    decoded
}
