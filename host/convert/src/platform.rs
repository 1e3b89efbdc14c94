//! Calls that differ between Linux and macOS. Both variants have the same functions.

pub(crate) use system::{block_size, copy_range};

#[cfg(target_os = "linux")]
mod system {
    use rustix::fs::{copy_file_range, fstatfs};
    use std::fs::File;

    /// Magic numbers (`statfs(2)`) of file systems that can share whole blocks: btrfs, xfs, bcachefs,
    /// ocfs2.
    const SHARING: [u64; 4] = [0x9123_683e, 0x5846_5342, 0xca45_1a4e, 0x7461_636f];

    /// Magic numbers of file systems whose server can copy any range of bytes: nfs, cifs, smb2.
    const SERVING: [u64; 3] = [0x6969, 0xff53_4d42, 0xfe53_4d42];

    /// The alignment that shared blocks need in the source and in the output, in bytes.
    const BLOCK: u64 = 4096;

    /// Returns the alignment that extents need on this file's file system, or `None` if copying in
    /// the kernel has no advantage there.
    pub(crate) fn block_size(file: &File) -> Option<u64> {
        // The magic numbers have 32 bits and are sign-extended on some platforms.
        let magic = fstatfs(file).ok()?.f_type.cast_unsigned() & 0xffff_ffff;
        let sharing = SHARING.contains(&magic).then_some(BLOCK);
        sharing.or(SERVING.contains(&magic).then_some(1))
    }

    /// Copies bytes between files in the kernel, and returns how many it copied; 0 if it refuses.
    pub(crate) fn copy_range(source: &File, mut from: u64, output: &File, mut to: u64, len: usize) -> usize {
        copy_file_range(source, Some(&mut from), output, Some(&mut to), len).unwrap_or(0)
    }
}

#[cfg(target_os = "macos")]
mod system {
    use std::fs::File;

    /// Returns `None`: the kernel does not copy ranges between files.
    pub(crate) fn block_size(_: &File) -> Option<u64> {
        None
    }

    /// Returns 0: the kernel does not copy ranges between files.
    pub(crate) fn copy_range(_: &File, _: u64, _: &File, _: u64, _: usize) -> usize {
        0
    }
}
