//! Tells the writer thread that another process may have changed the file, on Linux, so that it need not look often.

use std::io;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::{fs::File, mem::MaybeUninit, sync::Arc, thread, time::Duration};

#[cfg(target_os = "linux")]
use rustix::{
    fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch},
    io::Errno,
};

/// Watches the log, to which each commit writes, with a thread of its own.
#[cfg(target_os = "linux")]
pub(crate) struct Changes {
    inotify: Arc<File>,
    watch: i32,
}

#[cfg(target_os = "linux")]
impl Changes {
    /// Calls `tell` when the log was written to, until this is dropped. A commit that writes can be seen only a little
    /// later.
    pub(crate) fn of(log: &Path, tell: impl Fn() + Send + 'static) -> io::Result<Self> {
        /// Many writes in a row are told once.
        const PAUSE: Duration = Duration::from_millis(5);
        let inotify = Arc::new(File::from(init(CreateFlags::CLOEXEC)?));
        let watch = add_watch(&inotify, log, WatchFlags::MODIFY)?;
        let this = Self { inotify: Arc::clone(&inotify), watch };
        let run = move || {
            let mut room = [MaybeUninit::uninit(); 512];
            let mut events = Reader::new(&*inotify, &mut room);
            loop {
                match events.next() {
                    // The watch was removed.
                    Ok(event) if event.events().contains(ReadFlags::IGNORED) => return,
                    Ok(_) => {
                        tell();
                        thread::sleep(PAUSE);
                    }
                    Err(Errno::INTR) => {}
                    Err(_) => return,
                }
            }
        };
        thread::Builder::new()
            .name("syncguard-sqlite-log".to_owned())
            .stack_size(1 << 16)
            .spawn(run)?;
        Ok(this)
    }
}

#[cfg(target_os = "linux")]
impl Drop for Changes {
    fn drop(&mut self) {
        let _ = remove_watch(&self.inotify, self.watch);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) struct Changes;

#[cfg(not(target_os = "linux"))]
impl Changes {
    pub(crate) fn of(_: &Path, _: impl Fn() + Send + 'static) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write as _;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn each_write_is_told_until_the_end() {
        let mut log = tempfile::NamedTempFile::new().unwrap();
        let (told, tells) = channel();
        let changes = Changes::of(log.path(), move || told.send(()).unwrap()).unwrap();
        for _ in 0..3 {
            log.write_all(b"a page").unwrap();
            tells.recv().unwrap();
        }
        drop(changes);
        assert!(tells.recv().is_err(), "the thread has ended");
    }
}
