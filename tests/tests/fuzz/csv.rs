//! Tests that the CSV reader handles arbitrary bytes without a panic.

use crate::drive;

/// Lines with columns of every kind.
const LINES: &str = "id,name,score,flag,day,at\n1,\"a,\"\"b\"\"\n\",0.5,true,2024-02-29,2024-02-29T12:30:00.5Z\n\
    -9223372036854775808,,NaN,False,,\n3,007,1e300,TRUE,1969-12-31,2024-02-29 00:00:00+02:00\n";

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_lines() {
    let seeds = [LINES.as_bytes().to_vec(), LINES.replace('\n', "\r\n").into_bytes()];
    drive("csv", &seeds);
}
