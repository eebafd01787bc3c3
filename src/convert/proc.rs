//! What the system tells of this process.

use std::os::fd::AsRawFd;

/// Returns the bits of the mode that new files lack. The system can't be asked for them without setting them, so its own report is read; all bits of others where there is none.
pub(super) fn umask() -> u32 {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let value = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Umask:"));
    let value = value.and_then(|value| std::str::from_utf8(value).ok()).map(str::trim);
    value.and_then(|value| u32::from_str_radix(value, 8).ok()).unwrap_or(0o077)
}

/// Returns a path that leads to what is open, also when it has no name.
pub(super) fn path_of(handle: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}
