//! A launcher that makes one of a program's system calls fail, as happens on older kernels, in
//! sandboxes and on unusual file systems.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A system call that fails.
#[derive(Debug, Clone, Copy)]
pub struct Call(pub &'static str);

/// The error that the system call returns.
#[derive(Debug, Clone, Copy)]
pub struct Errno(pub &'static str);

const LAUNCHER: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALL, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ERROR),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    if (count < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 99;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 99;
    execv(words[1], words + 1);
    return 98;
}
"#;

/// Compiles a launcher into `folder`, and returns its path. `LAUNCHER PROGRAM ARGUMENT...` runs the
/// program with the failing system call.
///
/// # Panics
///
/// Panics if no C compiler is available.
#[must_use]
pub fn launcher(folder: &Path, call: Call, error: Errno) -> PathBuf {
    let (source, program) =
        (folder.join("launcher.c"), folder.join(format!("without-{}-{}", call.0, error.0)));
    std::fs::write(&source, LAUNCHER).unwrap();
    let defines = [format!("-DCALL=SYS_{}", call.0), format!("-DERROR={}", error.0)];
    let compiled = Command::new("cc").args(defines).arg("-o").arg(&program).arg(&source).status().unwrap();
    assert!(compiled.success(), "the launcher does not compile");
    program
}
