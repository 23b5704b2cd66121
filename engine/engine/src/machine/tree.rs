// SPDX-License-Identifier: Apache-2.0
//! How are files of sysfs and procfs read? Each has one value; errors have the path.
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// A file system, by its root.
pub(super) struct Tree(pub(super) PathBuf);

impl Tree {
    /// Why a fact is unknown.
    pub(super) fn unknown(&self, path: &str, problem: &str) -> String {
        format!("{}: {problem}", self.0.join(path).display())
    }

    /// Why a fact is unknown whose file could not be read.
    pub(super) fn failed(&self, path: &str, error: &std::io::Error) -> String {
        let problem = match error.kind() {
            ErrorKind::NotFound => "there is no such file".to_owned(),
            ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        self.unknown(path, &problem)
    }

    /// Whether there is such a path.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.0.join(path).exists()
    }

    /// A file's text without the line feed at its end.
    pub(super) fn text(&self, path: &str) -> Result<String, String> {
        let text = fs::read_to_string(self.0.join(path)).map_err(|error| self.failed(path, &error))?;
        Ok(text.trim().to_owned())
    }

    /// The text of a file, or none where an existing folder has no such file.
    pub(super) fn optional_text(&self, path: &str, folder: &str) -> Result<Option<String>, String> {
        match fs::read_to_string(self.0.join(path)) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound && self.exists(folder) => Ok(None),
            Err(error) => Err(self.failed(path, &error)),
        }
    }

    /// Numbers in the kernel's format, such as "0-3,8". An empty file has none.
    pub(super) fn list(&self, path: &str) -> Result<Vec<usize>, String> {
        let text = self.text(path)?;
        parse_list(&text).ok_or_else(|| self.unknown(path, &format!("{text:?} is no list")))
    }

    /// Name of what a link leads to, or none where there is no such link in a folder that is there.
    pub(super) fn target(&self, path: &str) -> Result<Option<String>, String> {
        let full = self.0.join(path);
        match fs::read_link(&full) {
            Ok(target) => Ok(target.file_name().map(|name| name.to_string_lossy().into_owned())),
            Err(error)
                if error.kind() == ErrorKind::NotFound && full.parent().is_some_and(|folder| folder.exists()) =>
            {
                Ok(None)
            }
            Err(error) => Err(self.failed(path, &error)),
        }
    }
}

/// Reads numbers in the kernel's format; none if it is another.
pub(super) fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // No kernel has more CPUs or nodes.
        if first > last || last > 1 << 16 {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}
