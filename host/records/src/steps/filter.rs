//! The step `filter` keeps the records for which an expression is true.

use super::by_number::kept_rows;
use super::expression::Expression;
use super::{Pushdown, RecordAction, RecordStep, Upstream};
use crate::flow::{self, Flow};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tensorferry_sdk::{Result, arrow_array, arrow_schema};
use tensorferry_tensors::steps::signature::{ArgumentSpec, CheckedSpec, Signature};

pub(super) static FILTER: Signature = Signature {
    name: "filter",
    summary: "keep the records for which an expression is true",
    details: "Compares (= != < <= > >=) a column with a number, a 'text', true or false, or another column.\n\
              len(COLUMN) is the number of a list's values or a text's bytes. Also: COLUMN is null, is not null,\n\
              and, or, not, parentheses. Put names that are not plain words in `backquotes`; a.b is the field b of\n\
              the struct a. A comparison with a missing value is not true; NaN is unequal to everything. If the\n\
              expression contains a comma, put the whole field in double quotes.",
    argument: ArgumentSpec::Required("EXPRESSION", "condition for a record to keep"),
    keys: &[],
    selects: false,
    examples: &["filter:label >= 0 and len(image) = 784", "filter:split = 'train' or caption is null"],
};

#[derive(Debug)]
struct Filter {
    expression: Expression,
}

pub(super) fn filter(spec: &CheckedSpec<'_>) -> Result<RecordAction> {
    let field = spec.required_argument()?;
    let expression = Expression::parse(&field.text).map_err(|e| field.error(e.message()))?;
    Ok(Box::new(Filter { expression }))
}

impl RecordStep for Filter {
    fn apply<'a>(&'a self, upstream: Upstream<'a>) -> Result<Box<dyn Flow + 'a>> {
        let mut flow = upstream.flow()?;
        Ok(flow::from_fn(self.schema(&flow.schema())?, move || {
            while let Some(batch) = flow.next()? {
                let kept = self.expression.evaluate(&batch)?;
                if kept.true_count() > 0 {
                    return kept_rows(&batch, &kept).map(Some);
                }
            }
            Ok(None)
        }))
    }

    fn schema(&self, upstream: &SchemaRef) -> Result<SchemaRef> {
        // The expression is first evaluated for an empty batch, so that incomparable types are
        // reported before any record is read.
        self.expression.evaluate(&RecordBatch::new_empty(upstream.clone()))?;
        Ok(upstream.clone())
    }

    fn is_row_wise(&self) -> bool {
        true
    }

    fn pushdown(&self) -> Pushdown<'_> {
        Pushdown::Filter(&self.expression)
    }

    fn count(&self, rows: Option<u64>) -> Option<u64> {
        rows.filter(|&rows| rows == 0)
    }
}
