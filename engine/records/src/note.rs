// SPDX-License-Identifier: Apache-2.0
//! What makes a file readable that has no footer yet: behind each row group stands a note, which is a Parquet footer for that group
//! alone. Readers of Parquet go by the footer at the end, and skip notes.
//!
//! A note is the footer's metadata, its length (4 bytes, little-endian) and [`MAGIC`]. A group begins where the note of the one before
//! ends, so that all are found from the last.
use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
};

use parquet::{
    errors::{ParquetError, Result},
    file::metadata::{
        FileMetaData, ParquetMetaDataBuilder, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
    },
};

/// At a note's end. A finished file ends with `PAR1` instead.
const MAGIC: &[u8; 4] = b"SPRG";
/// At the beginning of a file: `PAR1`.
const HEAD: u64 = 4;
/// The length and the magic.
const TAIL: usize = 8;
/// Maximum length of a note.
const MAX_NOTE_BYTES: usize = 1 << 20;
/// Bytes that are searched at once.
const WINDOW: usize = 1 << 16;

/// The note of a row group.
pub(crate) fn of(group: &RowGroupMetaData) -> Result<Vec<u8>> {
    let file = FileMetaData::new(1, group.num_rows(), None, None, group.schema_descr_ptr(), None);
    let metadata = ParquetMetaDataBuilder::new(file).add_row_group(group.clone()).build();
    let mut note = Vec::new();
    ParquetMetaDataWriter::new(&mut note, &metadata).finish()?;
    let end = note.len().checked_sub(MAGIC.len()).ok_or_else(|| ParquetError::General("an empty footer".into()))?;
    note[end..].copy_from_slice(MAGIC);
    Ok(note)
}

/// Row groups of an unfinished file, in order.
pub(crate) struct Groups {
    pub(crate) groups: Vec<RowGroupMetaData>,
    /// Where the last one's note ends: what is behind is of no whole group.
    pub(crate) end: u64,
}

/// Finds all whole row groups of a file of a length.
pub(crate) fn groups(file: &mut File, len: u64) -> io::Result<Groups> {
    let mut all = Groups { groups: Vec::new(), end: HEAD.min(len) };
    let Some((mut end, mut note)) = last(file, len)? else { return Ok(all) };
    all.end = end;
    loop {
        end = note.start;
        all.groups.push(note.group);
        if end <= HEAD {
            break;
        }
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("no row group ends at byte {end}"));
        note = ending_at(file, end)?.ok_or_else(damaged)?;
    }
    all.groups.reverse();
    Ok(all)
}

struct Note {
    group: RowGroupMetaData,
    /// Offset of the group.
    start: u64,
}

/// The last note that is whole, and where it ends.
fn last(file: &mut File, len: u64) -> io::Result<Option<(u64, Note)>> {
    let mut window = Vec::new();
    // What is searched ends here.
    let mut behind = len;
    while behind > HEAD {
        let start = behind.saturating_sub(WINDOW as u64).max(HEAD);
        read(file, start, behind, &mut window)?;
        for at in (0..window.len().saturating_sub(MAGIC.len() - 1)).rev() {
            if window[at..].starts_with(MAGIC) {
                let end = start + (at + MAGIC.len()) as u64;
                if let Some(note) = ending_at(file, end)? {
                    return Ok(Some((end, note)));
                }
            }
        }
        // One may lie across.
        behind = if start == HEAD { HEAD } else { start + MAGIC.len() as u64 - 1 };
    }
    Ok(None)
}

/// The note that ends at an offset, if one does.
fn ending_at(file: &mut File, end: u64) -> io::Result<Option<Note>> {
    let mut bytes = Vec::new();
    let Some(tail) = end.checked_sub(TAIL as u64).filter(|tail| *tail > HEAD) else { return Ok(None) };
    read(file, tail, end, &mut bytes)?;
    let Some((len, magic)) = bytes.split_first_chunk() else { return Ok(None) };
    if magic != MAGIC {
        return Ok(None);
    }
    let len = u32::from_le_bytes(*len);
    let Some(start) = tail.checked_sub(len.into()).filter(|start| *start > HEAD && len as usize <= MAX_NOTE_BYTES)
    else {
        return Ok(None);
    };
    read(file, start, tail, &mut bytes)?;
    let Ok(metadata) = ParquetMetaDataReader::decode_metadata(&bytes) else { return Ok(None) };
    let [group] = metadata.row_groups() else { return Ok(None) };
    Ok(range(group).filter(|(_, behind)| *behind == start).map(|(start, _)| Note { group: group.clone(), start }))
}

/// Where a group's columns begin, and what is behind them.
fn range(group: &RowGroupMetaData) -> Option<(u64, u64)> {
    let mut range: Option<(u64, u64)> = None;
    for column in group.columns() {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let start = u64::try_from(start).ok()?;
        let behind = start.checked_add(u64::try_from(column.compressed_size()).ok()?)?;
        range = Some(range.map_or((start, behind), |(first, last)| (first.min(start), last.max(behind))));
    }
    range.filter(|(start, behind)| *start >= HEAD && start < behind)
}

fn read(file: &mut File, start: u64, end: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    bytes.resize((end - start) as usize, 0);
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(bytes)
}
