//! Extended attributes in the records of pax headers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::pax::Records;
use nra_core::entry::{Attribute, Namespace};
use nra_core::limits::{MAX_ATTRIBUTE_NAME, MAX_ATTRIBUTE_VALUE};
use nra_core::path::Quoted;

/// Records of extended attributes, as most programs write them, and their other form, with names and values in other letters.
const XATTR: &str = "SCHILY.xattr.";
const LIBARCHIVE: &str = "LIBARCHIVE.xattr.";
/// The record of the attribute `security.selinux`, as GNU tar writes it.
const SELINUX: &str = "RHT.security.selinux";
/// Records that tell of attributes: how their keys begin, how the names of the attributes begin instead, and whose they are. Lists with names in
/// them mean something on their own machine alone: kept as they are.
const ATTRIBUTES: [(&str, &str, Namespace); 4] = [
    (SELINUX, "security.selinux", Namespace::Xattr),
    (XATTR, "", Namespace::Xattr),
    ("SCHILY.acl.", "SCHILY.acl.", Namespace::Foreign),
    (LIBARCHIVE, "", Namespace::Xattr),
];
/// Attributes of an entry.
const MAX_ATTRIBUTES: usize = 4096;

/// Says whether records tell of attributes.
pub(super) fn has_any(records: &Records) -> bool {
    ATTRIBUTES.iter().any(|(prefix, ..)| records.with_prefix(prefix).next().is_some())
}

/// Returns the attributes that records tell of: those of all entries, and the entry's own ones, which come first. What is skipped is remarked.
pub(super) fn parse(global: &Records, own: &Records, remarks: &mut Vec<String>) -> Arc<[Attribute]> {
    let mut found: BTreeMap<Box<[u8]>, Attribute> = BTreeMap::new();
    let records = [global, own].into_iter().flat_map(|records| {
        ATTRIBUTES.iter().flat_map(|&(prefix, kept, namespace)| {
            records.with_prefix(prefix).map(move |(name, value)| (prefix, namespace, [kept.as_bytes(), name].concat(), value))
        })
    });
    let (mut impossible, mut other) = (0u64, 0u64);
    // The bound is one of records, as those that are skipped are work, too.
    for (number, (prefix, namespace, name, value)) in records.enumerate() {
        if number >= MAX_ATTRIBUTES {
            remarks.push(format!("its attributes beyond {MAX_ATTRIBUTES} are skipped"));
            break;
        }
        if prefix == LIBARCHIVE {
            // Most programs that write this form write the other one beside it.
            let name = percent_decoded(&name);
            if [own, global].iter().all(|records| records.get([XATTR.as_bytes(), &name].concat()).is_none()) {
                other += 1;
                if other == 1 {
                    let shown = Quoted::new(&name[..name.len().min(MAX_ATTRIBUTE_NAME)]);
                    remarks.push(format!("the attribute {shown} is skipped: it is there as {LIBARCHIVE}* alone"));
                }
            }
        } else if name.is_empty() || name.len() > MAX_ATTRIBUTE_NAME {
            impossible += 1;
        } else if value.len() > MAX_ATTRIBUTE_VALUE {
            let (name, len) = (Quoted::new(&name), value.len());
            remarks.push(format!("the attribute {name} is skipped: it has {len} bytes, more than {MAX_ATTRIBUTE_VALUE}"));
        } else {
            let attribute = Attribute { namespace, name: name.as_slice().into(), value: value.into() };
            found.insert(name.into(), attribute);
        }
    }
    if other > 1 {
        remarks.push(format!("{} more attributes are skipped: they are there as {LIBARCHIVE}* alone", other - 1));
    }
    match impossible {
        0 => {}
        1 => remarks.push("an attribute with an impossible name is skipped".into()),
        more => remarks.push(format!("{more} attributes with impossible names are skipped")),
    }
    let mut found: Vec<Attribute> = found.into_values().collect();
    found.sort_unstable();
    found.into()
}

/// Resolves `%41` and the like.
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
