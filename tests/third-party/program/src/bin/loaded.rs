//! Converts a file between the formats in a plugin folder: `loaded FOLDER INPUT OUTPUT`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let registry = tensorferry::Registry::load([&paths[0]]);
    let report = registry.convert(&paths[1], &paths[2]).verify(true).run()?;
    println!("{} tensors", report.tensors);
    Ok(())
}
