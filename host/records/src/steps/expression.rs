//! An expression is a condition on a record.
//!
//! ```text
//! or      = and { "or" and }
//! and     = not { "and" not }
//! not     = "not" not | "(" or ")" | test
//! test    = operand ( "is" ["not"] "null" | OPERATOR operand ) | column
//! operand = column | "len" "(" column ")" | number | 'text' | "true" | "false"
//! column  = word | `any text`
//! ```

use crate::cast::cast;
use crate::encoding::is_text;
use crate::nested;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Decimal256Array, Float64Array, Int64Array, RecordBatch,
    StringArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, i256};
use arrow_schema::{
    ArrowError, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DECIMAL256_MAX_SCALE, DataType, Schema,
    SortOptions,
};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use tensorferry_sdk::records::{Comparator, ComparedValue, Comparison};
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema};

/// Maximum nesting of parentheses and `not`.
const MAX_NESTED: usize = 64;
/// Maximum length of a number's text for which a float always represents the number exactly.
const MAX_EXACT_CHARACTERS: usize = 15;

#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    Or(Vec<Expression>),
    And(Vec<Expression>),
    Not(Box<Expression>),
    Compare(Operand, Operator, Operand),
    IsNull(Operand),
    Column(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    Column(String),
    Length(String),
    Integer(i128),
    Float(Literal),
    Text(String),
    Truth(bool),
}

/// A number with a fraction or an exponent, or with more digits than an [`Operand::Integer`] can
/// represent.
#[derive(Debug, Clone, PartialEq)]
pub struct Literal {
    text: String,
    /// The float that is nearest to the number.
    float: f64,
    /// All digits as one integer, and how many digits follow the decimal point; `None` if the
    /// digits do not fit in a decimal.
    decimal: Option<(i256, i8)>,
}

impl Literal {
    fn parse(text: &str) -> Option<Self> {
        let float = text.parse::<f64>().ok()?;
        Some(Self { text: text.to_owned(), float, decimal: decimal(text) })
    }

    /// Converts the number to the form in which it is compared with values of type `other`: a
    /// decimal if these values are integers or decimals, and a float otherwise.
    fn as_operand(&self, other: &DataType) -> Result<ArrayRef> {
        let is_exact = other.is_integer() || other.is_decimal();
        match self.decimal {
            Some((digits, scale)) if is_exact => {
                let array = Decimal256Array::from(vec![digits]);
                let array = array.with_precision_and_scale(DECIMAL256_MAX_PRECISION, scale);
                Ok(Arc::new(array.map_err(|e| failed(&e))?))
            }
            None if is_exact && self.text.len() > MAX_EXACT_CHARACTERS => Err(self.refused()),
            _ => Ok(Arc::new(Float64Array::from(vec![self.float]))),
        }
    }

    fn refused(&self) -> Error {
        inexact(&self.text)
    }
}

fn inexact(number: &str) -> Error {
    let error = Error::usage("a number in the filter cannot be compared exactly with the column's type");
    error.found(number)
}

/// Returns all digits of a number as one integer, and how many of them follow the decimal point.
fn decimal(text: &str) -> Option<(i256, i8)> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let places = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let zeros = usize::try_from(places.saturating_neg().max(0)).ok()?;
    let digits = format!("{whole}{fraction}");
    let len = digits.trim_start_matches(['-', '0']).len();
    if len.checked_add(zeros)? > usize::from(DECIMAL256_MAX_PRECISION) {
        return None;
    }
    let scale = i8::try_from(places.max(0)).ok().filter(|scale| *scale <= DECIMAL256_MAX_SCALE)?;
    Some((i256::from_string(&format!("{digits}{}", "0".repeat(zeros)))?, scale))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Expression {
    /// Parses an expression.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { tokens: tokens(text)?, place: 0 };
        let expression = parser.or(0)?;
        match parser.tokens.get(parser.place) {
            None => Ok(expression),
            Some(token) => Err(Error::usage(format!("expected the end, \"and\" or \"or\", found {token}"))),
        }
    }

    /// Evaluates the expression for each row of a batch. An unknown result counts as false.
    pub(super) fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let known = self.values(batch)?;
        Ok(match known.nulls() {
            Some(nulls) => BooleanArray::new(known.values() & nulls.inner(), None),
            None => known,
        })
    }

    /// Returns the columns that the expression uses.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        let mut names = Vec::new();
        self.collect_columns(&mut names);
        names.into_iter()
    }

    fn collect_columns<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Or(parts) | Self::And(parts) => {
                parts.iter().for_each(|part| part.collect_columns(names));
            }
            Self::Not(inner) => inner.collect_columns(names),
            Self::Compare(a, _, b) => names.extend(a.column_name().into_iter().chain(b.column_name())),
            Self::IsNull(operand) => names.extend(operand.column_name()),
            Self::Column(name) => names.push(name),
        }
    }

    /// Returns comparisons that are true for every row for which the expression is true.
    pub(super) fn comparisons(&self, schema: &Schema) -> Vec<Comparison> {
        let one = |name: &str, comparator, values: Vec<&Operand>| {
            let Ok(column) = nested::find(schema, name) else { return Vec::new() };
            let Some(data_type) = nested::data_type(schema, &column) else { return Vec::new() };
            let values: Option<Vec<ComparedValue>> =
                values.into_iter().map(|value| value.pushed(data_type)).collect();
            values.map(|values| Comparison { column, comparator, values }).into_iter().collect()
        };
        match self {
            Self::And(parts) => parts.iter().flat_map(|part| part.comparisons(schema)).collect(),
            Self::Or(parts) => match one_of(parts) {
                Some((name, values)) => one(name, Comparator::In, values),
                None => Vec::new(),
            },
            Self::Compare(Operand::Column(name), operator, value)
            | Self::Compare(value, operator, Operand::Column(name)) => {
                let is_turned =
                    matches!(self, Self::Compare(other, ..) if !matches!(other, Operand::Column(_)));
                let comparator = if is_turned { operator.reversed() } else { *operator }.comparator();
                one(name, comparator, vec![value])
            }
            Self::IsNull(Operand::Column(name)) => one(name, Comparator::IsNull, Vec::new()),
            Self::Not(inner) => match &**inner {
                Self::IsNull(Operand::Column(name)) => one(name, Comparator::IsNotNull, Vec::new()),
                _ => Vec::new(),
            },
            Self::Column(name) => one(name, Comparator::Equal, vec![&Operand::Truth(true)]),
            Self::Compare(..) | Self::IsNull(_) => Vec::new(),
        }
    }

    fn values(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        match self {
            Self::Or(parts) => join(parts, batch, true),
            Self::And(parts) => join(parts, batch, false),
            Self::Not(inner) => {
                let inner = inner.values(batch)?;
                Ok(BooleanArray::new(!inner.values(), inner.nulls().cloned()))
            }
            Self::IsNull(operand) => Ok(match operand.values(batch, None)?.0.logical_nulls() {
                Some(nulls) => BooleanArray::new(!nulls.inner(), None),
                None => BooleanArray::new(BooleanBuffer::new_unset(batch.num_rows()), None),
            }),
            Self::Compare(a, operator, b) => compare(a, *operator, b, batch),
            Self::Column(name) => {
                let column = column(batch, name)?;
                let truths = column.as_boolean_opt().cloned();
                truths.ok_or_else(|| not_a_boolean(&column.data_type().to_string()).column(name))
            }
        }
    }
}

/// If each part of an `or` tests whether one column equals a value, returns the column and the
/// values.
fn one_of(parts: &[Expression]) -> Option<(&str, Vec<&Operand>)> {
    let mut column = None;
    let mut values = Vec::new();
    for part in parts {
        let Expression::Compare(a, Operator::Equal, b) = part else { return None };
        let name = a.column().or(b.column())?;
        values.push([a, b].into_iter().find(|operand| operand.column_name().is_none())?);
        if *column.get_or_insert(name) != name {
            return None;
        }
    }
    Some((column?, values))
}

/// Joins conditions with `or` or `and`. `decisive` is true for `or` and false for `and`. If any
/// part has the value `decisive`, so does the result. Otherwise, the result is unknown if any part
/// is unknown.
fn join(parts: &[Expression], batch: &RecordBatch, decisive: bool) -> Result<BooleanArray> {
    let mut parts = parts.iter().map(|part| part.values(batch));
    let first = parts.next().unwrap_or_else(|| Err(Error::usage("an empty expression")))?;
    let joined = |(a, b): (Option<bool>, Option<bool>)| {
        if a == Some(decisive) || b == Some(decisive) { Some(decisive) } else { a.and(b) }
    };
    parts.try_fold(first, |all, next| Ok(all.iter().zip(&next?).map(joined).collect()))
}

fn failed(error: &ArrowError) -> Error {
    Error::usage(format!("the values cannot be compared: {error}"))
}

/// Returns the error for an expression whose value is not a Boolean.
fn not_a_boolean(found: &str) -> Error {
    Error::usage("expected a comparison").found(found)
}

/// Returns a column's values without dictionary or run encoding.
fn column(batch: &RecordBatch, name: &str) -> Result<ArrayRef> {
    let values = nested::values(batch, &nested::find(batch.schema_ref(), name)?)?;
    let unfolded = match values.data_type() {
        DataType::Dictionary(_, unfolded) => &**unfolded,
        DataType::RunEndEncoded(_, unfolded) => unfolded.data_type(),
        _ => return Ok(values),
    };
    cast(&values, unfolded, true).map_err(|error| failed(&error).column(name))
}

impl Operator {
    /// Returns the operator with the same meaning when the operands are exchanged.
    fn reversed(self) -> Self {
        match self {
            Self::Equal | Self::Unequal => self,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }

    fn comparator(self) -> Comparator {
        match self {
            Self::Equal => Comparator::Equal,
            Self::Unequal => Comparator::Unequal,
            Self::Less => Comparator::Less,
            Self::LessOrEqual => Comparator::LessOrEqual,
            Self::Greater => Comparator::Greater,
            Self::GreaterOrEqual => Comparator::GreaterOrEqual,
        }
    }
}

impl Operand {
    fn column(&self) -> Option<&str> {
        match self {
            Self::Column(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the name of the column that the operand uses.
    fn column_name(&self) -> Option<&str> {
        match self {
            Self::Column(name) | Self::Length(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the literal in the form that readers accept in comparisons. Returns `None` if
    /// readers would compare the literal with values of this type differently than the expression
    /// does. Readers do not support decimal literals, and treat numbers with a fraction as floats.
    fn pushed(&self, data_type: &DataType) -> Option<ComparedValue> {
        Some(match self {
            Self::Integer(_) | Self::Float(_) if data_type.is_decimal() => return None,
            Self::Integer(value) => ComparedValue::Int(*value),
            Self::Float(literal) if data_type.is_integer() && literal.text.len() > MAX_EXACT_CHARACTERS => {
                return None;
            }
            Self::Float(literal) => ComparedValue::Float(literal.float),
            Self::Text(value) => ComparedValue::Bytes(value.as_bytes().to_vec()),
            Self::Truth(value) => ComparedValue::Bool(*value),
            Self::Column(_) | Self::Length(_) => return None,
        })
    }

    /// Returns the operand's values, and whether there is only one value for all rows. `other` is
    /// the type of the column with which the values are compared.
    fn values(&self, batch: &RecordBatch, other: Option<&DataType>) -> Result<(ArrayRef, bool)> {
        Ok(match self {
            Self::Column(name) => (column(batch, name)?, false),
            Self::Length(name) => {
                let column = column(batch, name)?;
                let lengths = lengths(&column).map_err(|e| e.column(name))?;
                (cast(&lengths, &DataType::Int64, false).map_err(|e| failed(&e))?, false)
            }
            Self::Integer(number) if other.is_some_and(DataType::is_floating) => {
                let float = *number as f64;
                // The float must convert back to the same integer, which is not the case for
                // numbers of 2^127 and more.
                #[expect(clippy::cast_possible_truncation, reason = "the comparison detects it")]
                let is_same = float.abs() < 1e38 && float as i128 == *number;
                if !is_same {
                    return Err(inexact(&number.to_string()));
                }
                (Arc::new(Float64Array::from(vec![float])), true)
            }
            Self::Integer(number) => match i64::try_from(*number) {
                Ok(number) => (Arc::new(Int64Array::from(vec![number])), true),
                Err(_) => {
                    let array = Decimal128Array::from(vec![*number]);
                    let array = array.with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0);
                    (Arc::new(array.map_err(|e| failed(&e))?), true)
                }
            },
            Self::Float(literal) => (literal.as_operand(other.unwrap_or(&DataType::Float64))?, true),
            Self::Text(text) => (Arc::new(StringArray::from(vec![text.as_str()])), true),
            Self::Truth(truth) => (Arc::new(BooleanArray::from(vec![*truth])), true),
        })
    }
}

/// Returns the number of values or bytes in each row of a column.
fn lengths(column: &ArrayRef) -> Result<ArrayRef> {
    let len = |len: usize| i64::try_from(len).unwrap_or(i64::MAX);
    let each = |length: &dyn Fn(usize) -> i64| -> Result<ArrayRef> {
        let lengths = (0..column.len()).map(length).collect();
        Ok(Arc::new(Int64Array::new(lengths, column.nulls().cloned())))
    };
    match column.data_type() {
        DataType::List(_) => each(&|row| column.as_list::<i32>().value_length(row).into()),
        DataType::LargeList(_) => each(&|row| column.as_list::<i64>().value_length(row)),
        DataType::ListView(_) => each(&|row| column.as_list_view::<i32>().value_size(row).into()),
        DataType::LargeListView(_) => each(&|row| column.as_list_view::<i64>().value_size(row)),
        DataType::Map(..) => each(&|row| column.as_map().value_length(row).into()),
        DataType::Utf8 => each(&|row| column.as_string::<i32>().value_length(row).into()),
        DataType::LargeUtf8 => each(&|row| column.as_string::<i64>().value_length(row)),
        DataType::Binary => each(&|row| column.as_binary::<i32>().value_length(row).into()),
        DataType::LargeBinary => each(&|row| column.as_binary::<i64>().value_length(row)),
        DataType::Utf8View => each(&|row| len(column.as_string_view().value(row).len())),
        DataType::BinaryView => each(&|row| len(column.as_binary_view().value(row).len())),
        DataType::FixedSizeBinary(len) | DataType::FixedSizeList(_, len) => each(&|_| i64::from(*len)),
        other => Err(failed(&ArrowError::ComputeError(format!("length not supported for {other:?}")))),
    }
}

fn compare(a: &Operand, operator: Operator, b: &Operand, batch: &RecordBatch) -> Result<BooleanArray> {
    let of_column =
        |operand: &Operand| operand.column_name().map(|_| operand.values(batch, None)).transpose();
    let ((a, a_is_one), (b, b_is_one)) = match (of_column(a)?, of_column(b)?) {
        (Some(a), Some(b)) => (a, b),
        (Some(a), None) => {
            let b = b.values(batch, Some(a.0.data_type()))?;
            (a, b)
        }
        (None, Some(b)) => (a.values(batch, Some(b.0.data_type()))?, b),
        (None, None) => return Err(Error::usage("the comparison does not contain a column")),
    };
    let common = common_type(a.data_type(), b.data_type())?;
    // For decimals, the cast is strict: a value that does not fit is an error and does not become
    // null.
    let cast = |array: &ArrayRef| cast(array, &common, common.is_decimal()).map_err(|e| failed(&e));
    let (a, b) = (cast(&a)?, cast(&b)?);
    let order = order(&a, &b)?;
    let is_true = |order: Option<Ordering>| match operator {
        Operator::Equal => order.is_some_and(Ordering::is_eq),
        Operator::Unequal => order.is_none_or(Ordering::is_ne),
        Operator::Less => order.is_some_and(Ordering::is_lt),
        Operator::LessOrEqual => order.is_some_and(Ordering::is_le),
        Operator::Greater => order.is_some_and(Ordering::is_gt),
        Operator::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    };
    let place = |row: usize, is_one: bool| if is_one { 0 } else { row };
    let truths = BooleanBuffer::collect_bool(batch.num_rows(), |row| {
        is_true(order(place(row, a_is_one), place(row, b_is_one)))
    });
    // Only columns can contain nulls. A literal in the expression is never null.
    let nulls = |array: &ArrayRef, is_one: bool| if is_one { None } else { array.logical_nulls() };
    Ok(BooleanArray::new(
        truths,
        NullBuffer::union(nulls(&a, a_is_one).as_ref(), nulls(&b, b_is_one).as_ref()),
    ))
}

type Order = Box<dyn Fn(usize, usize) -> Option<Ordering>>;

/// Returns a function that compares values of two columns of one type. The returned function
/// returns `None` if one of the values is NaN.
fn order(a: &ArrayRef, b: &ArrayRef) -> Result<Order> {
    if let (Some(a), Some(b)) = (a.as_primitive_opt::<Float64Type>(), b.as_primitive_opt::<Float64Type>()) {
        let (a, b) = (a.clone(), b.clone());
        return Ok(Box::new(move |row, other| a.value(row).partial_cmp(&b.value(other))));
    }
    let order = arrow_cmp::make_comparator(a, b, SortOptions::default()).map_err(|e| failed(&e))?;
    Ok(Box::new(move |row, other| Some(order(row, other))))
}

/// Returns the type in which the two sides are compared. Integers and decimals are compared
/// exactly, other numbers as F64, and text by its bytes. Readers compare as
/// [`tensorferry_sdk::records::Comparison`] defines, and do not receive comparisons with decimals.
fn common_type(a: &DataType, b: &DataType) -> Result<DataType> {
    if a == b && !a.is_nested() && !a.is_floating() {
        return Ok(a.clone());
    }
    if let (Some((a_whole, a_scale)), Some((b_whole, b_scale))) = (digits(a), digits(b)) {
        let scale = a_scale.max(b_scale).max(0);
        let all = a_whole.max(b_whole) + i16::from(scale);
        return if all <= i16::from(DECIMAL128_MAX_PRECISION) {
            Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale))
        } else {
            // A literal always has the maximum precision, regardless of its number of digits. If a
            // value does not fit, the cast fails.
            Ok(DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale))
        };
    }
    if a.is_numeric() && b.is_numeric() {
        return Ok(DataType::Float64);
    }
    if is_text(a) && is_text(b) {
        return Ok(DataType::LargeBinary);
    }
    Err(Error::usage(format!("{a} cannot be compared with {b}")))
}

/// Returns the number of digits of an integer or decimal type before and after the decimal point.
fn digits(data_type: &DataType) -> Option<(i16, i8)> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    match data_type {
        // I64 and U64 are compared as decimals, because no integer type can represent the values of
        // both.
        whole if whole.is_integer() => Some((20, 0)),
        Decimal32(precision, scale)
        | Decimal64(precision, scale)
        | Decimal128(precision, scale)
        | Decimal256(precision, scale) => Some((i16::from(*precision) - i16::from(*scale), *scale)),
        _ => None,
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Column(String),
    Number(String),
    Text(String),
    Sign(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(text) | Self::Column(text) | Self::Number(text) => write!(f, "{text:?}"),
            Self::Text(text) => write!(f, "the text {text:?}"),
            Self::Sign(sign) => write!(f, "{sign:?}"),
        }
    }
}

/// Misspelled operators, each with the operator that the user probably meant.
const MISSPELLED_OPERATORS: [(&str, &str); 2] = [("=>", ">="), ("=<", "<=")];

/// Operators and parentheses. Longer operators precede operators that are prefixes of them.
const SIGNS: [&str; 10] = ["<=", ">=", "!=", "==", "<>", "=", "<", ">", "(", ")"];

fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if let Some((reversed, meant)) =
            MISSPELLED_OPERATORS.into_iter().find(|(reversed, _)| rest.starts_with(reversed))
        {
            return Err(Error::usage(format!("{reversed:?} is not an operator; did you mean {meant:?}?")));
        }
        let token_len = if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            tokens.push(Token::Sign(sign));
            sign.len()
        } else if first == '\'' || first == '`' {
            let inner = &rest[1..];
            let end = inner.find(first).ok_or_else(|| Error::usage(format!("missing closing {first}")))?;
            let inner = inner[..end].to_owned();
            tokens.push(if first == '`' { Token::Column(inner) } else { Token::Text(inner) });
            end + 2
        } else {
            let is_number = first.is_ascii_digit() || first == '-' || first == '.';
            let belongs = |c: char| {
                c.is_alphanumeric() || matches!(c, '_' | '.' | '/') || (is_number && matches!(c, '-' | '+'))
            };
            let end = rest.find(|c: char| !belongs(c)).unwrap_or(rest.len());
            if end == 0 {
                return Err(Error::usage(format!("unexpected character {first:?}")));
            }
            let word = rest[..end].to_owned();
            tokens.push(if is_number { Token::Number(word) } else { Token::Word(word) });
            end
        };
        rest = rest[token_len..].trim_start();
    }
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    place: usize,
}

impl Parser {
    fn word(&mut self, word: &str) -> bool {
        let is = matches!(self.tokens.get(self.place), Some(Token::Word(found)) if found.eq_ignore_ascii_case(word));
        self.place += usize::from(is);
        is
    }

    fn sign(&mut self, sign: &str) -> bool {
        let is = matches!(self.tokens.get(self.place), Some(Token::Sign(found)) if *found == sign);
        self.place += usize::from(is);
        is
    }

    fn or(&mut self, depth: usize) -> Result<Expression> {
        self.joined("or", Expression::Or, |parser| parser.joined("and", Expression::And, |p| p.not(depth)))
    }

    fn joined(
        &mut self,
        word: &str,
        join: fn(Vec<Expression>) -> Expression,
        part: impl Fn(&mut Self) -> Result<Expression>,
    ) -> Result<Expression> {
        let mut parts = vec![part(self)?];
        while self.word(word) {
            parts.push(part(self)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { join(parts) })
    }

    fn not(&mut self, depth: usize) -> Result<Expression> {
        if depth > MAX_NESTED {
            return Err(Error::usage("the expression is nested too deeply"));
        }
        if self.word("not") {
            return Ok(Expression::Not(Box::new(self.not(depth + 1)?)));
        }
        if self.sign("(") {
            let inner = self.or(depth + 1)?;
            return if self.sign(")") { Ok(inner) } else { Err(Error::usage("missing closing parenthesis")) };
        }
        self.test()
    }

    fn test(&mut self) -> Result<Expression> {
        let operand = self.operand()?;
        if self.word("is") {
            let negated = self.word("not");
            if !self.word("null") {
                return Err(Error::usage("expected null after is"));
            }
            let is_null = Expression::IsNull(operand);
            return Ok(if negated { Expression::Not(Box::new(is_null)) } else { is_null });
        }
        let operators = [
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("!=", Operator::Unequal),
            ("<>", Operator::Unequal),
            ("==", Operator::Equal),
            ("=", Operator::Equal),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        if let Some((_, operator)) = operators.into_iter().find(|(sign, _)| self.sign(sign)) {
            return Ok(Expression::Compare(operand, operator, self.operand()?));
        }
        match operand {
            Operand::Column(name) => Ok(Expression::Column(name)),
            other => Err(not_a_boolean(&format!("{other:?}"))),
        }
    }

    fn operand(&mut self) -> Result<Operand> {
        let token = self.tokens.get(self.place).cloned();
        self.place += 1;
        match token {
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("true") => Ok(Operand::Truth(true)),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("false") => Ok(Operand::Truth(false)),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("len") && self.sign("(") => {
                let inner = self.operand()?;
                match (inner, self.sign(")")) {
                    (Operand::Column(name), true) => Ok(Operand::Length(name)),
                    _ => Err(Error::usage("expected len(COLUMN)")),
                }
            }
            Some(Token::Word(name) | Token::Column(name)) => Ok(Operand::Column(name)),
            Some(Token::Text(text)) => Ok(Operand::Text(text)),
            Some(Token::Number(word)) => {
                let integer = word.parse().ok().map(Operand::Integer);
                integer
                    .or_else(|| Literal::parse(&word).map(Operand::Float))
                    .ok_or_else(|| Error::usage(format!("expected a number, found {word:?}")))
            }
            other => {
                let found = other.map_or("the end".to_owned(), |token| token.to_string());
                Err(Error::usage(format!("expected a column or a value, found {found}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use arrow_array::{DictionaryArray, Float32Array, ListArray, UInt64Array, types::Int32Type};

    fn batch() -> RecordBatch {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![]),
        ]);
        RecordBatch::try_from_iter([
            ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(-3)])) as ArrayRef),
            ("u", Arc::new(UInt64Array::from(vec![u64::MAX, 2, 3]))),
            ("f", Arc::new(Float32Array::from(vec![0.5, 1.5, f32::NAN]))),
            (
                "p",
                Arc::new(decimals(&[1_234_567_890_123_456_789_011, 1_234_567_890_123_456_789_012, 150], 2)),
            ),
            ("q", Arc::new(decimals(&[12_345_678_901_234_567_890, 1, 2], 0))),
            ("t", Arc::new(StringArray::from(vec!["a", "b", "ab"]))),
            ("b", Arc::new(BooleanArray::from(vec![true, false, true]))),
            ("a b", Arc::new(lists)),
            ("d", Arc::new(DictionaryArray::<Int32Type>::from_iter([Some("a"), None, Some("b")]))),
        ])
        .unwrap()
    }

    fn decimals(values: &[i128], scale: i8) -> Decimal128Array {
        Decimal128Array::from(values.to_vec()).with_precision_and_scale(38, scale).unwrap()
    }

    fn rows(text: &str) -> Vec<bool> {
        Expression::parse(text).unwrap().evaluate(&batch()).unwrap().iter().flatten().collect()
    }

    #[test]
    fn what_is_true_of_rows() {
        let [yes, no] = [true, false];
        assert_eq!(rows("n = 1"), [yes, no, no]);
        assert_eq!(rows("not n = 1"), [no, no, yes]);
        assert_eq!(rows("n is null or n<0"), [no, yes, yes]);
        assert_eq!(rows("n is not null"), [yes, no, yes]);
        assert_eq!(rows("u > n"), [yes, no, yes]);
        assert_eq!(rows("u = 18446744073709551615.0"), [yes, no, no]);
        assert_eq!(rows("u = 18446744073709551615"), [yes, no, no]);
        assert_eq!(rows("u < 18446744073709551615 or u >= 99999999999999999999"), [no, yes, yes]);
        assert_eq!(rows("u = 18446744073709551614"), [no, no, no]);
        assert_eq!(rows("u > 1844674407370955161.45e1"), [yes, no, no]);
        assert_eq!(rows("u > 1e300 or u < 3e-300"), [no, no, no]);
        assert_eq!(rows("n < 1.00000000000000000000001"), [yes, no, yes]);
        assert_eq!(rows("p = 12345678901234567890.11"), [yes, no, no]);
        assert_eq!(rows("p > 12345678901234567890.11"), [no, yes, no]);
        assert_eq!(rows("p > 12345678901234567890 and p < 12345678901234567890.115"), [yes, no, no]);
        assert_eq!(rows("p = 1.5 or p = 15e-1"), [no, no, yes]);
        assert_eq!(rows("p > q"), [yes, yes, no]);
        assert_eq!(rows("q = 12345678901234567890"), [yes, no, no]);
        assert_eq!(rows("f >= 0.5 and f < 2"), [yes, yes, no]);
        assert_eq!(rows("f = 9007199254740992 or f > 0.12345678901234567890"), [yes, yes, no]);
        assert_eq!(rows("t = 'ab' or (t != 'b' and b)"), [yes, no, yes]);
        assert_eq!(rows("len(t) = 2"), [no, no, yes]);
        assert_eq!(rows("len(`a b`) > 0"), [yes, no, no]);
        assert_eq!(rows("`a b` is null"), [no, yes, no]);
        assert_eq!(rows("b"), [yes, no, yes]);
        assert_eq!(rows("b or n = 1"), [yes, no, yes]);
        assert_eq!(rows("not (b and n = 1)"), [no, yes, yes]);
        assert_eq!(rows("1 is null"), [no, no, no]);
        assert_eq!(rows("d = 'a' or d is null"), [yes, yes, no]);
        assert_eq!(rows("d < t"), [no, no, no]);
        assert_eq!(rows("len(d) = 1"), [yes, no, yes]);
    }

    #[test]
    fn mistakes_are_said() {
        for (text, said) in [
            ("", "expected a column or a value, found the end"),
            ("n =", "found the end"),
            ("1 = 1", "does not contain a column"),
            ("m = 1", "no such column"),
            ("n = 'x'", "cannot be compared"),
            ("n", "expected a comparison"),
            ("(n = 1", "parenthesis"),
            ("t = 'x", "missing closing"),
            ("n = 1 n", "expected the end"),
            ("n = 1-2", "expected a number"),
            ("f = 9007199254740993", "exactly"),
            (
                "n < 1.0000000000000000000000000000000000000000000000000000000000000000000000000000001",
                "exactly",
            ),
            ("n # 1", "unexpected character"),
        ] {
            let found = Expression::parse(text).and_then(|e| e.evaluate(&batch())).unwrap_err();
            assert!(found.to_string().contains(said), "{text}: {found}");
        }
        let deep = "not ".repeat(10_000) + "b";
        assert!(Expression::parse(&deep).unwrap_err().to_string().contains("too deep"));
    }
}
