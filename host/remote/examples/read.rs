//! Reads URLs completely, as a conversion does, and prints the throughput. Usage: `read MEMORY_MIB
//! URL...`. The environment variable `FERRY_STORE` contains store settings, separated by spaces.

use std::sync::Mutex;
use std::time::Instant;
use tensorferry_core::context::remote::Remote;
use tensorferry_remote::{Remotes, Settings};
use tensorferry_sdk::{Error, Result};

const WINDOW: usize = 1 << 20;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let memory: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(256);
    let settings = std::env::var("FERRY_STORE").unwrap_or_default();
    let settings: Vec<&str> = settings.split_whitespace().collect();
    let remotes = Remotes::new(Settings::new(&settings)?, memory << 20);
    for url in arguments {
        let started = Instant::now();
        let (place, path) = remotes.place(&url)?.ok_or_else(|| Error::usage("unsupported URL scheme"))?;
        let file = place.open(&path)?;
        let len = file.stamp().len;
        let opened = started.elapsed();
        file.advise(std::slice::from_ref(&(0..len)));
        let next = Mutex::new((0..len).step_by(WINDOW));
        std::thread::scope(|scope| {
            let work = || -> Result<()> {
                let mut buffer = vec![0; WINDOW];
                loop {
                    let start = next.lock().map_err(|_| Error::io("a thread failed"))?.next();
                    let Some(start) = start else { return Ok(()) };
                    let count = usize::try_from((len - start).min(WINDOW as u64)).unwrap_or(WINDOW);
                    file.read_at(start, &mut buffer[..count])?;
                }
            };
            let threads = [scope.spawn(work), scope.spawn(work)];
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| Error::io("a thread failed"))?)
        })?;
        file.check_unchanged()?;
        #[expect(clippy::cast_precision_loss, reason = "the rate is only displayed")]
        let rate = len as f64 / started.elapsed().as_secs_f64() / 1e6;
        println!("{len} bytes, opened in {opened:.2?}, {rate:.0} MB/s: {}", place.url(&path));
    }
    Ok(())
}
