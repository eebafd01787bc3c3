//! How much of an entry is looked at: bounds of what is read, decoded and copied. The settings can
//! change them.

/// The bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Content that a preview reads at once, bytes.
    pub window: u64,
    /// Length of a picture file that is decoded, bytes.
    pub picture: u64,
    /// Entries below a directory that are gone through for its preview.
    pub directory: u64,
    /// Length of an archive that is opened within another one, in memory, bytes.
    pub archive: u64,
    /// Length of content that another program gets as a file, bytes.
    pub copy: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { window: 256 << 10, picture: 32 << 20, directory: 50_000, archive: 128 << 20, copy: 256 << 20 }
    }
}

impl Limits {
    /// Names in the settings.
    pub const NAMES: [&str; 5] = ["window", "picture", "directory", "archive", "copy"];

    /// Sets a bound by its name.
    ///
    /// # Errors
    ///
    /// When there is none of that name, or the browser would not work with it.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
        // Below a window of this size a screen of long lines asks for more all the time; above,
        // keys wait for what is drawn.
        let (bound, least, most) = match name {
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
        *bound = value;
        Ok(())
    }

    /// Returns how much of a window lies in front of a place that is gone to, bytes: as much as
    /// behind it.
    pub fn back(&self) -> u64 {
        self.window / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_name_and_its_range() {
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
