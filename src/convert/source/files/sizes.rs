//! Estimates the number of bytes to pack.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use rustix::fs::{AtFlags, statat};

use super::read::Context;
use crate::source::walk::{Facts, NameKind};
use nra_format::progress::Counter;

/// The sizes of up to this many names are read immediately: that takes a few milliseconds.
const SIZED_NAMES: usize = 1_024;
/// The sizes of more names are read after this time: 60,000 files are packed in half of it.
const SIZES_AFTER: Duration = Duration::from_millis(600);

/// Reports how many bytes the files of a window have. Reading many sizes is delayed until packing
/// takes long. It ends when the other end of `over` is dropped.
pub(super) fn expect_bytes(context: Context<'_>, over: &Receiver<()>) {
    let Context { tree, handles, window, plan, .. } = context;
    if plan.len() > SIZED_NAMES && over.recv_timeout(SIZES_AFTER) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let flags = if context.follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    let size = |position| {
        let name = &window.names[plan.name_at(position)];
        let directory = handles.get(tree, name.directory).ok()?;
        let facts = Facts::new(&statat(&directory, window.name(name), flags).ok()?);
        (name.kind == NameKind::File && !context.own.contains(&facts.identity)).then_some(facts.size)
    };
    let mut sum = 0u64;
    for position in
        (0..plan.len()).filter_map(|position| u32::try_from(position).ok()).filter(|&position| !plan.is_repeated(position))
    {
        if over.try_recv() == Err(TryRecvError::Disconnected) {
            return;
        }
        sum = sum.saturating_add(size(position).unwrap_or(0));
    }
    context.monitor.expect(Counter::Bytes, sum);
}
