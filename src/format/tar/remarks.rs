//! Remarks on parts of an archive that are not served: the first ones are told one by one, the rest are counted.

use std::mem;

/// Remarks that are told one by one.
const MAX_REMARKS: usize = 100;

/// Remarks in the making.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    first: Vec<String>,
    more: u64,
}

impl Remarks {
    pub(super) fn add(&mut self, remark: String) {
        if self.first.len() < MAX_REMARKS {
            self.first.push(remark);
        } else {
            self.more += 1;
        }
    }

    /// Takes what came since it was taken last.
    pub(super) fn take(&mut self) -> Vec<String> {
        let mut remarks = mem::take(&mut self.first);
        match mem::take(&mut self.more) {
            0 => {}
            more => remarks.push(format!("{more} more parts of the tar archive are skipped")),
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_remarks_are_counted() {
        let mut remarks = Remarks::default();
        (0..MAX_REMARKS + 7).for_each(|number| remarks.add(number.to_string()));
        let told = remarks.take();
        assert_eq!((told.len(), &*told[99], &*told[100]), (101, "99", "7 more parts of the tar archive are skipped"));
        assert!(remarks.take().is_empty());
    }
}
