// SPDX-License-Identifier: Apache-2.0
//! The columns of a file of records, and what of a record goes into each.
use std::{fmt::Write as _, io, net::IpAddr, sync::Arc};

use parquet::{
    data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type},
    errors::{ParquetError, Result},
    file::{
        metadata::RowGroupMetaDataPtr,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::{parser::parse_message_type, types::TypePtr},
};
use spate_stateful::Record;

use crate::FileInfo;

/// In the order in which `Rows::write` writes them.
const SCHEMA: &str = "message record {
    required binary run (STRING);
    required binary template (STRING);
    required binary side (STRING);
    required binary protocol (STRING);
    required binary end_reason (STRING);
    required int64 flow (INTEGER(64,false));
    required binary local_address (STRING);
    required int32 local_port (INTEGER(16,false));
    required binary remote_address (STRING);
    required int32 remote_port (INTEGER(16,false));
    required int64 start (TIMESTAMP(NANOS,true));
    optional int64 established (TIMESTAMP(NANOS,true));
    optional int64 first_byte (TIMESTAMP(NANOS,true));
    required int64 end (TIMESTAMP(NANOS,true));
    required int64 sent_bytes (INTEGER(64,false));
    required int64 received_bytes (INTEGER(64,false));
    required int64 sent_packets (INTEGER(64,false));
    required int64 received_packets (INTEGER(64,false));
    required int64 retransmitted_packets (INTEGER(64,false));
    optional int64 round_trip_ns (INTEGER(64,false));
}";

/// Columns whose values are the same few.
pub(crate) const DICTIONARY_COLUMNS: [&str; 5] = ["run", "template", "side", "protocol", "end_reason"];

/// The schema of a file.
///
/// # Panics
/// Never: a test reads a file with it.
pub(crate) fn schema() -> TypePtr {
    Arc::new(parse_message_type(SCHEMA).expect("a schema"))
}

/// A column with values that may be missing.
#[derive(Default)]
struct Optional {
    values: Vec<i64>,
    /// 1: there is one.
    there: Vec<i16>,
}

impl Optional {
    fn add(&mut self, value: Option<u64>) {
        self.there.push(i16::from(value.is_some()));
        self.values.extend(value.map(u64::cast_signed));
    }
}

/// Records by column, until they are written.
pub(crate) struct Rows {
    /// `DICTIONARY_COLUMNS`.
    few: [Vec<ByteArray>; DICTIONARY_COLUMNS.len()],
    flow: Vec<i64>,
    /// Local and remote.
    addresses: [Vec<ByteArray>; 2],
    ports: [Vec<i32>; 2],
    start: Vec<i64>,
    established: Optional,
    first_byte: Optional,
    end: Vec<i64>,
    /// From `sent_bytes` to `retransmitted_packets`.
    counts: [Vec<i64>; 5],
    round_trip: Optional,
    /// Values that are written again and again, made once: of the run, and of each template.
    known: Option<(ByteArray, Vec<ByteArray>)>,
    text: String,
}

impl Rows {
    pub(crate) fn with_room(rows: usize) -> Self {
        Self {
            few: std::array::from_fn(|_| Vec::with_capacity(rows)),
            flow: Vec::with_capacity(rows),
            addresses: std::array::from_fn(|_| Vec::with_capacity(rows)),
            ports: std::array::from_fn(|_| Vec::with_capacity(rows)),
            start: Vec::with_capacity(rows),
            established: Optional::default(),
            first_byte: Optional::default(),
            end: Vec::with_capacity(rows),
            counts: std::array::from_fn(|_| Vec::with_capacity(rows)),
            round_trip: Optional::default(),
            known: None,
            text: String::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.flow.len()
    }

    pub(crate) fn add(&mut self, record: &Record, about: &FileInfo) {
        let (run, templates) = self.known.get_or_insert_with(|| {
            let text = |text: &String| ByteArray::from(text.as_str());
            (text(&about.run), about.templates.iter().map(text).collect())
        });
        let template = &templates[usize::from(record.template)];
        let side = ByteArray::from(if record.client { "client" } else { "server" });
        let protocol = ByteArray::from(if record.udp { "udp" } else { "tcp" });
        let few = [run.clone(), template.clone(), side, protocol, ByteArray::from(record.end.name())];
        self.few.iter_mut().zip(few).for_each(|(column, value)| column.push(value));
        let tuple = &record.tuple;
        for (column, address) in self.addresses.iter_mut().zip([tuple.local, tuple.remote]) {
            self.text.clear();
            let _ = write!(self.text, "{}", IpAddr::from(address));
            column.push(ByteArray::from(self.text.as_str()));
        }
        self.ports[0].push(tuple.local_port.into());
        self.ports[1].push(tuple.remote_port.into());
        self.flow.push(record.number.cast_signed());
        self.start.push(record.start_ns.cast_signed());
        self.established.add(record.established_ns);
        self.first_byte.add(record.first_byte_ns);
        self.end.push(record.end_ns.cast_signed());
        let counts = [
            record.sent_bytes,
            record.received_bytes,
            record.sent_packets,
            record.received_packets,
            record.retransmitted,
        ];
        self.counts.iter_mut().zip(counts).for_each(|(column, count)| column.push(count.cast_signed()));
        self.round_trip.add(record.round_trip_ns);
    }

    /// Writes all as one row group.
    pub(crate) fn write<W: io::Write + Send>(&self, file: &mut SerializedFileWriter<W>) -> Result<RowGroupMetaDataPtr> {
        let mut group = file.next_row_group()?;
        for column in &self.few {
            write::<ByteArrayType>(&mut group, column, None)?;
        }
        write::<Int64Type>(&mut group, &self.flow, None)?;
        for (address, port) in self.addresses.iter().zip(&self.ports) {
            write::<ByteArrayType>(&mut group, address, None)?;
            write::<Int32Type>(&mut group, port, None)?;
        }
        write::<Int64Type>(&mut group, &self.start, None)?;
        for column in [&self.established, &self.first_byte] {
            write::<Int64Type>(&mut group, &column.values, Some(&column.there))?;
        }
        write::<Int64Type>(&mut group, &self.end, None)?;
        for column in &self.counts {
            write::<Int64Type>(&mut group, column, None)?;
        }
        write::<Int64Type>(&mut group, &self.round_trip.values, Some(&self.round_trip.there))?;
        group.close()
    }

    pub(crate) fn clear(&mut self) {
        self.few.iter_mut().chain(&mut self.addresses).for_each(Vec::clear);
        self.ports.iter_mut().for_each(Vec::clear);
        [&mut self.flow, &mut self.start, &mut self.end].into_iter().chain(&mut self.counts).for_each(Vec::clear);
        for column in [&mut self.established, &mut self.first_byte, &mut self.round_trip] {
            column.values.clear();
            column.there.clear();
        }
    }
}

/// The next column of a row group.
fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, impl io::Write + Send>,
    values: &[T::T],
    there: Option<&[i16]>,
) -> Result<()> {
    let none = || ParquetError::General("the schema has no more columns".into());
    let mut column = group.next_column()?.ok_or_else(none)?;
    column.typed::<T>().write_batch(values, there, None)?;
    column.close()
}
