//! Renders a `report.json` file as an HTML page, for the development of the page: `cargo run
//! --package tensorferry-run --example report < report.json > report.html`

use tensorferry_run::report::render;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let summary = serde_json::from_reader(std::io::stdin().lock())?;
    print!("{}", render(&summary));
    Ok(())
}
