//! Runs the tests of the Python package. The wheel is built from the development build, and
//! installed in a separate environment together with the frameworks.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tensorferry_tests::ferry::run;
use tensorferry_tests::guide::{Chapter, WITH_PYTHON, clone};
use tensorferry_tests::workspace::{forget_package, root, workspace};
use tensorferry_tests::{Ferry, python};

/// Packages that the tests of the Python package need in addition to the frameworks.
const MORE: [&str; 5] = ["polars==2.1.0", "pandas==3.1.1", "duckdb==2.0.0", "pytest==9.2.0", "mypy==2.4.1"];
/// Packages to install without dependencies, and the dependencies that are needed. The full
/// dependencies would include a library that is too new for the frameworks, and scipy, which takes
/// 143 MB and is not used.
const ALONE: [&str; 8] = [
    "jax==0.10.2",
    "jaxlib==0.10.2",
    "datasets==4.1.1",
    "pytest-timeout==2.4.0",
    "dill",
    "multiprocess",
    "xxhash",
    "fsspec[http]",
];

#[test]
#[ignore = "needs the frameworks; builds and installs a wheel: minutes"]
fn the_package_does_what_its_tests_say() {
    let mut tests = Command::new(installed());
    tests.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]).arg(root().join("host/python/tests"));
    let outcome = run(tests.env("JAX_PLATFORMS", "cpu").current_dir(wheels())).expect(0);
    assert!(!outcome.stdout.contains(" skipped"), "{}", outcome.stdout);
}

#[test]
#[ignore = "needs the frameworks; builds and installs a wheel: minutes"]
fn the_guides_scripts_print_what_it_says() {
    for name in WITH_PYTHON {
        let ferry = Ferry::new();
        let clone = clone(ferry.home());
        Chapter::read(name).check(&clone, |script| {
            let mut shell = ferry.shell(script);
            let path = std::env::var("PATH").unwrap_or_default();
            let programs = installed().parent().expect("a program is in a folder").display();
            run(shell.env("PATH", format!("{programs}:{path}")).current_dir(&clone))
        });
    }
}

/// Returns the folder that contains the wheel.
fn wheels() -> PathBuf {
    workspace().target.join("wheels-of-tests")
}

/// Returns the interpreter of an environment with the package, installed once per process.
fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let (target, wheels) = (&workspace().target, wheels());
        let _ = std::fs::remove_dir_all(&wheels);
        let mut build = Command::new(root().join("host/python/build-wheel"));
        forget_package(&mut build);
        run(build.args(["--here", "--out"]).arg(&wheels).env("CARGO_TARGET_DIR", target)).expect(0);
        let wheel = std::fs::read_dir(&wheels).unwrap().next().unwrap().unwrap().path();
        let interpreter = environment(target);
        let mut install = pip(&interpreter);
        run(install.args(["--no-deps", "--force-reinstall"]).arg(&wheel)).expect(0);
        interpreter
    })
}

/// Returns an environment that includes the frameworks. The environment is created once for each
/// list of packages.
fn environment(target: &Path) -> PathBuf {
    let folder = target.join("package-venv");
    let (interpreter, done) = (folder.join("bin/python"), folder.join("done"));
    let wanted = format!("{MORE:?} {ALONE:?} {}", python::interpreter().display());
    if std::fs::read_to_string(&done).is_ok_and(|known| known == wanted) {
        return interpreter;
    }
    run(Command::new("python3").args(["-m", "venv", "--clear", "--without-pip"]).arg(&folder)).expect(0);
    let paths = "import sysconfig; print(sysconfig.get_path('purelib'), end='')";
    let purelib = |python: &Path| run(Command::new(python).args(["-c", paths])).expect(0).stdout;
    let link = Path::new(&purelib(&interpreter)).join("frameworks.pth");
    std::fs::write(link, purelib(python::interpreter())).unwrap();
    run(pip(&interpreter).args(MORE)).expect(0);
    run(pip(&interpreter).arg("--no-deps").args(ALONE)).expect(0);
    std::fs::write(&done, wanted).unwrap();
    interpreter
}

/// Returns a command that runs the frameworks' pip for this environment. Without compiled files,
/// which are rarely used, and without cached downloads, the environment takes 709 MB instead of 965
/// MB, and a third of the time.
fn pip(interpreter: &Path) -> Command {
    let mut pip = Command::new(python::interpreter());
    pip.args(["-m", "pip", "--python"]).arg(interpreter);
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-compile", "--no-cache-dir"]);
    pip
}
