//! Installs servers and clients from package registries into the target folder. Each is installed
//! only once.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tensorferry_core::context::remote::{Remote, RemoteFile};
use tensorferry_remote::{Remotes, Settings};

/// Returns a folder that is kept between test runs.
fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

pub(crate) fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Returns a Python environment with moto and `huggingface_hub`. If the variable
/// `FERRY_TEST_REMOTE_VENV` is set, uses the environment at that path.
pub(crate) fn venv() -> &'static Path {
    static VENV: OnceLock<PathBuf> = OnceLock::new();
    VENV.get_or_init(|| {
        if let Some(path) = std::env::var_os("FERRY_TEST_REMOTE_VENV") {
            return path.into();
        }
        let path = kept("remote-venv");
        if !path.join("installed").exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&path));
            let packages = ["moto[server]==5.2.5", "huggingface_hub==2.4.0"];
            run(Command::new(path.join("bin/pip")).args(["install", "-q"]).args(packages));
            std::fs::write(path.join("installed"), "").unwrap();
        }
        path
    })
}

/// Returns the path of the Azurite executable.
pub(crate) fn azurite() -> PathBuf {
    let path = kept("remote-npm");
    let program = path.join("node_modules/.bin/azurite-blob");
    if !program.exists() {
        std::fs::create_dir_all(&path).unwrap();
        run(Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--prefix"])
            .arg(&path)
            .arg("azurite@3"));
    }
    program
}

/// Returns the path of the nginx executable from Debian.
pub(crate) fn nginx() -> PathBuf {
    let path = PathBuf::from("/usr/sbin/nginx");
    if !path.exists() {
        run(Command::new("apt-get").arg("update"));
        run(Command::new("apt-get").args(["install", "-y", "--no-install-recommends", "nginx-light"]));
    }
    path
}

/// A server process that is killed when the test ends.
pub(crate) struct Running {
    child: Child,
    pub(crate) port: u16,
}

impl Running {
    /// Starts a program and waits until its port accepts connections.
    pub(crate) fn start(port: u16, command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut running = Self { child, port };
        let since = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(running.child.try_wait().unwrap().is_none(), "{command:?} ended");
            assert!(since.elapsed() < Duration::from_secs(60), "{command:?} does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn remotes(memory: u64, pairs: &[&str]) -> Remotes {
    Remotes::new(Settings::with_environment(pairs, []).unwrap(), memory)
}

/// Reads a whole file with two threads in windows of 1 MiB, as the copy stage of a conversion does.
pub(crate) fn read_whole(file: &dyn RemoteFile) -> Vec<u8> {
    const WINDOW: usize = 1 << 20;
    let len = usize::try_from(file.stamp().len).unwrap();
    let mut bytes = vec![0; len];
    let windows = std::sync::Mutex::new(bytes.chunks_mut(WINDOW).enumerate());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = windows.lock().unwrap().next();
                    let Some((number, window)) = next else { break };
                    file.read_at((number * WINDOW) as u64, window).unwrap();
                }
            });
        }
    });
    bytes
}

pub(crate) fn open(remotes: &Remotes, url: &str) -> std::sync::Arc<dyn RemoteFile> {
    let (place, path) = remotes.place(url).unwrap().unwrap();
    place.open(&path).unwrap()
}
