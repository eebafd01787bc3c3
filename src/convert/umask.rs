//! The umask of the process.

/// Returns the bits that new files lack. It can't be asked for without setting it, so the system's own report is read; all bits of others where there is none.
pub(super) fn umask() -> u32 {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let value = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Umask:"));
    let value = value.and_then(|value| std::str::from_utf8(value).ok()).map(str::trim);
    value.and_then(|value| u32::from_str_radix(value, 8).ok()).unwrap_or(0o077)
}
