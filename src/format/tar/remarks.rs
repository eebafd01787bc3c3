//! Remarks on skipped parts of an archive: the first ones in full, the rest as a count.

use std::mem;

/// Most remarks kept in full.
const MAX_REMARKS: usize = 100;

/// A bounded list of remarks.
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

    /// Takes the remarks since the last call.
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
    fn remarks_past_limit_are_counted() {
        let mut remarks = Remarks::default();
        (0..MAX_REMARKS + 7).for_each(|number| remarks.add(number.to_string()));
        let taken = remarks.take();
        assert_eq!((taken.len(), &*taken[99], &*taken[100]), (101, "99", "7 more parts of the tar archive are skipped"));
        assert!(remarks.take().is_empty());
    }
}
