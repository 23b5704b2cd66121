// SPDX-License-Identifier: Apache-2.0
//! Connection records as a Parquet file. docs/reference/records.md lists its columns.
//!
//! A Parquet file can be read once its footer is written: until then it has another name, [`PARTIAL`] behind its own. [`Reading`]
//! reads such a file too, up to its last whole row group.
//!
//! ```
//! use spate_records::{FileInfo, Reading, RecordFile};
//!
//! let path = std::env::temp_dir().join(format!("spate-records-{}.parquet", std::process::id()));
//! let info = FileInfo { run: "web-1".into(), templates: vec!["http".into()], one_in: 1 };
//! let mut file = RecordFile::create(&path, info, 1000)?;
//! file.finish(|| true)?; // add() before
//! assert_eq!(Reading::open(&path)?.records(), 0);
//! std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod columns;
mod note;
mod reading;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parquet::{
    basic::Encoding,
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties, WriterVersion},
        writer::SerializedFileWriter,
    },
    schema::types::ColumnPath,
};
use spate_stateful::Record;

use columns::{DICTIONARY_COLUMNS, Rows};

pub use parquet::errors::ParquetError;
pub use reading::{Reading, Value};

/// Suffix of the name of a file that is being written.
pub const PARTIAL: &str = ".partial";
/// Records of a row group: they are held in memory until it is full.
pub const ROW_GROUP: usize = 65_536;
/// In the footer: the version of the columns.
pub const VERSION: &str = "1";

/// What all records of a file have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// The run's name.
    pub run: String,
    /// Names of templates, by their index in records.
    pub templates: Vec<String>,
    /// One flow of this many was recorded.
    pub one_in: u32,
}

/// Why there are no records.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file exists, finished or not.
    #[error("{0} exists already: give another path, or move it away")]
    Exists(PathBuf),
    /// The file must not be made.
    #[error(
        "{path}: {source}: its folder must be owned by the engine's user (in a pod root, without CAP_DAC_OVERRIDE) or be writable by all; \
         chown or chmod it"
    )]
    Denied {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file cannot be made or written.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The records cannot be written as Parquet.
    #[error("{path}: {source}")]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// Error of the writer.
        source: ParquetError,
    },
}

/// A file of records that is being written. Dropped before it is finished, it stays unfinished, or is removed if it has no row group.
pub struct RecordFile {
    path: PathBuf,
    partial: PathBuf,
    /// The writer; none when the file is finished.
    writer: Option<SerializedFileWriter<fs::File>>,
    about: FileInfo,
    rows: Rows,
    /// Bytes up to the last whole row group and its note, and records in them.
    whole: (u64, u64),
    written: u64,
    most: u64,
    omitted: u64,
}

impl RecordFile {
    /// Makes a file for up to `most` records.
    ///
    /// # Errors
    /// If there is such a file, or it cannot be made.
    pub fn create(path: &Path, about: FileInfo, most: u64) -> Result<Self, Error> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(PARTIAL);
        let partial = PathBuf::from(partial);
        if path.exists() {
            return Err(Error::Exists(path.into()));
        }
        let file = fs::File::create_new(&partial).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists(partial.clone()),
            io::ErrorKind::PermissionDenied => Error::Denied { path: partial.clone(), source },
            _ => Error::Io { path: partial.clone(), source },
        })?;
        let writer = SerializedFileWriter::new(file, columns::schema(), Arc::new(properties()))
            .map_err(|source| Error::Format { path: partial.clone(), source })?;
        let rows = Rows::with_room(ROW_GROUP);
        Ok(Self {
            path: path.into(),
            partial,
            writer: Some(writer),
            about,
            rows,
            whole: (0, 0),
            written: 0,
            most,
            omitted: 0,
        })
    }

    /// Adds a record, whose times are those of the wall clock: ns since the epoch.
    ///
    /// # Errors
    /// If it cannot be written; no more can be then.
    pub fn add(&mut self, record: &Record) -> Result<(), Error> {
        if self.written == self.most {
            self.omitted += 1;
            return Ok(());
        }
        self.written += 1;
        self.rows.add(record, &self.about);
        if self.rows.len() == ROW_GROUP { self.flush() } else { Ok(()) }
    }

    /// Records in the file.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Records that were omitted because the file has as many as it may have.
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// Where the file is until it is finished, and the records that can be read there so far.
    pub fn readable(&self) -> (&Path, u64) {
        (&self.partial, self.whole.1)
    }

    /// Completes the file and gives it its name, if that is still wanted by then.
    ///
    /// # Errors
    /// If it cannot be written: it stays unfinished.
    pub fn finish(&mut self, wanted: impl FnOnce() -> bool) -> Result<(), Error> {
        self.flush()?;
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        for (key, value) in [
            ("spate.records", VERSION.to_owned()),
            ("spate.run", self.about.run.clone()),
            ("spate.one_in", self.about.one_in.to_string()),
            ("spate.omitted", self.omitted.to_string()),
        ] {
            writer.append_key_value_metadata(KeyValue::new(key.into(), value));
        }
        let finished = writer.finish().map_err(|source| Error::Format { path: self.partial.clone(), source });
        let named = finished.and_then(|_| {
            let io = |source| Error::Io { path: self.path.clone(), source };
            writer.inner().sync_all().map_err(io)?;
            let wanted = wanted();
            if wanted {
                fs::rename(&self.partial, &self.path).map_err(io)?;
            }
            Ok(wanted)
        });
        if !matches!(named, Ok(true)) {
            self.writer = Some(writer);
        }
        named.map(|_| ())
    }

    /// Leaves the file as it is. Its name is not used any more: another file may have it by now.
    pub fn leave(mut self) {
        self.writer = None;
    }

    /// Writes what has been added as a row group: from then on it can be read, whatever happens.
    ///
    /// # Errors
    /// If it cannot be written; no more can be then.
    pub fn flush(&mut self) -> Result<(), Error> {
        let Some(writer) = self.writer.as_mut().filter(|_| self.rows.len() > 0) else { return Ok(()) };
        let rows = self.rows.len() as u64;
        let written = self.rows.write(writer).and_then(|group| {
            writer.write_all(&note::of(&group)?)?;
            Ok(writer.flush()?)
        });
        self.rows.clear();
        if written.is_ok() {
            self.whole = (writer.bytes_written() as u64, self.whole.1 + rows);
        }
        written.map_err(|source| Error::Format { path: self.partial.clone(), source })
    }
}

impl Drop for RecordFile {
    fn drop(&mut self) {
        // The writer writes what it still has.
        if self.writer.take().is_none() {
            return;
        }
        // A file that cannot be removed, or truncated behind its last row group, stays as it is.
        let _ = match self.whole {
            (_, 0) => fs::remove_file(&self.partial),
            (bytes, _) => fs::OpenOptions::new().write(true).open(&self.partial).and_then(|file| file.set_len(bytes)),
        };
    }
}

/// Plain values, which cost the least to write; columns with few values as indices in a dictionary.
fn properties() -> WriterProperties {
    let plain = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by("spate".into())
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::PLAIN)
        .set_statistics_enabled(EnabledStatistics::Chunk);
    DICTIONARY_COLUMNS
        .iter()
        .fold(plain, |properties, column| properties.set_column_dictionary_enabled(ColumnPath::from(*column), true))
        .build()
}
