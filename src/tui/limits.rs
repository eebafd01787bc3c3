//! Limits of reading, decoding and copying. The settings can change them.

/// The limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Content that a preview reads at a time, bytes.
    pub window: u64,
    /// Length of a picture file that is decoded, bytes.
    pub picture: u64,
    /// Entries below a directory that its preview summarizes.
    pub directory: u64,
    /// Length of a nested archive, which is opened in memory, bytes.
    pub archive: u64,
    /// Length of content copied for another program, bytes.
    pub copy: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { window: 256 << 10, picture: 32 << 20, directory: 50_000, archive: 128 << 20, copy: 256 << 20 }
    }
}

impl Limits {
    pub const NAMES: [&str; 5] = ["window", "picture", "directory", "archive", "copy"];

    /// Sets a limit by its name. Returns an error for an unknown name or a value out of range.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
        // A screen of long lines would always need more than a smaller window, and drawing a larger
        // one would delay keys.
        let (limit, least, most) = match name {
            "window" => (&mut self.window, 64 << 10, 16 << 20),
            "picture" => (&mut self.picture, 0, 1 << 30),
            "directory" => (&mut self.directory, 0, u64::MAX),
            "archive" => (&mut self.archive, 0, 16 << 30),
            "copy" => (&mut self.copy, 0, u64::MAX),
            _ => return Err(format!("no limit '{name}' (known: {})", Self::NAMES.join(", "))),
        };
        if !(least..=most).contains(&value) {
            return Err(format!("{name} is {value}, and can be {least} to {most}"));
        }
        *limit = value;
        Ok(())
    }

    /// Returns the bytes of a window before its target: half of it.
    pub fn back(&self) -> u64 {
        self.window / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_names_and_ranges() {
        let mut limits = Limits::default();
        for name in Limits::NAMES {
            limits.set(name, 1 << 20).unwrap();
        }
        let all = 1 << 20;
        assert_eq!(limits, Limits { window: all, picture: all, directory: all, archive: all, copy: all });
        assert!(limits.set("window", 10).unwrap_err().contains("65536 to"));
        assert!(limits.set("pictures", 10).unwrap_err().contains("no limit"));
    }
}
