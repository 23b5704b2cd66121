// SPDX-License-Identifier: Apache-2.0
//! Reading files of records: finished ones, and what can be read of those that were not, because the engine was killed or the disk
//! was full.
use std::{fs::File, io, path::Path, sync::Arc};

use parquet::{
    errors::ParquetError,
    file::{
        metadata::{ParquetMetaDataReader, RowGroupMetaData, page_index::RowGroupPageIndex},
        properties::ReaderProperties,
        serialized_reader::SerializedRowGroupReader,
    },
    record::{Field, reader::RowIter},
};

use crate::{Error, note};

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// The value is not known.
    Null,
    /// A string.
    Text(&'a str),
    /// A count, or a number.
    Count(u64),
    /// A time, in ns since the epoch.
    Time(i64),
}

/// A file of records.
pub struct Reading {
    file: Arc<File>,
    groups: Vec<RowGroupMetaData>,
    /// Of a file without a footer: bytes at its end that are of no whole row group.
    unfinished: Option<u64>,
}

impl Reading {
    /// Opens a file, finished or not.
    ///
    /// # Errors
    /// If it cannot be read, or is none of records.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |source| Error::Io { path: path.into(), source };
        let mut file = File::open(path).map_err(io)?;
        let finished = ParquetMetaDataReader::new().parse_and_finish(&file);
        let (groups, unfinished) = match finished {
            Ok(metadata) => (metadata.row_groups().to_vec(), None),
            Err(_) => {
                let len = file.metadata().map_err(io)?.len();
                is_parquet(&mut file, len).map_err(io)?;
                let found = note::groups(&mut file, len).map_err(io)?;
                (found.groups, Some(len - found.end))
            }
        };
        Ok(Self { file: Arc::new(file), groups, unfinished })
    }

    /// Bytes at the end of an unfinished file that cannot be read: they are of no whole row group. None of a finished file.
    pub fn unfinished(&self) -> Option<u64> {
        self.unfinished
    }

    /// Number of records that can be read.
    pub fn records(&self) -> u64 {
        self.groups.iter().map(|group| group.num_rows().cast_unsigned()).sum()
    }

    /// Gives all records in turn, as names and values of their columns.
    ///
    /// # Errors
    /// If one cannot be read, or what they are given to has enough.
    pub fn each<E: From<ParquetError>>(
        &self,
        mut give: impl FnMut(&[(&str, Value<'_>)]) -> Result<(), E>,
    ) -> Result<(), E> {
        let properties = Arc::new(ReaderProperties::builder().build());
        for (index, group) in self.groups.iter().enumerate() {
            let no_index = RowGroupPageIndex::new(index, None);
            let reader = SerializedRowGroupReader::new(self.file.clone(), group, no_index, properties.clone())?;
            for row in RowIter::from_row_group(None, &reader)? {
                let row = row?;
                let columns: Vec<_> =
                    row.get_column_iter().map(|(name, field)| (name.as_str(), value(field))).collect();
                give(&columns)?;
            }
        }
        Ok(())
    }
}

/// Refuses what does not begin as Parquet does. A file that was cut in its first bytes may be one.
fn is_parquet(file: &mut File, len: u64) -> io::Result<()> {
    use io::{Read as _, Seek as _};
    let mut head = [0; 4];
    let head = &mut head[..len.min(4) as usize];
    file.rewind()?;
    file.read_exact(head)?;
    if b"PAR1".starts_with(head) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "is no file of records"))
}

fn value(field: &Field) -> Value<'_> {
    match field {
        Field::Str(text) => Value::Text(text),
        Field::ULong(count) => Value::Count(*count),
        Field::UShort(count) => Value::Count((*count).into()),
        Field::Long(ns) => Value::Time(*ns),
        _ => Value::Null,
    }
}
