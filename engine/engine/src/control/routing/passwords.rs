// SPDX-License-Identifier: Apache-2.0
//! The passwords of sessions: files in a folder, into which the operator has Secrets mounted. No message of the contract has a password.
use spate_routing::{Secret, SecretError};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The folder of passwords; none if the engine has none.
#[derive(Clone, Debug)]
pub struct Passwords(pub Option<PathBuf>);

/// Why there is no password.
#[derive(Debug, thiserror::Error)]
pub(super) enum PasswordError {
    /// The engine has no folder of passwords.
    #[error("this engine has no folder of passwords; start it with --routing-passwords")]
    NoFolder,
    /// It is no file of the folder.
    #[error("{0:?}; must be the path of a file in the folder of passwords, such as bgp/dut")]
    Path(String),
    /// The file cannot be read. It may be there later.
    #[error("{file}: {error}")]
    File {
        /// Its path in the folder.
        file: String,
        /// Why.
        error: io::Error,
    },
    /// No session can have it.
    #[error("{file}: {error}")]
    Content {
        /// Its path in the folder.
        file: String,
        /// Why.
        error: SecretError,
    },
}

impl PasswordError {
    /// Whether the same request can succeed later.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Content { .. })
    }
}

impl Passwords {
    /// The password in a file.
    pub(super) fn read(&self, file: &str) -> Result<Secret, PasswordError> {
        let folder = self.0.as_ref().ok_or(PasswordError::NoFolder)?;
        let path = Path::new(file);
        if !path.components().all(|component| matches!(component, Component::Normal(_))) {
            return Err(PasswordError::Path(file.into()));
        }
        let text = fs::read_to_string(folder.join(path));
        let text = text.map_err(|error| PasswordError::File { file: file.into(), error })?;
        Secret::new(&text).map_err(|error| PasswordError::Content { file: file.into(), error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_read_from_their_folder_only() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        fs::create_dir_all(inside.join("bgp")).unwrap();
        fs::write(inside.join("bgp/dut"), "pa55").unwrap();
        fs::write(inside.join("newline"), "pa55\n").unwrap();
        fs::write(folder.path().join("outside"), "pa55").unwrap();
        let passwords = Passwords(Some(inside));
        assert_eq!(passwords.read("bgp/dut").unwrap(), Secret::new("pa55").unwrap());
        for (file, problem, may_pass) in [
            ("../outside", "must be the path of a file in the folder of passwords", false),
            ("/etc/passwd", "must be the path of a file in the folder of passwords", false),
            ("bgp/other", "bgp/other: No such file or directory", true),
            ("newline", "newline: has a quotation mark, a newline", true),
        ] {
            let error = passwords.read(file).unwrap_err();
            assert!(error.to_string().contains(problem) && error.may_pass() == may_pass, "{error}");
            assert!(!error.to_string().contains("pa55"), "{error}");
        }
        let none = Passwords(None).read("bgp/dut").unwrap_err().to_string();
        assert_eq!(none, "this engine has no folder of passwords; start it with --routing-passwords");
    }
}
