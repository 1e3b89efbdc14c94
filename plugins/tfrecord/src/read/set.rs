//! An opened input: its schema, its splits, and the losses so far.

use super::Table;
use super::pieces::Piece;
use super::shared::SharedState;
use super::stream::RowStream;
use crate::files::InputFile;
use crate::frame::Checks;
use crate::json;
use crate::policy::FaultPolicy;
use crate::profile::{WITHOUT_KIND, null};
use arrow_schema::SchemaRef;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::records::{BatchStream, RecordSet, ScanRequest, SkippedRecord, Split, narrowed};
use tensorferry_sdk::{ByteSink, Error, Limits, LossSink, Result, Source};

pub(super) struct TfRecordSet {
    shared: Arc<SharedState>,
    splits: Vec<Split>,
}

impl TfRecordSet {
    pub(super) fn new(
        source: Arc<dyn Source>,
        files: Vec<InputFile>,
        table: Table,
        pieces: Vec<Piece>,
        policy: FaultPolicy,
        checks: Checks,
        limits: Limits,
    ) -> Self {
        let splits = pieces.iter().map(|piece| piece.split(&files)).collect();
        let unset = Mutex::new(vec![0; table.schema.fields().len()]);
        let counted = Mutex::new(vec![None; pieces.len()]);
        Self {
            shared: Arc::new(SharedState {
                source,
                files,
                table,
                policy,
                checks,
                limits,
                unset,
                pieces,
                counted,
            }),
            splits,
        }
    }

    fn piece(&self, split: usize) -> Result<&Piece> {
        let piece = self.shared.pieces.get(split);
        piece.ok_or_else(|| Error::plugin(format!("invalid split number {split}")))
    }
}

impl RecordSet for TfRecordSet {
    fn schema(&self) -> SchemaRef {
        self.shared.table.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// The rows before the requested rows are skipped without decoding.
    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        let piece = self.piece(split)?.clone();
        let request = scan.batches();
        // If damaged records are skipped, the row number of a record is known only after decoding.
        if self.shared.policy.skips() {
            let all = RowStream::open(self.shared.clone(), piece, &request, 0, None);
            return narrowed(all, &self.schema(), scan);
        }
        let rows = RowStream::open(self.shared.clone(), piece, &request, scan.first_row, scan.limit);
        let columns = ScanRequest { first_row: 0, limit: None, ..scan.clone() };
        narrowed(rows, &self.schema(), &columns)
    }

    fn json(&self, split: usize, max: u64, output: &mut dyn ByteSink) -> Result<Option<u64>> {
        let piece = self.piece(split)?;
        let file = &self.shared.files[piece.file];
        let mut walk = self.shared.walk(piece);
        let mut line = Vec::new();
        let (mut number, mut shown) = (piece.first, 0);
        while shown < max && piece.end.is_none_or(|end| walk.offset() < end) {
            match walk.next() {
                Ok(None) => break,
                Ok(Some(data)) => {
                    line.clear();
                    json::append_line(&mut line, data, self.shared.table.shown);
                    output.write(&line)?;
                    shown += 1;
                }
                Err(fault) => {
                    if !self
                        .shared
                        .policy
                        .handle_and_skip(&mut walk, piece.file, &file.name, number, fault)?
                    {
                        break;
                    }
                }
            }
            number += 1;
        }
        Ok(Some(shown))
    }

    fn skipped(&self) -> Vec<SkippedRecord> {
        self.shared.policy.skipped()
    }

    fn losses(&self, losses: &mut dyn LossSink) -> Result<()> {
        let unset = self.shared.unset.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let columns = self.shared.table.decoding.iter().flat_map(|decoding| &*decoding.columns);
        let mut lost = columns.zip(unset).filter(|(_, count)| *count > 0);
        lost.try_for_each(|(column, count)| losses.loss(null(&column.name, count, WITHOUT_KIND)))
    }
}
