//! A commit that opening has found, and the facts about its surroundings.

use crate::commit::Commit;
use crate::content::FrameRef;
use crate::footer::FOOTER_LEN;
use crate::frame::FrameKind;
use crate::reader::damage::undamaged;
use crate::reader::decrypt::KeyFrameRef;
use crate::reader::window::Window;
use crate::recovery::RecoveryHeader;
use nra_core::crypt::SALT_LEN;
use nra_core::error::Result;

pub(super) struct FoundCommit {
    pub(super) commit: Commit,
    pub(super) commit_ref: FrameRef,
    /// Offset and frame length of its key frame; zeros if the archive is not encrypted or the key
    /// frame was not visited.
    pub(super) keys: (u64, u64),
    /// Salt of its frames, if they are sealed.
    pub(super) salt: Option<[u8; SALT_LEN]>,
    /// Length of the file at that commit, including its footer.
    pub(super) end: u64,
    /// Recovery data after it.
    pub(super) recovery: Option<RecoveryHeader>,
    /// Whether its footer is valid.
    pub(super) has_footer: bool,
    pub(super) remarks: Vec<String>,
    /// The remark about bytes after it.
    pub(super) trailing_remark: Option<String>,
    /// Whether a later finished commit is lost.
    pub(super) lost_later: bool,
    /// Whether something in the archive is damaged: the footer, or a whole later commit.
    pub(super) recovered: bool,
}

impl FoundCommit {
    /// Returns a commit that was read, without regard to the following bytes.
    pub(super) fn new(commit: Commit, commit_ref: FrameRef, salt: Option<[u8; SALT_LEN]>) -> Self {
        let end = commit_ref.offset + commit_ref.length + FOOTER_LEN as u64;
        Self {
            commit,
            commit_ref,
            keys: (0, 0),
            salt,
            end,
            recovery: None,
            has_footer: false,
            remarks: Vec::new(),
            trailing_remark: None,
            lost_later: false,
            recovered: false,
        }
    }

    /// Checks whether the footer is valid.
    pub(super) fn with_footer(mut self, window: &Window) -> Result<Self> {
        if let Some(footer) = undamaged(window.footer_before(self.end))?
            && (footer.number, footer.commit_offset) == (self.commit.number, self.commit_ref.offset)
        {
            (self.has_footer, self.keys) = (true, footer.keys);
        }
        Ok(self)
    }

    /// Checks that these keys belong to this commit.
    pub(super) fn check_keys(&self, keys: &KeyFrameRef) -> Result<()> {
        let (end, number) = (self.commit_ref.offset, self.commit.number);
        if (keys.offset + keys.length, keys.commit, Some(keys.salt)) == (end, number, self.salt) {
            return Ok(());
        }
        Err(FrameKind::Keys.corrupt(keys.offset, format!("the key frame does not belong to commit {number}")))
    }
}
