//! Information of the system about this process.

use std::os::fd::AsRawFd;

/// Returns the umask. The system call for it would also set it, so this reads `/proc`; without
/// `/proc` it returns the most restrictive common value.
pub(super) fn umask() -> u32 {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let value = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Umask:"));
    let value = value.and_then(|value| std::str::from_utf8(value).ok()).map(str::trim);
    value.and_then(|value| u32::from_str_radix(value, 8).ok()).unwrap_or(0o077)
}

/// Returns a path to an open file, which may have no name.
pub(super) fn path_of(handle: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}
